"""That ids were compared is in the ledger: once a run, before it can be refused too late, in a format with a number."""

import shutil
from pathlib import Path

import pytest
from ledger_samples import DECISION, append, format_of, ledger_with_history, release

from colonnade.errors import LedgerAltered, LedgerNewer, PolicyRefused
from colonnade.federation.federation import ledger_state
from colonnade.ledger import Ledger
from colonnade.ledger import entry_store as layout
from colonnade.ledger.export import export, read_export
from colonnade.ledger.state import prospects
from colonnade.report.facts import entries_facts

KEPT = Path(__file__).parent / "kept" / "format-1.ledger"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger that a version without comparisons wrote."""
    return Path(shutil.copy(KEPT, tmp_path / "bank.ledger"))


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


def test_a_ledger_of_format_1_is_read_as_it_was_and_takes_the_new_number_with_its_next_entry(
    old: Path,
) -> None:
    ledger = Ledger.open(old)
    (total,) = ledger.totals()
    assert (total.dataset, total.observer, total.entries) == ("customers", "server", 1)
    assert total.epsilon == pytest.approx(0.43441638009089256, rel=1e-14)
    assert ledger.receipt().head == "8b664deb9ad257c245c7c7bfe2705fb32fd38110e8d50fbd6fad6e868e2e46c4"
    assert format_of(old) == 1
    ledger.note_comparison("customers", ["insurer"], run="r1")
    assert format_of(old) == 5
    assert Ledger.open(old).verify().entries == 5


def test_a_version_that_knows_no_comparisons_refuses_such_a_ledger_by_its_number(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.open(old).note_comparison("customers", ["insurer"], run="r1")
    monkeypatch.setattr(layout, "FORMAT", 1)
    with pytest.raises(
        LedgerNewer, match="written in ledger format 5; this version of Colonnade reads up to 1"
    ):
        Ledger.open(old)


def test_an_export_and_the_history_have_comparisons_and_exports_of_earlier_formats_are_read() -> None:
    ledger = Ledger.in_memory("bank")
    for earlier in ("ledger 1", "ledger 2", "ledger 3"):
        assert read_export(export(ledger).replace("ledger 4", earlier), where="bank.json").party == "bank"
    ledger.note_comparison("customers", ["insurer", "shop"], run="5f0c" * 8)
    exported = read_export(export(ledger), where="bank.json")
    assert [entry.kind for entry in exported.entries] == ["opened", "compared"]
    record, _ = entries_facts(ledger.entries())
    assert record.entries[-1].what == "ids of 'customers' compared with insurer, shop, run 5f0c5f0c5f0c"


@pytest.mark.parametrize("body", [{"dataset": "d", "run": "r"}, {"dataset": "d", "partners": [], "run": "r"}])
def test_a_comparison_with_nobody_is_not_an_entry(old: Path, body: dict[str, object]) -> None:
    assert append(old, "compared", body) == 5
    with pytest.raises(LedgerAltered, match="entry 5 is not one that Colonnade writes"):
        Ledger.open(old)


# What people decided stands in a ledger, beside all that earlier formats hold.


DECIDED_KEPT = Path(__file__).parent / "kept" / "format-4.ledger"


def test_a_ledger_of_format_4_is_read_and_takes_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bank.ledger"
    shutil.copy(DECIDED_KEPT, path)
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
