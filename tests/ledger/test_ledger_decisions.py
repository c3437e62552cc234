"""What people decided stands in a ledger, beside all that earlier formats hold."""

import shutil
from pathlib import Path

import pytest
from ledger_samples import DECISION, append, format_of, ledger_with_history, release

from colonnade.errors import LedgerAltered, LedgerNewer
from colonnade.federation.federation import ledger_state
from colonnade.ledger import Ledger
from colonnade.ledger import entry_store as layout
from colonnade.ledger.state import prospects

KEPT = Path(__file__).parent / "kept" / "format-4.ledger"


def test_a_ledger_of_format_4_is_read_and_takes_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bank.ledger"
    shutil.copy(KEPT, path)
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
    monkeypatch.setattr(layout, "FORMAT", 4)
    with pytest.raises(
        LedgerNewer, match="written in ledger format 5; this version of Colonnade reads up to 4"
    ):
        Ledger.open(path)


@pytest.mark.parametrize("change", [{"by": ""}, {"request": "x"}, {"approved": "yes"}, {"costs": [["a"]]}])
def test_a_decision_of_nobody_about_nothing_is_not_an_entry(
    tmp_path: Path, change: dict[str, object]
) -> None:
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
