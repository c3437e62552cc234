"""What a ledger holds beside charges, in old formats too, and an export: the whole ledger, to be checked without it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_samples import DECISION, append, format_of, ledger_with_history, release

from colonnade.crypto.sealing import SigningKey, signed_by
from colonnade.errors import LedgerAltered, LedgerError, PolicyRefused
from colonnade.federation.federation import ledger_state
from colonnade.ledger import Ledger, Receipt
from colonnade.ledger.export import export, load_export, parse_key, read_export
from colonnade.ledger.state import prospects
from colonnade.privacy.events import Gaussian
from colonnade.report.facts import entries_facts
from colonnade.report.ledgers import history, history_csv

KEPT = Path(__file__).parent / "kept"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger that a version without comparisons wrote."""
    return Path(shutil.copy(KEPT / "format-1.ledger", tmp_path / "bank.ledger"))


def test_a_comparison_is_written_once_a_run_with_its_time_and_no_count() -> None:
    ledger = Ledger.in_memory("bank")
    for dataset, partners, run in (
        ("customers", ["shop"], "r1"),
        ("customers", ["shop"], "r1"),
        ("others", ["shop"], "r1"),
        ("customers", ["insurer"], "r1"),
        ("customers", ["insurer", "shop"], "r2"),
    ):
        ledger.note_comparison(dataset, partners, run=run)
    assert [comparison.run for comparison in ledger.comparisons()] == ["r1", "r1", "r1", "r2"]
    *_, entry = ledger.entries()
    assert (entry.kind, dict(entry.body)) == (
        "compared",
        {"dataset": "customers", "partners": ["insurer", "shop"], "run": "r2"},
    )
    assert ledger.comparisons()[-1].time == entry.time
    assert ledger.totals() == () and ledger.verify().entries == 5


def test_whoever_forbids_a_comparison_sees_those_before_it_and_nothing_is_written() -> None:
    ledger = Ledger.in_memory("bank")
    ledger.note_comparison("customers", ["insurer"], run="r1")
    seen = []

    def never(earlier: object) -> None:
        seen.append(earlier)
        raise PolicyRefused("enough")

    with pytest.raises(PolicyRefused):
        ledger.note_comparison("customers", ["shop"], run="r2", allowed=never)
    assert seen == [ledger.comparisons()] and len(ledger.entries()) == 2
    # The run that was written down goes on, whatever the limit is now.
    ledger.note_comparison("customers", ["insurer"], run="r1", allowed=never)


def test_a_ledger_of_format_1_is_read_and_takes_the_new_number_with_its_next_entry(old: Path) -> None:
    ledger = Ledger.open(old)
    (total,) = ledger.totals()
    assert (total.dataset, total.observer, total.entries) == ("customers", "server", 1)
    assert total.epsilon == pytest.approx(0.43441638009089256, rel=1e-14)
    assert ledger.receipt().head == "8b664deb9ad257c245c7c7bfe2705fb32fd38110e8d50fbd6fad6e868e2e46c4"
    assert format_of(old) == 1
    ledger.note_comparison("customers", ["insurer"], run="r1")
    assert format_of(old) == 5
    assert Ledger.open(old).verify().entries == 5


def test_an_export_and_the_history_have_comparisons_and_exports_of_earlier_formats_are_read() -> None:
    ledger = Ledger.in_memory("bank")
    for earlier in ("ledger 1", "ledger 2", "ledger 3"):
        assert read_export(export(ledger).replace("ledger 4", earlier), where="bank.json").party == "bank"
    for other, says in (
        (7, "says otherwise"),
        ("a list", "says otherwise"),
        ("colonnade ledger 9", "reads up to"),
    ):
        with pytest.raises(LedgerError, match=says):
            read_export(json.dumps({"format": other}), where="bank.json")
    with pytest.raises(ValueError):
        parse_key(f"colonnade signing key 2 {KEY.secret.hex()}")
    ledger.note_comparison("customers", ["insurer", "shop"], run="5f0c" * 8)
    exported = read_export(export(ledger), where="bank.json")
    assert [entry.kind for entry in exported.entries] == ["opened", "compared"]
    record, _ = entries_facts(ledger.entries())
    assert record.entries[-1].what == "ids of 'customers' compared with insurer, shop, run 5f0c5f0c5f0c"


def test_a_comparison_with_nobody_is_not_an_entry(old: Path) -> None:
    assert append(old, "compared", {"dataset": "d", "partners": [], "run": "r"}) == 5
    with pytest.raises(LedgerAltered, match="entry 5 is not one that Colonnade writes"):
        Ledger.open(old)


def test_a_ledger_of_format_4_is_read_and_takes_decisions(tmp_path: Path) -> None:
    path = Path(shutil.copy(KEPT / "format-4.ledger", tmp_path / "bank.ledger"))
    ledger = Ledger.open(path)
    assert ledger.receipt().head == "90a745f026b1927ca2e026f93c71c196464d9dc05256392c23629457200c1a9a"
    (before,) = ledger.totals()
    assert before.part == "training"
    assert before.epsilon == pytest.approx(0.43441638009089256, rel=1e-14)
    assert not ledger.decisions()
    assert format_of(path) == 4
    for _ in range(2):
        ledger.note_decision(DECISION)
    (found,) = Ledger.open(path).decisions("j1")
    assert found.statement == DECISION.statement and found.time
    assert ledger.totals() == (before,) and ledger.verify().entries == 5
    assert format_of(path) == 5


@pytest.mark.parametrize("change", [{"by": ""}, {"request": "x"}, {"approved": "yes"}, {"costs": [["a"]]}])
def test_a_decision_about_nothing_is_not_an_entry(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "bank.ledger"
    Ledger.create(path, "bank")
    append(path, "decision", {**DECISION.to_data(), **change})
    with pytest.raises(LedgerAltered, match="entry 2 is not one that Colonnade writes"):
        Ledger.open(path)


def test_what_a_release_would_leave_is_what_it_leaves(tmp_path: Path) -> None:
    ledger, _ = ledger_with_history(tmp_path / "bank.ledger")
    (foretold,) = prospects(ledger_state(ledger), release("next"), "adult")
    (before,) = ledger.totals()
    ledger.charge(release("next"), "adult")
    (after,) = ledger.totals()
    assert (foretold.before, foretold.left) == (before.left, after.left)
    assert before.left - after.left <= foretold.epsilon


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


@settings(max_examples=20)
@given(message=st.binary(max_size=50), purpose=st.text(max_size=10), other=st.text(max_size=10))
def test_a_signature_is_for_one_message_and_one_purpose(message: bytes, purpose: str, other: str) -> None:
    signature = KEY.sign(message, purpose=purpose)
    assert signed_by(KEY.public, signature, message, purpose=purpose)
    assert not signed_by(KEY.public, signature, message + b"x", purpose=purpose)
    assert signed_by(KEY.public, signature, message, purpose=other) == (other == purpose)


def test_the_history_ends_where_the_ledger_stands() -> None:
    ledger = book()
    found = history(ledger.entries())
    assert [item.entry.kind for item in found] == ["budget", "charge", "charge"]
    (total,) = ledger.totals()
    assert found[-1].total == total
    assert history_csv(ledger.entries()).count("\n") == 4
