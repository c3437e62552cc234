"""Moments by class against their ideal twin, with their noise and with checks, and what a release says of them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ideals import ideal_moments
from lying_parties import adding_to_products, proving_short_rows
from margin_runs import Silence
from plan_runs import inputs_for, run_protocol
from test_noisy_moments import LABELS, NAMES, Witnessed, plan_for, tables_of
from typed import untyped

from colonnade.crypto.sharing import Shamir
from colonnade.errors import LabelMismatch, LocalProtocolError, PlanError, RowsNotProved
from colonnade.federation.federation import Federation
from colonnade.methods.moments import protocol as conditional
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.moments.protocol import conditional_moments
from colonnade.models.release import MomentRelease
from colonnade.numbers.field import FIELD63
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.sharing import Shared, lower
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import run_here

run_plan = partial(run_protocol, conditional_moments)


@pytest.mark.parametrize(
    ("count", "holder", "computing_parties"),
    [(2, 0, None), (2, 1, None), (3, 1, None), (5, 2, None), (2, 0, ("one", "two", "three"))],
)
def test_without_noise_moments_by_class_are_the_ideal(
    count: int, holder: int, computing_parties: tuple[str, str, str] | None
) -> None:
    parties = NAMES[:count]
    tables = tables_of(parties, 130, active=parties[holder], seed=count)
    more = {} if computing_parties is None else {"computing_parties": computing_parties}
    group = Group.of(parties, active=parties[holder], **untyped(more))
    plan = plan_for(tables, group, conditional=True)
    plan.__dict__.update(noise=Silence(), views=(), block=50)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_moments(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


def test_what_is_opened_by_class_is_the_ideal_plus_every_owners_noise() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    plan = plan_for(tables, Group.of(("bank", "insurer"), active="bank"), conditional=True)
    drawn: list[Any] = []
    plan.__dict__["noise"] = Witnessed(untyped(plan.noise), drawn)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    ideal = ideal_moments({name: outcome.results[name][1] for name in plan.group.owners}, plan)
    classes = len(LABELS["classification"].split("classes=")[1].split(","))
    assert len(drawn) == 3 * classes, "both owners and the server draw noise for every class"
    noise = opened - ideal.astype(np.int64)
    diagonals = [np.diag(noise)[plan.class_span(kind)] for kind in range(classes)]
    # Owners run at once, so whose draw came first is not known; their sum over all draws is.
    assert sum(d.sum() for d in diagonals) == sum(np.diag(one).sum() for one in drawn)
    assert not noise[plan.class_span(0), plan.class_span(1)].any(), "products of classes are not released"


def test_noise_and_the_servers_epsilon_are_those_of_a_plain_plan_and_no_party_gets_less() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    group = Group.of(("bank", "insurer"), active="bank")
    plain, conditional = (plan_for(tables, group, conditional=by_class) for by_class in (False, True))
    # A few more entries are drawn, each 2^-100 from its law.
    assert float(conditional.mu / plain.mu) == pytest.approx(1, abs=1e-6)
    assert plain.hash != conditional.hash and "for each of 3 classes" in conditional.what
    stated = [{one.observer.name: one.epsilon for one in plan.guarantees} for plan in (plain, conditional)]
    assert stated[1][Server().name] <= 1.0
    for owner in group.owners:
        name = PartyView(owner).name
        assert stated[1][name] >= stated[0][name] - 1e-6
    assert [plan.to_data()["spec"]["conditional"] for plan in (plain, conditional)] == [False, True]


def test_a_release_by_class_is_read_selected_and_kept(tmp_path: Path) -> None:
    tables = tables_of(("bank", "insurer"), 900)
    release = Federation(tables, budget=(1e9, 1e-5)).moments(
        task="classification", epsilon=20.0, delta=1e-5, conditional=True
    )
    assert "by class" in repr(release) and release.parts == 3
    counts = np.unique(np.concatenate([b.label for b in tables[0].blocks()]), return_counts=True)
    np.testing.assert_allclose(release.class_moments().counts, counts[1], atol=6.0)
    plain = Federation(tables, budget=(1e9, 1e-5)).moments(task="classification", epsilon=20.0, delta=1e-5)
    np.testing.assert_allclose(release.gram, plain.gram, atol=6.0)
    np.testing.assert_allclose(release.class_moments().sums, plain.class_moments().sums, atol=6.0)
    some = release.select(["bank_kind", "insurer0"])
    assert some.conditional and len(some.grams) == 3
    np.testing.assert_allclose(some.gram, plain.select(["bank_kind", "insurer0"]).gram, atol=6.0)
    release.save(tmp_path / "r.npz")
    again = MomentRelease.load(tmp_path / "r.npz")
    assert again.conditional and np.array_equal(again.matrix, release.matrix)


def test_what_has_no_classes_has_no_moments_by_class_and_only_products_are_lowered() -> None:
    tables, group = (
        tables_of(("bank", "insurer"), 60, task="regression"),
        Group.of(("bank", "insurer"), active="bank"),
    )
    with pytest.raises(LabelMismatch, match="regression has no classes"):
        plan_for(tables, group, task="regression", conditional=True)

    async def program(party: Party, table: Any) -> Any:
        return await lower(party, Shared(None, (1, 1), 1), scheme=Shamir(3, FIELD63), step="x")

    with pytest.raises(LocalProtocolError, match="a value of degree 1 was to be lowered"):
        run_here(program, group, inputs_for(group))


# With checks: indicators that are not one-hot, and products that are none, stop the run.


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
