"""Moments by class with checks: indicators that are not one-hot, and products that are none, stop the run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ideals import ideal_moments
from lying_parties import adding_to_products, proving_short_rows
from margin_runs import Silence
from test_conditional_moments import run_plan
from test_noisy_moments import NAMES, plan_for, tables_of

from colonnade.errors import PlanError, RowsNotProved
from colonnade.methods.moments import protocol as conditional
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.runtime.party import Group, Party


def planned(verify: Any = "all", count: int = 2, rows: int = 60) -> tuple[list[Any], MomentsPlan]:
    parties = NAMES[:count]
    tables = tables_of(parties, rows, active=parties[0])
    return tables, plan_for(tables, Group.of(parties, active=parties[0]), conditional=True, verify=verify)


def silent(plan: MomentsPlan) -> MomentsPlan:
    plan = replace(plan)
    plan.__dict__.update(noise=Silence(), views=())
    return plan


@pytest.mark.parametrize("count", [2, 3])
def test_checked_moments_by_class_are_the_ideal(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MomentsPlan, "block", property(lambda self: 25))
    tables, plan = planned(count=count)
    outcome = run_plan(silent(plan), tables)
    aligned = {name: outcome.results[name][1] for name in plan.group.owners}
    assert plan.verify == "all"
    assert outcome.results["server"][0].tolist() == ideal_moments(aligned, plan).tolist()


def test_a_plan_by_class_says_what_is_checked_and_costs_no_more_noise() -> None:
    plans = [planned(verify)[1] for verify in ("none", "all")]
    assert plans[0].mu == plans[1].mu and plans[0].hash != plans[1].hash
    assert all("deviate" in stated.assumption for stated in plans[1].guarantees)
    assert not any("deviate" in stated.assumption for stated in plans[0].guarantees)
    assert planned(None)[1].verify == "none"
    with pytest.raises(PlanError, match="Write verify = 'all', or 'none'"):
        planned("rows")


@pytest.fixture
def dealing(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, Callable[[np.ndarray, MomentsPlan], None]], None]:
    """Let an owner deal other integers than its own, with pads as for short rows."""

    def arrange(owner: str, change: Callable[[np.ndarray, MomentsPlan], None]) -> None:
        honest = conditional.dealt_by_class

        def dealt(name: str, block: Any, plan: Any, party: Party | None = None) -> Any:
            found = honest(name, block, plan, party).astype(np.int64)
            if name == owner:
                change(found, plan)
            return found

        monkeypatch.setattr(conditional, "dealt_by_class", dealt)
        proving_short_rows(monkeypatch)

    return arrange


def mark(value: int) -> Callable[[np.ndarray, MomentsPlan], None]:
    """Another indicator of the first class for one person."""

    def change(rows: np.ndarray, plan: MomentsPlan) -> None:
        rows[:, plan.label.width * plan.widths["bank"] :] = 0
        rows[17, plan.label.width * plan.widths["bank"]] = value

    return change


def test_a_holder_with_a_large_indicator_reads_a_person_where_nobody_checks(dealing: Any) -> None:
    """The person's columns are multiplied by it, and beside them stands the constant, multiplied too."""
    dealing("bank", mark(1 << 20))
    tables, plan = planned("none")
    outcome = run_plan(plan, tables)
    matrix = outcome.results["server"][0][plan.class_span(0), plan.class_span(0)]
    own = plan.widths["bank"]
    constant = plan.label.constant(plan.gamma)
    found = np.rint(matrix[own:-1, -1] / (float(1 << 40) * constant)).astype(int)
    theirs = plan.quantizers["insurer"].quantize(next(outcome.results["insurer"][1].blocks(60)))[17]
    assert found.tolist() == theirs.tolist()


@pytest.mark.parametrize("value", [1 << 20, 2, -1])
def test_an_indicator_that_is_not_one_stops_the_run(dealing: Any, value: int) -> None:
    """Also −1, of norm 1: it leaves 2 for the last class."""
    dealing("bank", mark(value))
    tables, plan = planned()
    with pytest.raises(RowsNotProved, match="at step 'columns 0': what bank dealt was not proved"):
        run_plan(plan, tables)


def test_two_classes_at_once_stop_the_run(dealing: Any) -> None:
    def both(rows: np.ndarray, plan: MomentsPlan) -> None:
        start = plan.label.width * plan.widths["bank"]
        rows[5, start : start + 2] = 1

    dealing("bank", both)
    tables, plan = planned()
    with pytest.raises(RowsNotProved, match="what bank dealt was not proved"):
        run_plan(plan, tables)


@pytest.mark.parametrize("liar", ["bank", "server"])
def test_a_keeper_that_adds_to_a_product_by_class_is_stopped(
    monkeypatch: pytest.MonkeyPatch, liar: str
) -> None:
    tables, plan = planned()
    adding_to_products(monkeypatch, liar, plan.group, place=3, value=1)
    with pytest.raises(RowsNotProved, match=f"at step 'classes 0': what {liar} dealt was not proved"):
        run_plan(plan, tables)
