"""What is read of numbers from noisy characteristic functions, against the truth."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from training_specs import evaluation_plan

from colonnade.evaluation.distributions import RESIDUAL, NumberDistribution, estimate_opened_numbers
from colonnade.evaluation.estimates import NumberEstimate, estimate_numbers
from colonnade.protocols.evaluation import EvaluationPlan, Opened, own_phases

PEOPLE = 4000
CENTRE = 10.5
NAMES = ("RMSE", "MAE", "R²")


def people(seed: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels between 0 and 20."""
    rng = np.random.default_rng(seed)
    scores = 1.5 * rng.normal(size=PEOPLE)
    drawn: dict[str, Callable[[], NDArray[Any]]] = {
        "normal": lambda: 1.2 * rng.normal(size=PEOPLE),
        "long tails": lambda: 0.9 * rng.laplace(size=PEOPLE),
        "a count": lambda: rng.poisson(1.4, PEOPLE) - 1.4,
    }
    wrong = drawn[law]()
    return 8.3 + 0.9 * scores, np.clip(8.0 + scores + wrong, 0, 20)


def plan(extent: float = 5.0) -> EvaluationPlan:
    return evaluation_plan('column = "cost", kind = "real", low = 0, high = 20', ((extent, extent),), PEOPLE)


def opened(requested: EvaluationPlan, predicted: np.ndarray, labels: np.ndarray, seed: int | None) -> Opened:
    """What would be opened, half of each score with each owner; without a seed, without noise."""
    half = ((predicted - CENTRE) / 2)[:, None]
    mine, theirs = (own_phases(owner, half, labels, requested).astype(float) for owner in ("bank", "shop"))
    width, count, found = requested.width, requested.width // 2, []
    sums = [place for place, head in enumerate(requested.heads) for _ in range(head.sums)]
    for number, place in enumerate(sums):
        one, two = mine[:, number * width :], theirs[:, place * width :]
        wave = (one[:, :count] + 1j * one[:, count:width]) * (two[:, :count] + 1j * two[:, count:width])
        found += [*wave.real.sum(0)[int(not requested.heads[place].counted) :], *wave.imag.sum(0)[1:]]
    noise = np.zeros(requested.coefficients)
    if seed is not None:
        sigma = requested.deviation * requested.scale
        noise = np.random.default_rng(seed).normal(size=requested.coefficients) * sigma
    return Opened(requested, f"run {seed}", False, None, np.rint(np.array(found) + noise).astype(np.int64))


def evaluated(seed: int | None, law: str, extent: float = 5.0) -> tuple[NumberEstimate, NumberEstimate]:
    predicted, labels = people(seed or 0, law)
    found = estimate_opened_numbers(opened(plan(extent), predicted, labels, seed), centre=CENTRE)
    return found, estimate_numbers(predicted, labels, label="cost")


@pytest.mark.parametrize("law", ["normal", "long tails", "a count"])
def test_without_noise_errors_of_numbers_are_read_as_they_are(law: str) -> None:
    found, truth = evaluated(None, law)
    assert not found.exact and found.people == PEOPLE and found.label == "cost"
    for name in NAMES:
        assert found.figures[name].value == pytest.approx(truth.figures[name].value, rel=0.03), name
        assert found.figures[name].baseline == pytest.approx(truth.figures[name].baseline, rel=0.03), name
        # What goes together of residuals and labels is not seen: the error of R² is rather said too large.
        assert 0.8 < found.figures[name].sampling / truth.figures[name].sampling < 1.7, name
    said, so = np.array(found.pairs).T
    assert np.abs(so - np.interp(said, *np.array(truth.pairs).T)).max() < 0.15


def test_noise_moves_errors_by_about_what_is_said() -> None:
    laws = ("normal", "long tails", "a count")
    pairs = [evaluated(seed, laws[seed % 3]) for seed in range(1, 13)]
    for name in NAMES:
        off = [(found.figures[name].value - truth.figures[name].value) for found, truth in pairs]
        said = [found.figures[name].noise for found, _ in pairs]
        # Twelve draws: their mean square in units of what is said is within what chance allows of 1.
        assert 0.3 < math.sqrt(np.mean((np.array(off) / said) ** 2)) < 2.0, name
    assert np.mean([found.figures["RMSE"].noise for found, _ in pairs]) < 0.15
    assert all(len(found.pairs) > 5 for found, _ in pairs)


def test_bounds_that_are_far_too_wide_leave_figures_that_say_so() -> None:
    near, truth = evaluated(5, "normal")
    far, _ = evaluated(5, "normal", extent=200.0)
    assert far.figures["RMSE"].noise > near.figures["RMSE"].noise
    assert abs(far.figures["MAE"].value - truth.figures["MAE"].value) < 5 * far.figures["MAE"].noise


def test_a_label_that_hardly_differs_has_no_r_squared() -> None:
    predicted, _ = people(1, "normal")
    labels = 8.0 + 0.001 * np.random.default_rng(1).normal(size=PEOPLE)
    found = estimate_opened_numbers(opened(plan(), predicted, labels, 3), centre=CENTRE)
    assert set(found.figures) == {"RMSE", "MAE"}


def test_doubled_frequencies_say_more_of_a_small_residual_than_its_square_summed_within_bounds() -> None:
    """Why residuals are opened as phases: Σ r² within |r| ≤ B would take noise for B²."""
    requested = plan(30.0)
    predicted, labels = people(1, "normal")
    square = float(((labels - predicted) ** 2).mean())
    laws = [
        NumberDistribution.of(opened(requested, predicted, labels, seed).coefficients, requested, RESIDUAL)
        for seed in range(8)
    ]
    off = [law.mean((law.values + 10.0 - CENTRE) ** 2) - square for law in laws]
    alone = requested.deviation / math.sqrt(9.0) * requested.heads[RESIDUAL].bound ** 2 / PEOPLE
    assert math.sqrt(np.mean(np.square(off))) < alone / 4
