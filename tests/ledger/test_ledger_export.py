"""An export is the whole ledger: it can be checked without it, and any change to it is noticed."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_samples import release

from colonnade.crypto.sealing import SigningKey, signed_by
from colonnade.errors import LedgerAltered, LedgerError
from colonnade.ledger import Ledger, Receipt
from colonnade.ledger.bounds import Account
from colonnade.ledger.export import export, load_export, read_export
from colonnade.ledger.state import remaining_epsilon
from colonnade.privacy.events import Gaussian
from colonnade.report.ledgers import history, history_csv

KEY = SigningKey(bytes(range(32)))


def book(charges: int = 2, *, budget: float = 3.0) -> Ledger:
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("adult", "record", "server", epsilon=budget, delta=1e-5)
    for number in range(charges):
        ledger.charge(release(f"r{number}", event=Gaussian(sensitivity=1.0, sigma=8.0)), "adult")
    return ledger


def _with(change: Any) -> str:
    data = json.loads(export(book(), KEY))
    change(data)
    return json.dumps(data)


def test_an_export_has_every_entry_the_same_totals_and_the_key_that_signed_it() -> None:
    ledger = book()
    found = read_export(export(ledger), where="bank.json")
    assert found.entries == ledger.entries()
    assert found.totals == ledger.totals()
    assert found.head == ledger.receipt().head
    assert found.signer is None
    text = export(book(), KEY)
    assert read_export(text, where="bank.json").signer == KEY.public.hex()
    assert read_export(text, where="bank.json", signer=KEY.public).party == "bank"


@pytest.mark.parametrize(
    ("text", "wanted", "error", "why"),
    [
        (export(book()), KEY.public, LedgerAltered, "is not signed"),
        (export(book(), KEY), bytes(32), LedgerAltered, "signed by another key"),
        (export(book())[:-40], None, LedgerAltered, "cut off"),
        ('{"format": "colonnade ledger 1"}', None, LedgerAltered, "lacks what an export has"),
        ('{"format": "colonnade ledger 7"}', None, LedgerError, "its format is 'colonnade ledger 7'"),
        (_with(lambda data: data["signature"].update(value="00" * 64)), None, LedgerAltered, "signature"),
        (_with(lambda data: data["signature"].pop("value")), None, LedgerAltered, "signature"),
    ],
    ids=["unsigned", "another key", "cut off", "empty", "newer", "another signature", "no signature"],
)
def test_an_export_that_is_not_what_was_asked_for_is_refused(
    text: str, wanted: bytes | None, error: type[LedgerError], why: str
) -> None:
    with pytest.raises(error, match=why):
        read_export(text, where="bank.json", signer=wanted)


CHANGES = (
    lambda data: data["entries"].pop(2),
    lambda data: data["entries"].pop(),
    lambda data: data.update(party="shop"),
    lambda data: data.update(head="0" * 64),
    lambda data: data["entries"][2].update(text=data["entries"][2]["text"].replace("8.0", "9.0")),
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("signed", [True, False])
def test_a_changed_export_is_noticed_with_and_without_a_signature(change: Any, signed: bool) -> None:
    def changed(data: Any) -> None:
        change(data)
        if not signed:
            data.pop("signature")

    with pytest.raises(LedgerAltered):
        read_export(_with(changed), where="bank.json")


def test_exports_that_are_cut_short_or_none_are_told_as_that(tmp_path: Path) -> None:
    ledger = book()
    late = ledger.receipt()
    short = book(1)
    with pytest.raises(LedgerAltered, match="cut off"):
        read_export(export(short), where="bank.json", receipts=[Receipt("bank", late.entry, late.head)])
    with pytest.raises(LedgerError, match="cannot be read"):
        load_export(tmp_path / "none.json")
    path = tmp_path / "odd.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LedgerError, match="not text"):
        load_export(path)


@given(message=st.binary(max_size=50), purpose=st.text(max_size=10), other=st.text(max_size=10))
def test_a_signature_is_for_one_message_and_one_purpose(message: bytes, purpose: str, other: str) -> None:
    signature = KEY.sign(message, purpose=purpose)
    assert signed_by(KEY.public, signature, message, purpose=purpose)
    assert not signed_by(KEY.public, signature, message + b"x", purpose=purpose)
    assert signed_by(KEY.public, signature, message, purpose=other) == (other == purpose)


@pytest.mark.parametrize("charges", [0, 3])
def test_what_fits_is_admitted_and_a_little_more_is_not(charges: int) -> None:
    from colonnade.ledger.state import LedgerState
    from colonnade.privacy.renyi import gaussian_mu

    ledger = book(charges)
    known = LedgerState("bank")
    for entry in ledger.entries():
        known.read(entry)
    fits = remaining_epsilon(known, Account("adult", "record", "server"))
    spent = known.lost(Account("adult", "record", "server"), 1e-5)

    def after(epsilon: float) -> float:
        return spent.epsilon(1e-5, Gaussian(1.0, 1.0 / gaussian_mu(epsilon, 1e-5)))

    assert after(fits) <= 3.0 < after(fits + 0.1)


def test_the_history_ends_where_the_ledger_stands() -> None:
    ledger = book()
    found = history(ledger.entries())
    assert [item.entry.kind for item in found] == ["budget", "charge", "charge"]
    (total,) = ledger.totals()
    assert found[-1].total == total
    assert history_csv(ledger.entries()).count("\n") == 4
