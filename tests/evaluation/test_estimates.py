"""Figures against scikit-learn, and what is read from noisy characteristic functions against the truth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from ideals import ideal_evaluation
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from training_specs import evaluation_plan

from colonnade.errors import InputError, ModelError
from colonnade.evaluation.distributions import OpenedScore, estimate_opened_score
from colonnade.evaluation.estimates import (
    Figure,
    ScoreDistribution,
    TwoClassEstimate,
    calibration_curve,
    commonest,
    curves,
    estimate_two_classes,
    recalibration,
    threshold_of,
)
from colonnade.protocols.evaluation import EvaluationPlan, Opened

PEOPLE = 4000


def people(seed: int = 1, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = (rng.uniform(size=PEOPLE) < share).astype(np.int64)
    return rng.normal(size=PEOPLE) + 1.6 * classes - 1.5, classes


def exact(scores: np.ndarray, classes: np.ndarray, threshold: float = 0.0) -> TwoClassEstimate:
    return estimate_two_classes(scores, classes, names=("no", "yes"), threshold=threshold, chances=True)


def test_figures_are_those_of_scikit_learn() -> None:
    scores, classes = people()
    # Some ties.
    scores = np.round(scores, 2)
    found = exact(scores, classes, threshold=-0.25).figures
    chances = 1 / (1 + np.exp(-scores))
    assert found["AUC"].value == pytest.approx(roc_auc_score(classes, scores))
    assert found["average precision"].value == pytest.approx(average_precision_score(classes, scores))
    assert found["accuracy"].value == pytest.approx(float(((scores > -0.25) == classes).mean()))
    assert found["log-loss"].value == pytest.approx(log_loss(classes, chances))
    assert found["Brier score"].value == pytest.approx(brier_score_loss(classes, chances))
    share = float(classes.mean())
    assert found["log-loss"].baseline == pytest.approx(log_loss(classes, np.full(PEOPLE, share)))
    assert found["accuracy"].baseline == max(share, 1 - share)
    assert all(figure.noise == 0 and figure.sampling > 0 for figure in found.values())


def test_the_error_of_sampling_is_how_far_figures_of_other_people_lie() -> None:
    figures = [exact(*people(seed)).figures["AUC"] for seed in range(14)]
    spread = float(np.std([figure.value for figure in figures]))
    assert 0.5 < np.mean([figure.sampling for figure in figures]) / spread < 2.0


def test_the_error_of_sampling_does_not_follow_the_last_digits_of_floats() -> None:
    scores, classes = people()
    requested = plan()
    made = Opened(requested, "run", False, None, noisy(requested, opened(requested, scores, classes), 1))
    pairs = [
        (exact(scores, classes), exact(scores * (1 + 1e-13), classes)),
        (
            estimate_opened_score(made, centre=0.2, threshold=0.0, chances=True),
            estimate_opened_score(made, centre=0.2 + 1e-13, threshold=0.0, chances=True),
        ),
    ]
    for one, other in pairs:
        for name, figure in one.figures.items():
            assert other.figures[name].error == pytest.approx(figure.error, rel=1e-6), name


def test_rules_find_the_threshold_that_they_name() -> None:
    scores, classes = people()
    law = ScoreDistribution.of(scores, classes)

    def predicted(rule: str) -> np.ndarray:
        return scores > threshold_of(rule, law)

    def f1(said: np.ndarray) -> float:
        result: float = 2 * (said & (classes == 1)).sum() / (said.sum() + classes.sum())
        return result

    def cost(said: np.ndarray) -> float:
        result: float = 5 * (~said & (classes == 1)).sum() + (said & (classes == 0)).sum()
        return result

    others = [scores > level for level in np.quantile(scores, np.linspace(0.01, 0.99, 99))]
    assert f1(predicted("f1")) >= max(map(f1, others))
    assert cost(predicted("cost=5:1")) <= min(map(cost, others))
    recall = predicted("recall=0.8")[classes == 1].mean()
    assert 0.8 <= recall < 0.8 + 2 / classes.sum()
    assert predicted("share=0.1").mean() == pytest.approx(0.1, abs=1e-3)
    balanced = predicted("balanced")
    assert balanced[classes == 1].mean() - balanced[classes == 0].mean() >= 0.55
    assert threshold_of("0.2", law) == pytest.approx(math.log(0.25))


@pytest.mark.parametrize("rule", ["", "best", "recall=2", "recall=x", "cost=5", "1.5", "0"])
def test_a_rule_that_is_none_is_refused_with_those_there_are(rule: str) -> None:
    with pytest.raises(InputError, match=r"threshold: found .*balanced, f1, recall=0\.8"):
        threshold_of(rule, ScoreDistribution.of(*people()))


def test_recalibration_has_the_least_log_loss_of_its_kind() -> None:
    scores, classes = people()
    slope, shift = recalibration(ScoreDistribution.of(3.0 * scores + 2.0, classes))

    def loss(a: float, b: float) -> float:
        return float(np.logaddexp(0, np.where(classes, -1, 1) * (a * (3.0 * scores + 2.0) + b)).mean())

    around = [loss(slope + one, shift + two) for one in (-0.01, 0, 0.01) for two in (-0.01, 0, 0.01)]
    assert loss(slope, shift) <= min(around) + 1e-9
    wrong_way = recalibration(ScoreDistribution.of(-scores, classes))
    assert wrong_way[0] == 0.0 and wrong_way[1] == pytest.approx(
        math.log(classes.mean() / (1 - classes.mean()))
    )


def test_curves_rise_and_end_where_they_must() -> None:
    law = ScoreDistribution.of(*people())
    found = curves(law)
    assert (
        found["roc"][0] == [0.0, 0.0] and found["roc"][-1] == [1.0, 1.0] and found["lift"][-1] == [1.0, 1.0]
    )
    for name in ("roc", "lift"):
        assert (np.diff(np.array(found[name]), axis=0) >= 0).all()
    bins = calibration_curve(law)
    assert sum(item["people"] for item in bins) == PEOPLE
    assert commonest(np.array([3.0, 1.0]))["average precision"] == 0.25


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(ModelError, match="nobody here is of class 'yes'"):
        exact(np.arange(4.0), np.zeros(4, dtype=np.int64))


def test_a_figure_has_no_more_digits_than_its_error_allows() -> None:
    assert str(Figure(0.89134, 0.03, 0.04, 0.5)) == "0.89 ± 0.05"
    assert str(Figure(0.89134, 0.0, 0.0004, 0.5)) == "0.8913 ± 0.0004"


# From what the protocol opens.


def plan() -> EvaluationPlan:
    return evaluation_plan(
        'column = "buys", kind = "classes", classes = ["no", "yes"]', ((4.0, 3.0),), PEOPLE
    )


def opened(requested: EvaluationPlan, scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """What would be opened without noise: half of each score with each owner."""
    half = dict.fromkeys(("bank", "shop"), scores[:, None] / 2)
    return ideal_evaluation(half, classes, requested).astype(np.int64)


def noisy(requested: EvaluationPlan, values: np.ndarray, seed: int) -> np.ndarray:
    sigma = requested.deviation * requested.scale
    return values + np.rint(np.random.default_rng(seed).normal(size=len(values)) * sigma).astype(np.int64)


def test_without_noise_everything_is_read_as_it_is() -> None:
    scores, classes = people()
    requested = plan()
    opened_score = OpenedScore.of(opened(requested, scores, classes), requested, 0.0)
    truth = exact(scores, classes).figures
    assert opened_score.auc() == pytest.approx(truth["AUC"].value, abs=1e-3)
    assert opened_score.mean_losses()["log-loss"] == pytest.approx(truth["log-loss"].value, abs=0.004)
    assert opened_score.mean_losses()["Brier score"] == pytest.approx(truth["Brier score"].value, abs=0.002)
    scored = opened_score.distribution()
    assert scored.counts == pytest.approx([PEOPLE - classes.sum(), classes.sum()])
    assert float((scored.people[1] * (scored.scores > 0)).sum()) / classes.sum() == pytest.approx(
        float((scores[classes == 1] > 0).mean()), abs=0.02
    )


def test_noise_moves_the_auc_by_nothing_on_average_and_by_what_is_said() -> None:
    scores, classes = people()
    requested = plan()
    values = opened(requested, scores, classes)
    found = np.array(
        [OpenedScore.of(noisy(requested, values, seed), requested, 0.0).auc() for seed in range(400)]
    )
    truth = exact(scores, classes).figures["AUC"].value
    # Four deviations of the mean of 400, and what the series and the counts leave.
    assert abs(found.mean() - truth) < 4 * found.std() / 20 + 1e-3
    made = Opened(requested, "run", False, None, noisy(requested, values, 1))
    evaluated = estimate_opened_score(made, centre=0.0, threshold=0.0, chances=True)
    assert 0.5 < evaluated.figures["AUC"].noise / found.std() < 2.0
    for name, figure in evaluated.figures.items():
        assert abs(figure.value - exact(scores, classes).figures[name].value) < 5 * figure.noise + 0.01, name
    assert np.diff(np.array(evaluated.to_data()["curves"]["roc"]), axis=0).min() >= 0


def test_a_class_that_the_noise_hides_is_named() -> None:
    scores, _ = people()
    requested = plan()
    with pytest.raises(ModelError, match="class 'yes' does not stand out of the noise"):
        OpenedScore.of(opened(requested, scores, np.zeros(PEOPLE, dtype=np.int64)), requested, 0.0)
    with pytest.raises(ModelError, match="class 'no'"):
        OpenedScore.of(opened(replace(requested), scores, np.ones(PEOPLE, dtype=np.int64)), requested, 0.0)
