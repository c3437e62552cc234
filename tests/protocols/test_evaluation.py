"""The judging protocol against its ideal twin, its noise and its refusals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ideals import ideal_evaluation
from margin_runs import Silence
from typed import untyped

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import BudgetExceeded, LabelMismatch, PlanError
from colonnade.federation.federation import Federation
from colonnade.lab.experiments import threshold_bound
from colonnade.privacy.guarantee import account
from colonnade.protocols.dealt_noise import DealtNoise
from colonnade.protocols.evaluation import LAW, EvaluationPlan, EvaluationSpec, Opened, evaluation_session
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party

PEOPLE = 300
PARTIES, REACHES = ("bank", "shop", "clinic"), (2.0, 1.0, 0.5)
TWO = 'classes = ["no", "yes"]'
NUMBER = 'kind = "real"\nlow = 10\nhigh = 30'


def schema(label: str = TWO) -> Schema:
    text = 'id = "n"\ncolumns.value = {kind = "numeric", low = -1, high = 1}\n'
    kind = "" if label.startswith("kind") else 'kind = "classes"\n'
    return Schema.parse(text + (f'[label]\ncolumn = "buys"\n{kind}{label}\n' if label else ""))


def tables(parties: tuple[str, ...] = PARTIES[:2], label: str = TWO) -> list[Table]:
    rng = np.random.default_rng(7)
    found = []
    for party in parties:
        columns = {"n": [f"p{number}" for number in range(PEOPLE)], "value": rng.uniform(-1, 1, PEOPLE)}
        if party == "bank":
            columns["buys"] = (
                rng.uniform(10, 30, PEOPLE) if label == NUMBER else rng.choice(["no", "yes"], PEOPLE)
            )
        found.append(Table.from_arrays(party, columns, schema(label if party == "bank" else "")))
    return found


def terms(parties: tuple[str, ...] = PARTIES[:2], heads: int = 1) -> dict[str, np.ndarray]:
    """Some lie past what was agreed."""
    rng, reaches = np.random.default_rng(3), dict(zip(PARTIES, REACHES, strict=True))
    return {party: 1.2 * reaches[party] * rng.uniform(-1, 1, (PEOPLE, heads)) for party in parties}


def opened_by(
    given: list[Table], said: dict[str, np.ndarray], request: EvaluationSpec
) -> tuple[Federation, Opened]:
    """A judgement between these parties of what a model says at each of them."""
    parties = Federation(given, budget=(9.0, 1e-5))

    async def session(party: Party, table: Any, requested: Any) -> Any:
        mine = said.get(party.name)
        return await evaluation_session(
            party, table, requested, None if mine is None else lambda aligned: mine
        )

    return parties, parties.run(session, request).result("bank")


def planned(request: EvaluationSpec, label: str = TWO) -> EvaluationPlan:
    schemas = (schema(label).public("bank"), schema("").public("shop"))
    made: EvaluationPlan = request.plan(Group.of(("bank", "shop"), active="bank"), schemas, 1000)
    return made


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvaluationPlan, "noise", Silence())
    monkeypatch.setattr(EvaluationPlan, "views", ())


def ideal(plan: EvaluationPlan, said: dict[str, np.ndarray], given: list[Table]) -> list[int]:
    """What would be opened without noise; what lies past a bound is taken for the bound."""
    clipped = {}
    for owner, term in said.items():
        reaches = np.array([plan.extent_of(owner, head) for head in range(plan.scores)])
        clipped[owner] = np.clip(term, -reaches, reaches)
    (block,) = given[0].blocks(PEOPLE)
    return list(ideal_evaluation(clipped, np.asarray(block.label), plan))


REQUEST = EvaluationSpec("5f0c", (REACHES[:2],), epsilon=1.0, delta=1e-5)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("parties", "label", "scales", "coefficients"),
    [
        (PARTIES[:2], TWO, (1.0,), 2 * 17),
        (PARTIES, 'classes = ["no", "maybe", "yes"]', (1.0, 2.0, 0.7), 3 * 3 * 17),
        (PARTIES[:2], NUMBER, (1.0,), 12 + 12 + 26),
        (PARTIES, NUMBER, (1.0,), 12 + 12 + 26),
    ],
)
def test_without_noise_the_protocol_is_the_ideal(
    monkeypatch: pytest.MonkeyPatch,
    parties: tuple[str, ...],
    label: str,
    scales: tuple[float, ...],
    coefficients: int,
) -> None:
    monkeypatch.setattr(EvaluationPlan, "block", 120)
    given, said = tables(parties, label=label), terms(parties, heads=len(scales))
    reaches = tuple(tuple(scale * reach for reach in REACHES[: len(parties)]) for scale in scales)
    _, opened = opened_by(given, said, replace(REQUEST, reaches=reaches))
    plan = opened.plan
    assert plan.gamma == 1 << 12 and plan.coefficients == coefficients
    assert opened.coefficients.tolist() == ideal(plan, said, given)


def test_what_is_opened_is_the_ideal_and_everybodys_noise() -> None:
    parties, opened = opened_by(tables(), terms(), REQUEST)
    noise = (opened.coefficients - np.array(ideal(opened.plan, terms(), tables()))) / opened.plan.scale
    # 34 draws: their mean square is within five of its own deviations of what the plan says.
    share = float((noise**2).mean()) / opened.plan.deviation**2
    assert abs(share - 1) < 5 * math.sqrt(2 / len(noise))
    assert {total.epsilon for total in parties.ledgers["shop"].totals() if total.unit == "record"} == {
        account(opened.plan.views[0].event, 1e-5).epsilon
    }


def test_what_a_run_would_cost_is_what_it_costs_and_refusals_come_first() -> None:
    poor = Federation(tables(), budget=(0.5, 1e-5))

    async def session(party: Party, table: Any, requested: Any) -> None:
        raise AssertionError("nobody begins what a budget refuses")

    with pytest.raises(BudgetExceeded, match="scores by class"):
        poor.run(session, REQUEST)
    assert not poor.ledgers["bank"].totals()


def test_of_several_scores_an_owners_part_turns_as_far_as_in_any() -> None:
    uneven = replace(REQUEST, reaches=((3.0, 1.0), (1.0, 3.0), (1.0, 1.0)))
    plan = planned(uneven, 'classes = ["no", "maybe", "yes"]')
    turns = [head.phases(0, plan.gamma).turns for head in plan.heads]
    assert untyped(plan.phases).turns == (max(one[0] for one in turns), max(one[1] for one in turns))
    assert account(plan.views[0].event, 1e-5).epsilon <= 1.0
    assert plan.hash != planned(replace(uneven, model="5f0d"), 'classes = ["no", "maybe", "yes"]').hash
    many = replace(plan, rows=1 << 50)
    assert many.field.capacity >= many.rows * 2 * many.phases.largest > plan.field.capacity


def test_limits_add_noise_until_nothing_is_above_them() -> None:
    plan = planned(REQUEST)
    wanted = (
        ("reader", "record-replaced", 0.9),
        ("party:shop", "others-part", 0.8),
        ("party:bank", "others-part", 0.7),
        ("party:elsewhere", "others-part", 0.0001),
    )
    within = planned(replace(REQUEST, limits=wanted))
    assert within.variance > plan.variance
    lines = {
        (line.observer, line.unit): line.event
        for owner in plan.group.owners
        for line in within.lines_for(owner)
    }
    for observer, unit, epsilon in wanted[:3]:
        assert account(lines[observer, unit], 1e-5).epsilon <= epsilon
    assert min(epsilon - account(lines[o, u], 1e-5).epsilon for o, u, epsilon in wanted[:3]) < 1e-3


@pytest.mark.parametrize(
    ("parties", "label", "error", "said"),
    [
        (tuple("abcdefghij"), TWO, PlanError, "10 owners are too many to evaluate between"),
        (PARTIES[:2], 'classes = ["no", "maybe", "yes"]', LabelMismatch, "3 classes, and the model 1 score"),
        (PARTIES[:2], "", LabelMismatch, "no party declares one"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(parties: Any, label: Any, error: Any, said: Any) -> None:
    group = Group.of(parties, active=parties[0] if label else None)
    schemas = (schema(label).public(parties[0]), *(schema("").public(name) for name in parties[1:]))
    with pytest.raises(error, match=said):
        replace(REQUEST, reaches=((1.0,) * len(parties),)).plan(group, schemas, 1000)


def test_bounds_that_are_none_are_refused() -> None:
    for reaches in (((1.0,),), ((1.0, 0.0),), ((math.inf, 1.0),), ((1.0, 1.0), (1.0,))):
        with pytest.raises(PlanError, match="bound above 0"):
            planned(replace(REQUEST, reaches=reaches))


def audited(plan: EvaluationPlan, noise: DealtNoise, label: float, draws: int = 200_000) -> float:
    """A lower bound on ε for a record zeroed out, from the noise that hides it: the other owner's part is known."""
    said = {owner: np.array([[plan.extent_of(owner)]]) for owner in plan.group.owners}
    change = ideal_evaluation(said, np.array([label]), plan).astype(np.float64)
    change = change[change != 0]
    # The server knows its own part of the noise; those of the two owners are what hides a record from it.
    randomness, part = SeededRandomness("audit of judging"), noise.vector.part(plan.group.whole)
    dealt = sum(part.draw((draws, len(change)), randomness).astype(np.float64) for _ in plan.group.owners)
    along = dealt @ change / np.linalg.norm(change)
    half = draws // 2
    return threshold_bound(
        along[:half], along[half:] + np.linalg.norm(change), delta=plan.delta, confidence=1 - 1e-5
    ).epsilon


@pytest.mark.parametrize(("declared", "value"), [(TWO, 1), (NUMBER, 30.0)])
def test_an_audit_stays_below_what_is_promised_and_catches_half_of_the_noise(
    declared: str, value: float
) -> None:
    plan = planned(replace(REQUEST, epsilon=2.5), declared)
    promised = account(plan.views[0].event, plan.delta).epsilon
    assert 0.3 < audited(plan, DealtNoise(LAW, plan.variance), value, draws=40_000) <= promised
    assert audited(plan, DealtNoise(LAW, plan.variance / 4), value) > promised
