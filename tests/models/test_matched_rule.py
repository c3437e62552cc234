"""The matched rule: logistic regression's own coefficients where nothing is hidden, and a decision that says why."""

from typing import Any

import numpy as np
import pytest
from learn_releases import release_of
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression as Central
from tables_people import LABEL, OWNER, coded, people, release_with

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.errors import InputError
from colonnade.models.fitting import PAYS_FROM, choose_rule, strength_of
from colonnade.models.logistic import LogisticRegression
from colonnade.models.tables import matched
from colonnade.models.tables.matched import MOST_STRETCH, PEOPLE, matched_rule
from colonnade.models.tables.mixture import draw_levels

RAW, RISK = people(6000)


def test_without_noise_the_matched_rule_is_logistic_regression() -> None:
    release = release_with(RAW, RISK)
    features = release.features(RAW)
    central = Central(C=1e6, max_iter=2000).fit(features, RISK)
    matched = LogisticRegression(rule="matched").fit(release)
    squared = LogisticRegression(rule="least-squares").fit(release)
    scores = central.decision_function(features)
    off = [np.abs(model.decision_function(RAW) - scores).mean() for model in (matched, squared)]
    assert off[0] < 0.1 * np.abs(scores).mean() and off[0] < 0.5 * off[1]


@pytest.mark.parametrize(("noise", "ridge"), [(0.0, 0.0), (1.0, 0.0), (1.0, 300.0)])
def test_the_end_of_the_matched_rule_does_not_depend_on_the_order_of_its_sums(
    noise: float, ridge: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same synthetic people in another order are other sums in the last digits, and the same rule."""
    model = release_with(RAW, RISK, noise=noise).table_model()
    order = np.random.default_rng(1).permutation(PEOPLE)

    def shuffled(*arguments: Any) -> Any:
        levels, classes = draw_levels(*arguments)
        return [codes[order] for codes in levels], classes[order]

    first = matched_rule(model.margins, model.fit, ridge=ridge)
    monkeypatch.setattr(matched, "draw_levels", shuffled)
    other = matched_rule(model.margins, model.fit, ridge=ridge)
    np.testing.assert_allclose(other.coefficients, first.coefficients, rtol=1e-9, atol=1e-11)
    assert (other.intercept, other.stretch) == pytest.approx((first.intercept, first.stretch), rel=1e-9)


def test_probabilities_of_the_matched_rule_have_the_released_mean() -> None:
    model = LogisticRegression(rule="matched").fit(release_with(RAW, RISK, noise=1.0))
    assert model.predict_proba(RAW)[:, 1].mean() == pytest.approx(RISK.mean(), abs=0.01)


def test_scores_that_a_penalty_holds_back_are_stretched_to_what_was_released_of_them() -> None:
    model = release_with(RAW, RISK, noise=1.0).table_model()
    held, plain = (matched_rule(model.margins, model.fit, ridge=ridge) for ridge in (300.0, 0.0))
    assert 1.0 <= plain.stretch < 1.05 < held.stretch <= MOST_STRETCH
    levels = coded(RAW)
    parts = [column.codes[levels[column.name]] for column in model.margins.columns]
    scores = np.concatenate(parts, axis=1) @ held.coefficients

    def loss(odds: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0.0, np.where(RISK == 1, -odds, odds)).mean())

    assert loss(scores + held.intercept) < loss(scores / held.stretch + held.intercept) - 0.005


def test_the_rule_is_chosen_by_how_the_classes_stand_out_of_the_noise() -> None:
    quiet, loud = (release_with(RAW, RISK, noise=noise) for noise in (2.0, 60.0))
    assert strength_of(quiet.margins()) > PAYS_FROM > strength_of(loud.margins())
    assert choose_rule(quiet).name == "matched" and f"it pays from {PAYS_FROM:g}" in choose_rule(quiet).reason
    assert choose_rule(loud).name == "least-squares" and "expected to pay" in choose_rule(loud).reason
    assert LogisticRegression().fit(quiet).rule_ == choose_rule(quiet)
    assert LogisticRegression(ridge=1.0).fit(quiet).rule_.name == "least-squares"


def test_numbers_on_a_circle_and_three_classes_keep_least_squares() -> None:
    encoder = Encoder((NumericColumn("age", 18, 90), OWNER), "circle")
    release = release_of([("bank", encoder, {"age": RAW["age"], "owner": RAW["owner"]})], LABEL, RISK)
    assert "age are coded as numbers" in choose_rule(release).reason
    assert LogisticRegression().fit(release).rule_.name == "least-squares"
    with pytest.raises(InputError, match="'matched' cannot be had"):
        LogisticRegression(rule="matched").fit(release)
    with pytest.raises(InputError, match="Did you mean 'matched'"):
        LogisticRegression(rule="match").fit(release)
