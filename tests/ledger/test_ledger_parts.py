"""Totals by part: in a world where the truth is known, and over files of earlier formats."""

import itertools
import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_samples import DELTA

from colonnade.errors import BudgetExceeded
from colonnade.ledger import HoldoutSplit, Ledger, LedgerLine, Part, Release
from colonnade.ledger.bounds import Account
from colonnade.ledger.release import PARTS, PartName
from colonnade.ledger.state import LedgerState
from colonnade.privacy.events import Event, Gaussian

KEPT = Path(__file__).parent / "kept"

CUTS = ("a" * 64, "b" * 64, "c" * 64)
UNITS = ("record", "record-replaced", "others-part", "own-part:bank", "columns:bank")
CHOICES = (None, *(Part(cut, name) for cut in CUTS for name in PARTS))


def release(name: str, part: Part | None, mu: float = 0.1) -> Release:
    lines = tuple(LedgerLine("party:shop", unit, Gaussian(mu, 1.0)) for unit in UNITS)
    return Release(name, name, "5f0c", "a sum", "server", lines, False, owners=("bank", "shop"), part=part)


def squares(events: Counter[Event]) -> float:
    return math.fsum(
        times * float(event.sensitivity) ** 2
        for event, times in events.items()
        if isinstance(event, Gaussian)
    )


def truth(parts: Any, unit: str) -> Any:
    """μ² of the person who lost most: somebody is in one part of every cut, in every combination."""
    if unit.startswith("columns"):
        return sum(mu**2 for _, mu in parts)
    return max(
        sum(mu**2 for part, mu in parts if part is None or places[CUTS.index(part.cut)] == part.name)
        for places in itertools.product(PARTS, repeat=len(CUTS))
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CHOICES), st.integers(1, 9)), min_size=1, max_size=7))
def test_no_total_by_part_is_below_the_truth(drawn: list[tuple[Part | None, int]]) -> None:
    book = LedgerState("here")
    releases = book.released.setdefault("people", [])
    done: list[tuple[Part | None, float]] = []
    before = dict.fromkeys(UNITS, 0.0)
    for number, (part, tenths) in enumerate(drawn):
        releases.append(release(f"r{number}", part, tenths / 10))
        done.append((part, tenths / 10))
        splits = {part.cut for part, _ in done if part is not None}
        for unit in UNITS:
            spent = book.lost(Account("people", unit, "party:shop"), DELTA)
            of_parts = [squares(spent.events + own) for own in spent.parts.values()]
            total = max([squares(spent.events), *of_parts])
            lost = truth(done, unit)
            assert total >= lost * (1 - 1e-9)
            assert total >= before[unit] * (1 - 1e-9)
            if len(splits) <= 1:
                # With one cut nothing is counted that somebody did not lose.
                assert total == pytest.approx(lost)
            before[unit] = total


def test_the_world_would_notice_parts_of_two_cuts_counted_apart() -> None:
    """A control: somebody can be in a part of each, and then both are lost."""
    both = [(Part(CUTS[0], "training"), 1.0), (Part(CUTS[1], "held-out"), 1.0)]
    assert truth(both, "record") == 2.0
    assert truth([(Part(CUTS[0], "training"), 1.0), (Part(CUTS[0], "held-out"), 1.0)], "record") == 1.0


def test_a_budget_that_one_part_has_spent_is_there_for_the_other() -> None:
    ledger, cut = Ledger.in_memory("bank"), CUTS[0]
    ledger.set_budget("people", "*", "*", epsilon=10.0, delta=DELTA)
    ledger.set_budget("people", "record", "*", epsilon=1.0, delta=DELTA)
    ledger.charge(release("train", Part(cut, "training"), 0.25), "people")
    with pytest.raises(BudgetExceeded):
        ledger.charge(release("again", Part(cut, "training"), 0.25), "people")
    with pytest.raises(BudgetExceeded):
        ledger.charge(release("otherwise", Part(CUTS[1], "held-out"), 0.25), "people")
    ledger.charge(release("judge", Part(cut, "held-out"), 0.25), "people")
    assert len(ledger.totals()) == len(UNITS)


def test_another_cut_counts_in_full_and_parts_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bank.ledger"
    ledger = Ledger.create(path, "bank")
    ledger.set_budget("people", "*", "*", epsilon=1.0, delta=DELTA)
    found = []
    parts: list[tuple[str, PartName]] = [(CUTS[0], "training"), (CUTS[0], "held-out"), (CUTS[1], "held-out")]
    for cut, part in parts:
        ledger.charge(release(f"{cut[0]} {part}", Part(cut, part), 0.1), "people")
        (record,) = (total for total in Ledger.open(path).totals() if total.unit == "record")
        found.append((record.otherwise, record.epsilon))
    assert [otherwise for otherwise, _ in found] == [0, 0, 1]
    assert found[0][1] == found[1][1] < found[2][1]
    assert Ledger.open(path).totals() == ledger.totals()


def test_a_ledger_of_format_2_is_read_and_its_totals_stay(tmp_path: Path) -> None:
    path = tmp_path / "bank.ledger"
    shutil.copy(KEPT / "bank-format-2.ledger", path)
    ledger = Ledger.open(path)
    then = json.loads((KEPT / "totals.json").read_text())["bank-format-2.ledger"]
    now = {f"{total.unit} {total.observer}": total.epsilon for total in ledger.totals()}
    assert now == pytest.approx(then)
    assert not any(total.part or total.otherwise for total in ledger.totals())


def test_who_is_held_out_depends_on_key_and_id_alone() -> None:
    ids = [f"person {number}" for number in range(4000)]
    cut = HoldoutSplit(b"k" * 32, 0.2, "column n")
    held_out = cut.held_out(ids)
    # A share of 0.2 of 4,000: five standard deviations are 126.
    assert abs(int(held_out.sum()) - 800) < 126
    order = np.argsort(ids)[::-1]
    assert np.array_equal(cut.held_out([ids[place] for place in order]), held_out[order])
    assert not np.array_equal(HoldoutSplit(b"l" * 32, 0.2, "column n").held_out(ids), held_out)
    # A larger share holds out the same people and more: the digests still tell the two cuts apart.
    larger = HoldoutSplit(b"k" * 32, 0.3, "column n")
    assert (larger.held_out(ids) >= held_out).all() and larger.digest != cut.digest
