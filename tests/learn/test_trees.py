"""Boosted trees from a class-conditional release: what they learn, what they say of themselves, and their graph."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from tables_people import BANK, GAMMA, LABEL, SHOP, people, release_with

from colonnade.data.encoding import Encoder
from colonnade.data.quantizer import Quantizer
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


def test_importance_and_effects_are_of_the_columns(trees: GradientBoostedTrees) -> None:
    assert set(list(trees.importance_)[:2]) == {"age", "owner"}
    assert sum(trees.importance_.values()) == pytest.approx(1)
    assert [one["level"] for one in trees.effects_["owner"]] == ["no", "yes"]
    for levels in trees.effects_.values():
        assert sum(one["effect"] for one in levels) == pytest.approx(0, abs=1e-9)


def test_where_a_line_does_as_well_they_say_so() -> None:
    pytest.importorskip("lightgbm")
    raw, risk = people(4000)
    model = GradientBoostedTrees(rows=6000, rounds=30).fit(conditional(raw, risk, noise=3.0))
    assert "The linear rule is expected to be as good" in model.advice_


def test_the_graph_says_what_the_trees_say(trees: GradientBoostedTrees, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from colonnade.models.files.tree_export import save_onnx_trees

    save_onnx_trees(trees, tmp_path / "trees.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "trees.onnx"))
    new, _ = people(300, seed=3)
    texts = {"job": ["" if job is None else job for job in new["job"]], "owner": list(new["owner"])}
    given = {name: np.array(values, dtype=object)[:, None] for name, values in texts.items()}
    given |= {name: np.asarray(new[name], dtype=np.float64)[:, None] for name in ("age", "pay")}
    label, probable = session.run(["label", "probabilities"], given)
    np.testing.assert_allclose(probable, trees.predict_proba(new), atol=1e-5)
    assert label.tolist() == trees.predict(new).tolist()
    given["owner"][0, 0] = "perhaps"
    label, probable = session.run(["label", "probabilities"], given)
    assert label[0] == "" and np.isnan(probable[0]).all() and not np.isnan(probable[1:]).any()


def test_a_plain_release_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="conditional = true"):
        GradientBoostedTrees().fit(release_with(*people(500), noise=1.0))


def test_without_the_extra_its_name_is_said(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    raw, risk = people(500)
    with pytest.raises(NotInstalled, match=r"colonnade\[trees\]"):
        GradientBoostedTrees().fit(conditional(raw, risk))


def test_pictures_show_every_column(trees: GradientBoostedTrees) -> None:
    from colonnade.report.trees import effect_pictures, importance_picture

    drawn = importance_picture(trees)
    assert drawn.startswith("<svg") and all(name in drawn for name in ("age", "job", "pay", "owner"))
    pictures = effect_pictures(trees)
    assert list(pictures) == list(trees.importance_) and all("<svg" in one for one in pictures.values())


def test_their_text_says_how_they_stand_against_the_linear_rule(trees: GradientBoostedTrees) -> None:
    from colonnade.report.trees import tree_facts, tree_text

    text = tree_text(tree_facts(trees, name="Trees"))
    assert "of the linear rule from the same release" in text and "Nothing was charged" in text
    assert text.index("owner") < text.index("job")
