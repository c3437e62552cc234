"""That ids were compared is in the ledger: once a run, before it can be refused too late, in a format with a number."""

import shutil
from pathlib import Path

import pytest
from ledger_samples import append, format_of

from colonnade.errors import LedgerAltered, LedgerNewer, PolicyRefused
from colonnade.ledger import Ledger
from colonnade.ledger import entry_store as layout
from colonnade.ledger.export import export, read_export
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
