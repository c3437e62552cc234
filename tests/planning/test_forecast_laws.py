"""A forecast is what the run then takes: the same rounds, and the same bytes but for digits in the names of steps."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from encrypted_runs import WIDER
from forecast_jobs import foretold, planned, ran, tables
from hypothesis import given
from hypothesis import strategies as st
from training_specs import requested as spec_of
from typed import there, untyped

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.methods.encrypted import plan as encrypted_plan
from colonnade.methods.method import Method
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.table import METHODS
from colonnade.planning.cost import Axis, Cost, product, weighted
from colonnade.planning.machine import Matching
from colonnade.planning.pilot import PilotRuns
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.runtime.run import Outcome

DIGITS = 0.01

SMALL: list[tuple[str, Any, dict[str, Any]]] = [
    ("moments", "classification", {}),
    ("moments", "regression", {}),
    ("moments", "pca", {}),
    ("functional", "classification", {}),
    ("spca", "pca", {}),
    ("slr", "classification", {"epochs": 30.0, "rate": 1.0}),
    ("margin", "classification", {"steps": 9}),
    ("local", "classification", {}),
    ("private-messages", "classification", {"epochs": 13}),
    ("private-messages", "regression", {"epochs": 12, "batch": 16}),
    ("one-shot", "classification", {}),
]


def hold(cost: Cost, outcome: Outcome, *, steps: bool = False) -> None:
    assert cost.rounds == outcome.rounds
    assert cost.bytes_sent == pytest.approx(outcome.bytes_sent, rel=DIGITS)
    assert not steps or set(cost.by_step) == set(outcome.bytes_by_step)


@pytest.mark.parametrize(
    "widths",
    [[2, 3], *(pytest.param(more, marks=pytest.mark.slow) for more in ([1, 2, 4], [2, 1, 3, 1]))],
    ids=["two", "three", "four"],
)
@pytest.mark.parametrize(
    ("method", "task", "options"), SMALL, ids=[f"{name}-{task}" for name, task, _ in SMALL]
)
def test_a_run_takes_the_bytes_and_rounds_that_were_foretold(
    method: str, task: Any, options: dict[str, Any], widths: list[int]
) -> None:
    rows = 170 + 13 * len(widths)
    made = tables(widths, rows, task=task)
    requested, plan, federation = planned(method, made, rows, task=task, options=options)
    if method in ("slr", "margin", "private-messages"):
        assert len(untyped(METHODS[method]).pilots(plan)) > 1, (
            "something must be left out for this to show anything"
        )
    hold(foretold(method, requested, plan, made), ran(method, requested, federation), steps=True)


@pytest.mark.parametrize("method", ["moments", "functional", "local"])
def test_blocks_that_are_left_out_are_counted(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("moments", "functional"):
        monkeypatch.setattr(f"colonnade.methods.{name}.plan.block_rows", lambda columns: 64)
    made = tables([2, 2, 2], 700)
    requested, plan, federation = planned(method, made, 700, options={})
    assert [pilot.plan.rows for pilot in untyped(METHODS[method]).pilots(plan)] == [60 + 2 * 64, 60 + 6 * 64]
    hold(foretold(method, requested, plan, made), ran(method, requested, federation), steps=True)


@pytest.mark.parametrize(
    "widths", [[2, 2], pytest.param([2, 1, 1], marks=pytest.mark.slow)], ids=["two", "three"]
)
def test_batches_under_encryption_are_counted(widths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_plan, "PaillierKeys", lambda bits: WIDER)
    made = tables(widths, 29)
    requested, plan, federation = planned("encrypted", made, 29, options={"epochs": 3, "batch": 8})
    assert len(untyped(METHODS["encrypted"]).pilots(plan)) == 3
    hold(foretold("encrypted", requested, plan, made), ran("encrypted", requested, federation))


@pytest.mark.parametrize("regime", ["frozen", pytest.param("private-local", marks=pytest.mark.slow)])
def test_batches_of_networks_are_counted(regime: str) -> None:
    pytest.importorskip("torch")
    made = tables([3, 2, 2], 130)
    options = {"regime": regime, "batch": 3, "epochs": 4, "held_out": 0.2, "embedding": 4, "patience": 50}
    requested, plan, federation = planned("network", made, 130, options=options)
    assert (
        max(pilot.plan.train_rows for pilot in untyped(METHODS["network"]).pilots(plan))
        < untyped(plan).train_rows
    )
    hold(foretold("network", requested, plan, made), ran("network", requested, federation))


@pytest.mark.parametrize(("name", "task", "options"), SMALL)
def test_a_request_says_whether_its_plans_are_in_shares(
    name: str, task: Any, options: dict[str, Any]
) -> None:
    """By this the parties of a run and a plan of it take the same way to match people."""
    requested, plan, _ = planned(name, tables([2, 2], 60, task=task), 60, task=task, options=options)
    assert requested.in_shares is isinstance(plan, SharedPlan)


@pytest.mark.parametrize("widths", [[1, 1], [1, 1, 1]], ids=["two", "three"])
def test_people_to_match_are_counted(widths: list[int]) -> None:
    made = tables(widths, 90, alone=40)
    requested, plan, federation = planned("one-shot", made, 90, options={})
    schemas = {table.party: table.public() for table in made}
    added = Matching(federation.group, schemas, "auto", 90, dict.fromkeys(schemas, 130)).cost(plan)
    assert added is not None
    cost = weighted([(1.0, foretold("one-shot", requested, plan, made)), (1.0, added)])
    hold(cost, ran("one-shot", requested, federation))


def test_equal_lists_of_people_need_no_matching() -> None:
    made = tables([1, 1], 20)
    schemas = {table.party: table.public() for table in made}
    _, plan, federation = planned("one-shot", made, 20, options={})
    held = dict.fromkeys(schemas, 20)
    ways: dict[Alignment, str | None] = {"auto": None, "equal": None, "curve": "curve", "server": "server"}
    for alignment, way in ways.items():
        matching = Matching(federation.group, schemas, alignment, 20, held)
        assert matching.by(plan) == way and (matching.cost(plan) is None) is (way is None)


@pytest.mark.parametrize(
    ("bank", "shop", "common"),
    [(130, 130, 90), (90, 90, 90), (33_000, 9_000, 8_000)],
    ids=["few", "equal", "many"],
)
def test_bytes_through_the_server_are_foretold_to_the_last_one(bank: int, shop: int, common: int) -> None:
    """Also where the lists are so long that no list of that length was tried."""

    def held(party: str, count: int) -> Table:
        ids = [f"p{place}" if place < common else f"{party}{place}" for place in range(count)]
        return Table.from_arrays(party, {party: [0.5] * count}, schema_of(party), ids=ids)

    made = [held("bank", bank), held("shop", shop)]
    federation = Federation(made, budget=(9.0, 1e-6))
    schemas = {table.party: table.public() for table in made}
    request = spec_of(MomentsOptions, "pca", 1.0, delta=1e-6)
    plan = request.plan(federation.group, tuple(schemas.values()), common)
    numbers = {"bank": bank, "shop": shop}
    cost = Matching(federation.group, schemas, "auto", common, numbers).cost(plan)
    equal = Federation([held("bank", common), held("shop", common)], budget=(9.0, 1e-6), alignment="equal")
    outcome = federation.align(in_shares=True)
    assert there(cost).bytes_sent == outcome.bytes_sent - equal.align().bytes_sent


def schema_of(party: str) -> Schema:
    return Schema.parse(f"id = 'n'\ncolumns.{party} = {{kind = 'numeric', low = 0, high = 1}}")


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=3),
    st.lists(st.floats(-5, 5), min_size=8, max_size=8),
)
def test_pilots_add_up_to_whatever_is_a_straight_line_in_each_axis(
    drawn: list[tuple[int, int, int]], slopes: list[float]
) -> None:
    axes = [Axis(full, low, low + more) for full, low, more in drawn]

    def amount(numbers: tuple[int, ...]) -> float:
        corners = [
            math.prod(number for place, number in enumerate(numbers) if mask >> place & 1)
            for mask in range(8)
        ]
        return sum(slope * corner for slope, corner in zip(slopes, corners, strict=True))

    made = product(axes, lambda *numbers: numbers)
    assert math.isclose(sum(pilot.weight for pilot in made), 1.0, abs_tol=1e-9)
    found = sum(pilot.weight * amount(pilot.plan) for pilot in made)
    assert math.isclose(found, amount(tuple(axis.full for axis in axes)), rel_tol=1e-9, abs_tol=1e-6)


def test_a_pilot_charges_what_the_whole_plan_charges() -> None:
    made = tables([2, 2], 200)
    _, plan, _ = planned("slr", made, 200, options={})
    for pilot in untyped(METHODS["slr"]).pilots(plan):
        assert pilot.plan.schedule.steps < plan.schedule.steps  # type: ignore[attr-defined]
        assert pilot.plan.views == plan.views and pilot.plan.guarantees == plan.guarantees
        assert pilot.plan.capacity == plan.capacity and pilot.plan.field == plan.field  # type: ignore[attr-defined]


def test_a_long_run_is_never_foretold_to_be_quicker_than_a_part_of_it() -> None:
    short, longer = Cost(seconds=1.0, memory=5.0), Cost(seconds=0.9, memory=4.0)
    assert weighted([(-8.0, short), (9.0, longer)]).seconds == 1.0
    assert weighted([(-8.0, short), (9.0, longer)]).memory == 5.0


@dataclass(frozen=True, eq=False)
class OnAClock(PilotRuns):
    """Rehearsals whose runs take what they are said to take: so much, and so much for each person.

    The opening compiles for 20 seconds, tracing slows by half, and the `busy` run of each plan after it takes eight
    times as long, as on a machine that others use.
    """

    fixed: float = 0.3
    each: float = 1e-5
    busy: int | None = None
    ran: list[tuple[int, bool | None]] = field(default_factory=list)

    def perform(self, method: Method, requested: Any, plan: Any, *, traced: bool = False) -> tuple[Cost, Any]:
        seconds, opening = self.fixed + self.each * plan.rows, not self.ran
        if opening:
            seconds += 20.0
        elif self.ran.count((plan.rows, traced)) == self.busy:
            seconds *= 8
        self.ran.append((plan.rows, None if opening else traced))
        return Cost({}, {}, seconds * (1.5 if traced else 1.0), 1e6 if traced else 0.0), None


def on_a_clock(rows: int, **how: Any) -> tuple[float, OnAClock]:
    made = tables([2, 2], 50)
    schemas = {table.party: table.public() for table in made}
    requested, plan, _ = planned("moments", made, rows, options={})
    rehearsals = OnAClock(schemas, **how)
    return rehearsals.rehearse(untyped(METHODS["moments"]), requested, plan)[0].seconds, rehearsals


@pytest.mark.parametrize("rows", [1000, 10**6, 10**7, 10**8])
def test_what_is_done_once_and_what_tracing_takes_is_not_multiplied_by_rows(rows: int) -> None:
    foretold, rehearsals = on_a_clock(rows)
    assert foretold == pytest.approx(0.3 + 1e-5 * rows)
    assert any(traced for _, traced in rehearsals.ran), "tracing must be in it for this to show anything"


@pytest.mark.parametrize("fixed", [0.0, 0.3, 3.0])
def test_one_disturbed_run_of_a_pilot_does_not_decide_about_a_long_run(fixed: float) -> None:
    for busy in (0, 1):
        foretold, _ = on_a_clock(10**7, fixed=fixed, busy=busy, effort=60.0)
        assert 0.5 <= foretold / (fixed + 1e-5 * 10**7) <= 2.0
