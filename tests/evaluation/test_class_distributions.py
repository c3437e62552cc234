"""Several classes judged on private people: what is read from sums by class against the truth."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss
from training_specs import evaluation_plan
from typed import there

from colonnade.evaluation.distributions import estimate_opened_classes
from colonnade.evaluation.estimates import contrasts, estimate_classes
from colonnade.evaluation.evaluate import people_for
from colonnade.protocols.evaluation import EvaluationPlan, Opened, own_phases

PEOPLE = 3000
NAMES = ("low", "mid", "high", "top")
CENTRES = np.array([0.5, -0.2, -0.3, 0.0])


def plan(classes: int = 3) -> EvaluationPlan:
    label = f'column = "risk", kind = "classes", classes = {json.dumps(NAMES[:classes])}'
    return evaluation_plan(label, ((3.0, 3.0),) * classes, PEOPLE)


def people(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Scores with a mean and a covariance of their own in every class, and skewed."""
    rng = np.random.default_rng(4)
    codes = rng.choice(classes, PEOPLE, p=np.array([5, 3, 2, 2][:classes]) / sum([5, 3, 2, 2][:classes]))
    mixed = rng.normal(size=(classes, classes, classes)) * 0.35
    noise = rng.normal(size=(PEOPLE, classes)) + 0.5 * rng.exponential(size=(PEOPLE, 1))
    scores = 1.1 * np.eye(classes)[codes] + np.einsum("ni,nij->nj", noise, mixed[codes])
    return contrasts(scores) + CENTRES[:classes] - CENTRES[:classes].mean(), codes


def sums(requested: EvaluationPlan, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What one person each adds, without noise: half of every score with each owner."""
    half = (scores - CENTRES[: requested.scores]) / 2
    shape, heads = (2, 1 + requested.harmonics), requested.scores
    mine = own_phases("bank", half, codes, requested).reshape(len(codes), heads, heads, *shape).astype(float)
    other = own_phases("shop", half, None, requested).reshape(len(codes), heads, 1, *shape).astype(float)
    product = (mine[..., 0, :] + 1j * mine[..., 1, :]) * (other[..., 0, :] + 1j * other[..., 1, :])
    return np.concatenate([product.real, product.imag[..., 1:]], axis=-1).reshape(len(codes), -1)


def opened(requested: EvaluationPlan, scores: np.ndarray, codes: np.ndarray, seed: int | None) -> Opened:
    found = sums(requested, scores, codes).sum(axis=0)
    if seed is not None:
        sigma = requested.deviation * requested.scale
        found = found + np.random.default_rng(seed).normal(size=len(found)) * sigma
    return Opened(requested, "run", False, None, np.rint(found).astype(np.int64))


def test_rows_of_several_classes_have_the_figures_of_scikit_learn() -> None:
    scores, codes = people(4)
    evaluated = estimate_classes(scores, codes, names=NAMES, chances=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    said = scores.argmax(axis=1)
    assert evaluated.figures["accuracy"].value == pytest.approx(accuracy_score(codes, said))
    assert evaluated.figures["log-loss"].value == pytest.approx(log_loss(codes, chances))
    squares = ((chances - np.eye(4)[codes]) ** 2).sum(axis=1).mean()
    assert evaluated.figures["Brier score"].value == pytest.approx(squares)
    assert np.array_equal(there(evaluated.confusion), confusion_matrix(codes, said))
    assert "log-loss" not in estimate_classes(scores, codes, names=NAMES, chances=False).figures


@pytest.mark.parametrize("classes", [3, 4])
def test_several_classes_have_each_against_the_rest_and_nothing_that_was_not_opened(classes: int) -> None:
    scores, codes = people(classes)
    requested = plan(classes)
    rows = estimate_classes(scores, codes, names=NAMES[:classes], chances=True)
    evaluated = estimate_opened_classes(opened(requested, scores, codes, 3), CENTRES[:classes])
    assert not evaluated.together and evaluated.confusion is None and "confusion" not in evaluated.to_data()
    pairs = [(evaluated.figures, rows.figures)]
    pairs += [(one.figures, exact.figures) for one, exact in zip(evaluated.each, rows.each, strict=True)]
    for found, exact in pairs:
        for name in set(found) - {"log-loss"}:
            assert abs(found[name].value - exact[name].value) < 4 * found[name].noise + 0.01, name
            assert found[name].baseline == pytest.approx(exact[name].baseline, abs=0.05)


def test_no_record_of_three_classes_moves_the_sums_further_than_is_said() -> None:
    requested = plan()
    rng = np.random.default_rng(6)
    scores = 6.0 * rng.choice([-1.0, -0.4, 0.0, 0.7, 1.0], (PEOPLE, 3)) + CENTRES[:3]
    each = sums(requested, scores, rng.integers(0, 3, PEOPLE))
    zeroed, replaced = requested.phases.zeroed(), requested.phases.replaced()
    moved = each[::2] - each[1::2]
    assert np.linalg.norm(each, axis=1).max() <= zeroed.l2 < 1.01 * np.linalg.norm(each, axis=1).max()
    assert (
        np.linalg.norm(moved, axis=1).max() <= replaced.l2 and np.abs(moved).sum(axis=1).max() <= replaced.l1
    )


def test_more_classes_need_more_people() -> None:
    assert people_for(plan(3)) < people_for(plan(4)) < 2 * people_for(plan(3))
