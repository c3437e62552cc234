"""What noise costs: the theorem on noisy quadratics, and the estimate of a plan."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_specs import requested

from colonnade.cli.plan_answer import _expected_lines
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, RealLabel
from colonnade.data.schema import Schema
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.planning.forecast import A_POINT, expected_loss
from colonnade.runtime.party import Group


@pytest.mark.parametrize("size", [2, 5, 12])
def test_a_noisy_quadratic_costs_what_the_theorem_says_up_to_its_factor(size: int) -> None:
    draws, damping = np.random.default_rng(size), 3.0
    rows = draws.normal(size=(200, size)) * np.geomspace(1.0, 0.01, size)
    right = rows.T @ (rows @ draws.normal(size=size) + draws.normal(size=200))
    damped = rows.T @ rows + damping * np.eye(size)
    best = np.linalg.solve(damped, right)
    ratios = []
    for _ in range(200):
        noise = np.triu(draws.normal(size=(size, size)), 1)
        noise = noise + noise.T + math.sqrt(2) * np.diag(draws.normal(size=size))
        # As strong as the theorem allows.
        noise *= damping / 2 / np.linalg.norm(noise, 2)
        side = draws.normal(size=size)
        off = np.linalg.solve(damped + noise, right + side) - best
        rest = side - noise @ best
        ratios.append((off @ damped @ off) / (rest @ np.linalg.solve(damped, rest)))
    assert min(ratios) >= 4 / 9
    assert max(ratios) <= 4
    assert max(ratios) > 1.2 or min(ratios) < 0.85, "noise of this strength is seen in the factor"


def test_the_middle_of_the_theorem_is_its_mean_over_the_noise() -> None:
    size, draws = 3, 40_000
    inverse = np.diag([1.0, 0.8, 0.5]) + 0.1
    best = np.array([2.0, -1.0, 0.5])
    generator = np.random.default_rng(2)
    upper = np.triu(generator.normal(size=(draws, size, size)), 1)
    diagonal = np.sqrt(2) * generator.normal(size=(draws, size))
    noise = upper + upper.transpose(0, 2, 1) + diagonal[:, :, None] * np.eye(size)
    rest = generator.normal(size=(draws, size)) - noise @ best
    found = np.einsum("ni,ij,nj->n", rest, inverse, rest)
    foretold = (1 + best @ best) * np.trace(inverse) + best @ inverse @ best
    error = found.std() / math.sqrt(draws)
    assert abs(found.mean() - foretold) < 6 * error
    assert 6 * error < 0.2 * best @ inverse @ best, "the last term would be missed"


def plan_of(*, epsilon: float = 1.0, rows: int = 20_000, columns: int = 10, label: Any = None) -> Any:
    label = label or ClassLabel("y", ("no", "yes"))
    schemas = []
    for party, mine in (("a", label), ("b", None)):
        names = tuple(NumericColumn(f"{party}{place}", 0, 1) for place in range(columns))
        schemas.append(Schema("id", names, mine).public(party))
    task: Any = "classification" if isinstance(label, ClassLabel) else "regression"
    group = Group.of(("a", "b"), active="a", server="server")
    return requested(MomentsOptions, task, epsilon, delta=1e-5, accepted_delta=1e-5).planned(
        group, tuple(schemas), rows
    )


def test_less_is_lost_with_more_people_a_larger_epsilon_and_fewer_columns() -> None:
    plain = expected_loss(plan_of())
    assert plain is not None
    for better in (plan_of(rows=40_000), plan_of(epsilon=2.0), plan_of(columns=5)):
        found = expected_loss(better)
        assert found is not None and found["lost"] < plain["lost"]
    assert plain["low"] <= plain["lost"] <= plain["high"]


def test_with_as_many_people_as_a_plan_names_a_point_is_the_far_end() -> None:
    plan = plan_of()
    found = expected_loss(plan)
    assert found is not None
    there = expected_loss(replace(plan, rows=found["people_for_a_point"]))
    assert there is not None and there["high"] == pytest.approx(A_POINT, rel=0.01)


def test_nothing_is_said_of_what_was_not_studied() -> None:
    assert expected_loss(plan_of(label=RealLabel("y", 0, 1))) is None
    assert expected_loss(plan_of(label=ClassLabel("y", ("a", "b", "c")))) is None


@pytest.mark.parametrize(
    ("lost", "said"),
    [(0.001, "Less than half a point"), (0.02, "About 2.0 points"), (0.4, "More than 15 points")],
)
def test_a_plan_says_what_is_lost_in_words(lost: float, said: str) -> None:
    expected = {"lost": lost, "low": lost / 2, "high": 2 * lost, "people_for_a_point": 74_644}
    text = " ".join(" ".join(_expected_lines({"expected": expected}, 100)).split())
    assert text.startswith(f"What to expect {said}") and "75,000 people" in text
