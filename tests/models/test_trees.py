"""Boosted trees from a class-conditional release: what they learn and what they say of themselves."""

import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from tables_people import BANK, GAMMA, LABEL, SHOP, people, release_with

from colonnade.data.encoder import Encoder, Quantizer
from colonnade.errors import InputError, NotInstalled
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.models.trees import GradientBoostedTrees

RAW, _ = people(8000)


def crossed(raw: Any) -> NDArray[np.int64]:
    """A class that no line tells: whether one of two, and not both, are so."""
    old, owns = np.asarray(raw["age"]) >= 45, np.asarray(raw["owner"]) == "yes"
    result: NDArray[np.int64] = (old != owns).astype(np.int64)
    return result


def conditional(raw: Any, risk: NDArray[np.int64], *, noise: float = 0.5) -> MomentRelease:
    """Moments by class as a trusted party would make them, with rounded normal noise."""
    encoders = (("bank", Encoder(BANK, "circle")), ("shop", Encoder(SHOP, "circle")))
    parts = [
        Quantizer(encoder, attributes_total=4, gamma=GAMMA).quantize(
            {c.name: raw[c.name] for c in encoder.columns}
        )
        for _, encoder in encoders
    ]
    rows = np.column_stack([*parts, np.full(len(risk), LABEL.constant(GAMMA))]).astype(np.float64)
    size, rng = rows.shape[1], np.random.default_rng(1)
    matrix = np.zeros((2 * size, 2 * size), dtype=np.int64)
    for kind in (0, 1):
        own = rows[risk == kind]
        drawn = np.triu(rng.normal(0.0, noise * GAMMA**2, (size, size)), 1)
        span = slice(kind * size, (kind + 1) * size)
        matrix[span, span] = np.rint(own.T @ own + drawn + drawn.T).astype(np.int64)
    return MomentRelease(
        matrix=matrix,
        gamma=GAMMA,
        rows=len(risk),
        encoders=encoders,
        label=LABEL,
        mu=Fraction(round(noise**2 * GAMMA**4)),
        guarantees=(),
        plan="",
        run="",
        reproducible=False,
        conditional=True,
    )


@pytest.fixture(scope="module")
def trees() -> GradientBoostedTrees:
    pytest.importorskip("lightgbm")
    return GradientBoostedTrees(rows=12_000, rounds=80, rate=0.2).fit(conditional(RAW, crossed(RAW)))


def test_trees_tell_what_two_columns_say_together_and_a_line_does_not(trees: GradientBoostedTrees) -> None:
    new, _ = people(3000, seed=9)
    truth = crossed(new)
    linear = LogisticRegression(rule="matched").fit(conditional(RAW, crossed(RAW)))
    assert roc_auc_score(truth, linear.decision_function(new)) < 0.75
    assert roc_auc_score(truth, trees.decision_function(new)) > 0.85
    assert trees.score(new, np.array(["low", "high"])[truth]) > 0.75
    assert trees.check_["auc"] > trees.check_["linear_auc"] + 0.1 and trees.advice_ == ""


def test_importance_is_of_the_columns(trees: GradientBoostedTrees) -> None:
    assert set(list(trees.importance_)[:2]) == {"age", "owner"}
    assert sum(trees.importance_.values()) == pytest.approx(1)
    assert list(trees.importance_.values()) == sorted(trees.importance_.values(), reverse=True)


def test_where_a_line_does_as_well_they_say_so() -> None:
    pytest.importorskip("lightgbm")
    raw, risk = people(4000)
    model = GradientBoostedTrees(rows=6000, rounds=30).fit(conditional(raw, risk, noise=3.0))
    assert "The linear rule is expected to be as good" in model.advice_


def test_a_plain_release_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="conditional = true"):
        GradientBoostedTrees().fit(release_with(*people(500), noise=1.0))


def test_without_the_extra_its_name_is_said(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    raw, risk = people(500)
    with pytest.raises(NotInstalled, match=r"colonnade\[trees\]"):
        GradientBoostedTrees().fit(conditional(raw, risk))


@pytest.mark.parametrize("arguments", [{"rows": 0}, {"rounds": 10**9}, {"rows": True}])
def test_a_number_of_rows_or_rounds_is_whole_and_in_range(arguments: dict[str, Any]) -> None:
    raw, risk = people(500)
    with pytest.raises(InputError, match="from 1 to 10,000,000"):
        GradientBoostedTrees(**arguments).fit(conditional(raw, risk))
