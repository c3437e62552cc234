"""What is read from noisy characteristic functions of scores and residuals, against the truth."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from training_specs import evaluation_plan

from colonnade.errors import ModelError
from colonnade.evaluation.distributions import RESIDUAL, NumberDistribution, OpenedScore, estimate_opened
from colonnade.evaluation.estimates import Estimate, contrasts, estimate_classes, estimate_numbers
from colonnade.evaluation.estimates import estimate_two_classes as two_classes
from colonnade.evaluation.evaluate import people_for
from colonnade.protocols.evaluation import EvaluationPlan, Opened, own_phases

PEOPLE = 3000
NAMES = ("low", "mid", "high", "top")
CENTRES = np.array([0.5, -0.2, -0.3, 0.0])
MIDDLE = 10.5


def plan_of_classes(classes: int, extent: float = 3.0) -> EvaluationPlan:
    label = f'column = "risk", kind = "classes", classes = {json.dumps(NAMES[:classes])}'
    return evaluation_plan(label, ((extent, extent),) * (classes if classes > 2 else 1), PEOPLE)


def plan_of_numbers(extent: float = 5.0) -> EvaluationPlan:
    return evaluation_plan('column = "cost", kind = "real", low = 0, high = 20', ((extent, extent),), PEOPLE)


def added(plan: EvaluationPlan, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What each person adds to what is opened: half of every score with each owner."""
    half = scores.reshape(len(labels), -1) / 2
    mine, theirs = (own_phases(owner, half, labels, plan).astype(float) for owner in ("bank", "shop"))
    width, count, found = plan.width, plan.width // 2, []
    for number, place in enumerate(place for place, head in enumerate(plan.heads) for _ in range(head.sums)):
        one, two = mine[:, number * width :], theirs[:, place * width :]
        phasor = (one[:, :count] + 1j * one[:, count:width]) * (two[:, :count] + 1j * two[:, count:width])
        found += [phasor.real[:, int(not plan.heads[place].counted) :], phasor.imag[:, 1:]]
    return np.concatenate(found, axis=1)


def noisy(plan: EvaluationPlan, sums: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=len(sums)) * plan.deviation * plan.scale
    return np.rint(sums + noise).astype(np.int64)


def opened(plan: EvaluationPlan, scores: np.ndarray, labels: np.ndarray, seed: int | None) -> Opened:
    sums = added(plan, scores, labels).sum(axis=0)
    found = np.rint(sums).astype(np.int64) if seed is None else noisy(plan, sums, seed)
    return Opened(plan, f"run {seed}", False, None, found)


def read(made: Opened, centres: np.ndarray | float) -> Any:
    return estimate_opened(made, np.atleast_1d(centres), threshold=0.0, chances=True)


# Two classes.


