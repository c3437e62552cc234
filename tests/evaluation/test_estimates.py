"""Figures of people who may be looked at, against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn import metrics
from typed import there

from colonnade.errors import InputError, ModelError
from colonnade.evaluation import estimates

PEOPLE = 4000


def people(seed: int = 1, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = (rng.uniform(size=PEOPLE) < share).astype(np.int64)
    return rng.normal(size=PEOPLE) + 1.6 * classes - 1.5, classes


def exact(scores: np.ndarray, classes: np.ndarray, threshold: float = 0.0) -> estimates.TwoClassEstimate:
    return estimates.estimate_two_classes(
        scores, classes, names=("no", "yes"), threshold=threshold, chances=True
    )


def test_figures_are_those_of_scikit_learn() -> None:
    scores, classes = people()
    # Some ties.
    scores = np.round(scores, 2)
    found = exact(scores, classes, threshold=-0.25).figures
    chances = 1 / (1 + np.exp(-scores))
    assert {name: figure.value for name, figure in found.items()} == pytest.approx(
        {
            "AUC": metrics.roc_auc_score(classes, scores),
            "average precision": metrics.average_precision_score(classes, scores),
            "accuracy": float(((scores > -0.25) == classes).mean()),
            "log-loss": metrics.log_loss(classes, chances),
            "Brier score": metrics.brier_score_loss(classes, chances),
        }
    )
    share = float(classes.mean())
    assert found["log-loss"].baseline == pytest.approx(metrics.log_loss(classes, np.full(PEOPLE, share)))
    assert found["accuracy"].baseline == max(share, 1 - share)
    assert all(figure.noise == 0 and figure.sampling > 0 for figure in found.values())


def test_the_error_of_sampling_is_how_far_figures_of_other_people_lie() -> None:
    figures = [exact(*people(seed)).figures["AUC"] for seed in range(14)]
    spread = float(np.std([figure.value for figure in figures]))
    assert 0.5 < np.mean([figure.sampling for figure in figures]) / spread < 2.0


def test_rows_of_several_classes_have_the_figures_of_scikit_learn() -> None:
    rng, names = np.random.default_rng(4), ("low", "mid", "high", "top")
    codes = rng.integers(0, 4, PEOPLE)
    scores = np.eye(4)[codes] + rng.normal(size=(PEOPLE, 4))
    evaluated = estimates.estimate_classes(scores, codes, names=names, chances=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    said = scores.argmax(axis=1)
    assert evaluated.figures["accuracy"].value == pytest.approx(metrics.accuracy_score(codes, said))
    assert evaluated.figures["log-loss"].value == pytest.approx(metrics.log_loss(codes, chances))
    squares = ((chances - np.eye(4)[codes]) ** 2).sum(axis=1).mean()
    assert evaluated.figures["Brier score"].value == pytest.approx(squares)
    assert np.array_equal(there(evaluated.confusion), metrics.confusion_matrix(codes, said))
    assert "log-loss" not in estimates.estimate_classes(scores, codes, names=names, chances=False).figures


def test_rules_find_the_threshold_that_they_name() -> None:
    scores, classes = people()
    law = estimates.ScoreDistribution.of(scores, classes)

    def predicted(rule: str) -> np.ndarray:
        return scores > estimates.threshold_of(rule, law)

    def f1(said: np.ndarray) -> float:
        return float(2 * (said & (classes == 1)).sum() / (said.sum() + classes.sum()))

    def cost(said: np.ndarray) -> float:
        return float(5 * (~said & (classes == 1)).sum() + (said & (classes == 0)).sum())

    others = [scores > level for level in np.quantile(scores, np.linspace(0.01, 0.99, 99))]
    assert f1(predicted("f1")) >= max(map(f1, others))
    assert cost(predicted("cost=5:1")) <= min(map(cost, others))
    recall = predicted("recall=0.8")[classes == 1].mean()
    assert 0.8 <= recall < 0.8 + 2 / classes.sum()
    assert predicted("share=0.1").mean() == pytest.approx(0.1, abs=1e-3)
    balanced = predicted("balanced")
    assert balanced[classes == 1].mean() - balanced[classes == 0].mean() >= 0.55
    assert estimates.threshold_of("0.2", law) == pytest.approx(math.log(0.25))


@pytest.mark.parametrize("rule", ["", "best", "recall=2", "recall=x", "cost=5", "1.5", "0"])
def test_a_rule_that_is_none_is_refused_with_those_there_are(rule: str) -> None:
    with pytest.raises(InputError, match=r"threshold: found .*balanced, f1, recall=0\.8"):
        estimates.threshold_of(rule, estimates.ScoreDistribution.of(*people()))


def test_recalibration_has_the_least_log_loss_of_its_kind() -> None:
    scores, classes = people()
    slope, shift = estimates.recalibration(estimates.ScoreDistribution.of(3.0 * scores + 2.0, classes))

    def loss(a: float, b: float) -> float:
        return float(np.logaddexp(0, np.where(classes, -1, 1) * (a * (3.0 * scores + 2.0) + b)).mean())

    around = [loss(slope + one, shift + two) for one in (-0.01, 0, 0.01) for two in (-0.01, 0, 0.01)]
    assert loss(slope, shift) <= min(around) + 1e-9
    wrong_way = estimates.recalibration(estimates.ScoreDistribution.of(-scores, classes))
    assert wrong_way[0] == 0.0 and wrong_way[1] == pytest.approx(
        math.log(classes.mean() / (1 - classes.mean()))
    )


def test_curves_rise_and_end_where_they_must() -> None:
    law = estimates.ScoreDistribution.of(*people())
    found = estimates.curves(law)
    assert (
        found["roc"][0] == [0.0, 0.0] and found["roc"][-1] == [1.0, 1.0] and found["lift"][-1] == [1.0, 1.0]
    )
    for name in ("roc", "lift"):
        assert (np.diff(np.array(found[name]), axis=0) >= 0).all()
    bins = estimates.calibration_curve(law)
    assert sum(item["people"] for item in bins) == PEOPLE
    assert estimates.commonest(np.array([3.0, 1.0]))["average precision"] == 0.25


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(ModelError, match="nobody here is of class 'yes'"):
        exact(np.arange(4.0), np.zeros(4, dtype=np.int64))


def test_a_figure_has_no_more_digits_than_its_error_allows() -> None:
    assert str(estimates.Figure(0.89134, 0.03, 0.04, 0.5)) == "0.89 ± 0.05"
    assert str(estimates.Figure(0.89134, 0.0, 0.0004, 0.5)) == "0.8913 ± 0.0004"