def two(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = (rng.uniform(size=PEOPLE) < 0.3).astype(np.int64)
    return rng.normal(size=PEOPLE) + 1.6 * classes - 1.5, classes


def exact(scores: np.ndarray, classes: np.ndarray) -> Any:
    return two_classes(scores, classes, names=("low", "mid"), threshold=0.0, chances=True).figures


def test_the_error_of_sampling_does_not_follow_the_last_digits_of_floats() -> None:
    scores, classes = two()
    made = opened(plan_of_classes(2, 4.0), scores, classes, 1)
    pairs = [
        (exact(scores, classes), exact(scores * (1 + 1e-13), classes)),
        (read(made, 0.21).figures, read(made, 0.21 + 1e-13).figures),
    ]
    for one, other in pairs:
        for name, figure in one.items():
            assert other[name].error == pytest.approx(figure.error, rel=1e-6), name


def test_without_noise_everything_is_read_as_it_is() -> None:
    scores, classes = two()
    plan, truth = plan_of_classes(2, 4.0), exact(scores, classes)
    found = OpenedScore.of(opened(plan, scores, classes, None).coefficients, plan, 0.0)
    assert found.auc() == pytest.approx(truth["AUC"].value, abs=1e-3)
    assert found.mean_losses()["log-loss"] == pytest.approx(truth["log-loss"].value, abs=0.004)
    assert found.mean_losses()["Brier score"] == pytest.approx(truth["Brier score"].value, abs=0.002)
    scored = found.distribution()
    assert scored.counts == pytest.approx([PEOPLE - classes.sum(), classes.sum()])
    above = float((scored.people[1] * (scored.scores > 0)).sum()) / classes.sum()
    assert above == pytest.approx(float((scores[classes == 1] > 0).mean()), abs=0.02)


def test_noise_moves_the_auc_by_nothing_on_average_and_by_what_is_said() -> None:
    scores, classes = two()
    plan, truth = plan_of_classes(2, 4.0), exact(scores, classes)
    sums = added(plan, scores, classes).sum(axis=0)
    found = np.array([OpenedScore.of(noisy(plan, sums, seed), plan, 0.0).auc() for seed in range(400)])
    # Four deviations of the mean of 400, and what the series and the counts leave.
    assert abs(found.mean() - truth["AUC"].value) < 4 * found.std() / 20 + 1e-3
    evaluated = read(opened(plan, scores, classes, 1), 0.0)
    assert 0.5 < evaluated.figures["AUC"].noise / found.std() < 2.0
    for name, figure in evaluated.figures.items():
        assert abs(figure.value - truth[name].value) < 5 * figure.noise + 0.01, name
    assert np.diff(np.array(evaluated.to_data()["curves"]["roc"]), axis=0).min() >= 0


@pytest.mark.parametrize("there", [0, 1])
def test_a_class_that_the_noise_hides_is_named(there: int) -> None:
    scores, _ = two()
    made = opened(plan_of_classes(2, 4.0), scores, np.full(PEOPLE, there, dtype=np.int64), None)
    with pytest.raises(ModelError, match=f"class '{NAMES[1 - there]}' does not stand out of the noise"):
        OpenedScore.of(made.coefficients, made.plan, 0.0)


# Several classes.


def several(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores with a mean and a covariance of their own in every class, and skewed."""
    rng = np.random.default_rng(4)
    codes = rng.choice(classes, PEOPLE, p=np.array([5, 3, 2, 2][:classes]) / sum([5, 3, 2, 2][:classes]))
    mixed = rng.normal(size=(classes, classes, classes)) * 0.35
    noise = rng.normal(size=(PEOPLE, classes)) + 0.5 * rng.exponential(size=(PEOPLE, 1))
    scores = 1.1 * np.eye(classes)[codes] + np.einsum("ni,nij->nj", noise, mixed[codes])
    return contrasts(scores) + CENTRES[:classes] - CENTRES[:classes].mean(), codes


@pytest.mark.parametrize("classes", [3, 4])
def test_several_classes_have_each_against_the_rest_and_nothing_that_was_not_opened(classes: int) -> None:
    (scores, codes), centres = several(classes), CENTRES[:classes]
    rows = estimate_classes(scores, codes, names=NAMES[:classes], chances=True)
    found = read(opened(plan_of_classes(classes), scores - centres, codes, 3), centres)
    assert not found.together and found.confusion is None and "confusion" not in found.to_data()
    pairs = [(found.figures, rows.figures)]
    pairs += [(one.figures, truth.figures) for one, truth in zip(found.each, rows.each, strict=True)]
    for one, truth in pairs:
        for name in set(one) - {"log-loss"}:
            assert abs(one[name].value - truth[name].value) < 4 * one[name].noise + 0.01, name
            assert one[name].baseline == pytest.approx(truth[name].baseline, abs=0.05)


def test_no_record_of_three_classes_moves_the_sums_further_than_is_said() -> None:
    plan, rng = plan_of_classes(3), np.random.default_rng(6)
    scores = 6.0 * rng.choice([-1.0, -0.4, 0.0, 0.7, 1.0], (PEOPLE, 3))
    each = added(plan, scores, rng.integers(0, 3, PEOPLE))
    zeroed, replaced = plan.phases.zeroed(), plan.phases.replaced()
    moved, longest = each[::2] - each[1::2], np.linalg.norm(each, axis=1).max()
    assert longest <= zeroed.l2 < 1.01 * longest
    assert np.linalg.norm(moved, axis=1).max() <= replaced.l2
    assert np.abs(moved).sum(axis=1).max() <= replaced.l1


def test_more_classes_need_more_people() -> None:
    three, four = people_for(plan_of_classes(3)), people_for(plan_of_classes(4))
    assert three < four < 2 * three


# Numbers.

FIGURES = ("RMSE", "MAE", "R²")
LAWS: dict[str, Callable[[np.random.Generator], NDArray[Any]]] = {
    "normal": lambda rng: 1.2 * rng.normal(size=PEOPLE),
    "long tails": lambda rng: 0.9 * rng.laplace(size=PEOPLE),
    "a count": lambda rng: rng.poisson(1.4, PEOPLE) - 1.4,
}


def numbers(seed: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels between 0 and 20."""
    rng = np.random.default_rng(seed)
    scores = 1.5 * rng.normal(size=PEOPLE)
    return 8.3 + 0.9 * scores, np.clip(8.0 + scores + LAWS[law](rng), 0, 20)


def evaluated(seed: int | None, law: str, extent: float = 5.0) -> tuple[Any, Estimate]:
    predicted, labels = numbers(seed or 0, law)
    found = read(opened(plan_of_numbers(extent), predicted - MIDDLE, labels, seed), MIDDLE)
    return found, estimate_numbers(predicted, labels, label="cost")


@pytest.mark.parametrize("law", LAWS)
def test_without_noise_errors_of_numbers_are_read_as_they_are(law: str) -> None:
    found, truth = evaluated(None, law)
    assert not found.exact and found.people == PEOPLE and found.label == "cost"
    for name in FIGURES:
        one, other = found.figures[name], truth.figures[name]
        assert (one.value, one.baseline) == pytest.approx((other.value, other.baseline), rel=0.03), name
        # What goes together of residuals and labels is not seen: the error of R² is rather said too large.
        assert 0.8 < one.sampling / other.sampling < 1.7, name
    said, so = np.array(found.pairs).T
    assert np.abs(so - np.interp(said, *np.array(truth.to_data()["pairs"]).T)).max() < 0.15


def test_noise_moves_errors_by_about_what_is_said() -> None:
    pairs = [evaluated(seed, list(LAWS)[seed % 3]) for seed in range(1, 13)]
    for name in FIGURES:
        off = [(found.figures[name].value - truth.figures[name].value) for found, truth in pairs]
        said = [found.figures[name].noise for found, _ in pairs]
        # Twelve draws: their mean square in units of what is said is within what chance allows of 1.
        assert 0.3 < math.sqrt(np.mean((np.array(off) / said) ** 2)) < 2.0, name
    assert np.mean([found.figures["RMSE"].noise for found, _ in pairs]) < 0.2
    assert all(len(found.pairs) > 5 for found, _ in pairs)


def test_bounds_that_are_far_too_wide_leave_figures_that_say_so() -> None:
    near, truth = evaluated(5, "normal")
    far, _ = evaluated(5, "normal", extent=200.0)
    assert far.figures["RMSE"].noise > near.figures["RMSE"].noise
    assert abs(far.figures["MAE"].value - truth.figures["MAE"].value) < 5 * far.figures["MAE"].noise


def test_a_label_that_hardly_differs_has_no_r_squared() -> None:
    predicted, _ = numbers(1, "normal")
    labels = 8.0 + 0.001 * np.random.default_rng(1).normal(size=PEOPLE)
    found = read(opened(plan_of_numbers(), predicted - MIDDLE, labels, 3), MIDDLE)
    assert set(found.figures) == {"RMSE", "MAE"}


def test_doubled_frequencies_say_more_of_a_small_residual_than_its_square_summed_within_bounds() -> None:
    """Why residuals are opened as phases: Σ r² within |r| ≤ B would take noise for B²."""
    plan, (predicted, labels) = plan_of_numbers(30.0), numbers(1, "normal")
    sums = added(plan, predicted - MIDDLE, labels).sum(axis=0)
    laws = [NumberDistribution.of(noisy(plan, sums, seed), plan, RESIDUAL) for seed in range(8)]
    square = float(((labels - predicted) ** 2).mean())
    off = [law.mean((law.values + 10.0 - MIDDLE) ** 2) - square for law in laws]
    alone = plan.deviation / math.sqrt(9.0) * plan.heads[RESIDUAL].bound ** 2 / PEOPLE
    assert math.sqrt(np.mean(np.square(off))) < alone / 4
