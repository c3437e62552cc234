"""An exported graph says what the model says, of any table; and what is not released is not exported."""

import itertools
import json
import math
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_releases import GUARANTEES, Shoppers
from typed import untyped

from colonnade import PCA, LinearRegression, LogisticRegression, SupportVectorClassifier
from colonnade.data.declaring import Case, Spelling, UnicodeForm
from colonnade.data.encoder import Encoder
from colonnade.data.kinds import DateColumn, NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, LabelBlock, RealLabel
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.data.maps import FeatureMap, RandomRelu
from colonnade.errors import CannotWrite, DataError, ModelError, NotInstalled
from colonnade.models.files import onnx as onnx_export
from colonnade.models.files.document import Privacy
from colonnade.models.files.linear_file import ModelFile, parts_of
from colonnade.models.files.onnx import onnx_model, save_onnx
from colonnade.models.inputs import InputSpec

PRIVACY = Privacy(GUARANTEES)
EPOCH = date(1970, 1, 1)
LEVELS = ("a", "b", "ç ç", "other")
LABELS = {
    "LogisticRegression": LabelBlock(ClassLabel("y", ("no", "yes"))),
    "three classes": LabelBlock(ClassLabel("y", ("low", "middle", "high"))),
    "SupportVectorClassifier": LabelBlock(ClassLabel("y", ("no", "yes"))),
    "LinearRegression": LabelBlock(RealLabel("y", 0, 10)),
    "GammaRegression": LabelBlock(RealLabel("y", 1, 10)),
    "PoissonRegression": LabelBlock(CountLabel("y", 0, 10)),
    "PCA": LabelBlock(None),
}
ANSWERS = {
    "LogisticRegression": "predict_proba",
    "SupportVectorClassifier": "decision_function",
    "PCA": "transform",
}


def session(made: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


def requested(made: onnx.ModelProto, given: dict[str, Any]) -> dict[str, Any]:
    """What the graph answers, by name; columns as lists become what it takes."""
    running = session(made)
    arrays = {
        name: np.array(values, dtype=object if isinstance(values[0], str) else np.float64).reshape(-1, 1)
        for name, values in given.items()
    }
    return dict(zip([found.name for found in running.get_outputs()], running.run(None, arrays), strict=True))


NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
BOUNDS = st.tuples(NUMBERS, NUMBERS).filter(lambda pair: pair[1] - pair[0] > 1e-3)


@st.composite
def columns(draw: st.DrawFn, name: str) -> tuple[Any, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["numeric", "log", "binary", "categorical", "bins", "date"]))
    nothing = st.just(math.nan)
    missing: Any
    if kind == "numeric":
        low, high = draw(BOUNDS)
        missing = draw(st.one_of(st.none(), st.just("category"), st.floats(low, high)))
        encoding = draw(st.sampled_from([None, "circle", "linear", "hats"]))
        values = st.floats(low - (high - low), high + (high - low))
        return NumericColumn(
            name, low, high, "none", missing, untyped(encoding)
        ), values if missing is None else values | nothing
    if kind == "log":
        high = draw(st.sampled_from([1e-9, 1.0, 99999.0]))
        return NumericColumn(name, 0, high, "log1p"), st.floats(0, 2 * high)
    if kind == "binary":
        missing = draw(st.sampled_from([None, "F"]))
        return BinaryColumn(name, ("F", "M"), missing), st.sampled_from(
            ["F", "M", *([""] if missing else [])]
        )
    if kind == "categorical":
        other = draw(st.sampled_from([None, "other"]))
        missing = draw(st.sampled_from([None, "b"]))
        more = [*(["elsewhere", "A"] if other else []), *([""] if missing else [])]
        return CategoricalColumn(name, LEVELS, other, missing), st.sampled_from([*LEVELS, *more])
    if kind == "bins":
        edges = tuple(draw(st.lists(st.integers(-5, 5), min_size=1, max_size=4, unique=True).map(sorted)))
        missing = draw(st.sampled_from([None, 0.5, "category"]))
        values = st.floats(-9, 9) | st.integers(-9, 9).map(float)
        return BinnedColumn(name, edges, missing), values if missing is None else values | nothing
    first = EPOCH + timedelta(draw(st.integers(0, 9000)))
    last = first + timedelta(draw(st.integers(1, 9000)))
    missing = draw(st.sampled_from([None, "category", first]))
    days = st.floats(-100, 30000)
    return DateColumn(name, first, last, missing=missing), days if missing is None else days | nothing


@st.composite
def models(draw: st.DrawFn) -> tuple[ModelFile, dict[str, list[Any]]]:
    """A model of any kind on any columns of two parties, and people."""
    which = draw(st.sampled_from(sorted(LABELS)))
    kind = "LogisticRegression" if which == "three classes" else which
    mode: Any = "circle" if LABELS[which].kind == "classes" else "linear"
    parties, people, rows = [], {}, draw(st.integers(1, 6))
    for party in ("bank", "shop"):
        # One name is used by both parties, so that the graph must tell them apart.
        found = [draw(columns(name)) for name in ("shared", f"own {party}")]
        parties.append((party, Encoder(tuple(column for column, _ in found), mode)))
        for (column, values), name in zip(found, (f"{party}.shared", f"own {party}"), strict=True):
            people[name] = [draw(values) for _ in range(rows)]
            assert column.name in name
    frame = InputSpec(tuple(parties), LABELS[which])
    width = {"three classes": 3, "PCA": 2}.get(which, 1)
    count, offset = width * frame.columns, frame.columns if which == "PCA" else width
    weights = draw(st.lists(st.floats(-3, 3), min_size=count, max_size=count))
    offsets = draw(st.lists(st.floats(-3, 3), min_size=offset, max_size=offset))
    threshold = draw(st.floats(0.1, 0.9)) if which == "LogisticRegression" else 0.5
    matrix = np.array(weights).reshape(width, -1)
    return ModelFile(kind, frame, matrix, np.array(offsets), PRIVACY, "moments", "5f0c", threshold), people


def raw(model: ModelFile, people: dict[str, list[Any]]) -> dict[str, Any]:
    """The same people as the model's own methods take them: dates as moments, nothing as None."""
    declared = [column for _, encoder in model.frame.encoders for column in encoder.columns]
    found: dict[str, Any] = {}
    for name, column in zip(model.frame.column_names, declared, strict=True):
        values = people[name]
        if isinstance(column, DateColumn):
            moments = [round(day * 86_400_000_000) if day == day else "NaT" for day in values]
            found[name] = np.array([np.datetime64(moment, "us") for moment in moments])
        else:
            found[name] = [value if value == value else None for value in values]
            if all(value is None for value in found[name]):
                found[name] = np.full(len(values), np.nan)
    return found


@given(models())
@settings(max_examples=80)
def test_the_graph_says_what_the_model_says(case: tuple[ModelFile, dict[str, list[Any]]]) -> None:
    model, people = case
    estimator, given = model.estimator(), raw(model, people)
    answers = requested(onnx_model(model), people)
    wanted = np.asarray(getattr(estimator, ANSWERS.get(model.kind, "predict"))(given))
    # A moment has microseconds, and the days of the graph do not.
    close = 1e-6 if any(np.asarray(values).dtype.kind == "M" for values in given.values()) else 1e-11
    name = next(found for found in answers if found != "label")
    assert np.allclose(answers[name], wanted, rtol=close, atol=close)
    if model.reading.classifies:
        scores = untyped(estimator).decision_function(given)
        edge = (
            math.log(model.threshold / (1 - model.threshold)) if model.kind == "LogisticRegression" else 0.0
        )
        gap = np.abs(scores - edge) if scores.ndim == 1 else np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0]
        sure = gap > 10 * close
        assert (answers["label"] == untyped(estimator).predict(given))[sure].all()


@given(models())
@settings(max_examples=20)
def test_encoded_features_are_answered_alike(case: tuple[ModelFile, dict[str, list[Any]]]) -> None:
    model, people = case
    features = model.frame.features(raw(model, people))
    running = session(onnx_model(model, encoded=True))
    answers = running.run([running.get_outputs()[-1].name], {"features": features})[0]
    wanted = np.asarray(getattr(model.estimator(), ANSWERS.get(model.kind, "predict"))(features))
    assert np.allclose(answers, wanted, rtol=1e-11, atol=1e-11)


def classifier() -> ModelFile:
    bank = Encoder((NumericColumn("age", 0, 90), CategoricalColumn("job", ("clerk", "cook"))), "circle")
    shop = Encoder((BinnedColumn("visits", (1, 5)),), "circle")
    frame = InputSpec((("bank", bank), ("shop", shop)), LABELS["LogisticRegression"])
    weights = np.arange(1.0, frame.columns + 1)[None, :]
    return ModelFile("LogisticRegression", frame, weights, np.array([0.5]), PRIVACY, "moments", "5f0c")


@pytest.mark.parametrize(
    ("column", "value"),
    [("age", math.nan), ("age", math.inf), ("job", ""), ("visits", math.nan), ("visits", -math.inf)],
)
def test_where_the_model_refuses_a_value_the_graph_says_nothing_of_it(column: str, value: Any) -> None:
    people: dict[str, list[Any]] = {"age": [30.0, 40.0], "job": ["clerk", "cook"], "visits": [2.0, 7.0]}
    people[column][1] = value
    with pytest.raises(DataError):
        untyped(classifier().estimator()).predict({**people, column: [people[column][0], value or None]})
    answers = requested(onnx_model(classifier()), people)
    assert answers["label"].tolist()[1] == "" and answers["label"].tolist()[0] in ("no", "yes")
    assert np.isnan(answers["probabilities"][1]).all() and np.isfinite(answers["probabilities"][0]).all()


RULES = [
    Spelling(trim, case, form)
    for trim, case, form in itertools.product((True, False), get_args(Case), get_args(UnicodeForm))
]


TEXTS = "north,NORTH, north,north ,nOrTh,NORTh,\tnorth,  north,\u2003north\x1f,Émile,ÉMILE,émile,E\u0301mile,éMile"
NUMBERS_AS_TEXT = ",7,7.0, 7.00,7.0 ,７,٣,٣.0,\t"
ELSEWHERE = {"south", "North ern", "7.5", "axb"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.trim}-{rule.case}-{rule.unicode}")
@pytest.mark.parametrize("other", [None, "other"])
def test_under_every_rule_of_spelling_the_graph_says_the_same_or_stops(rule: Spelling, other: Any) -> None:
    column = CategoricalColumn("region", ("north", "Émile", "7", "٣", "a.b", "other"), other, None, rule)
    frame = InputSpec((("bank", Encoder((column,), "circle")),), LABELS["LogisticRegression"])
    weights = np.arange(1.0, frame.columns + 1)[None, :]
    model = ModelFile("LogisticRegression", frame, weights, np.array([0.0]), PRIVACY, "moments", "5f0c")
    graph, estimator, same = onnx_model(model), untyped(model.estimator()), set()
    for text in (*TEXTS.split(","), *NUMBERS_AS_TEXT.split(","), *ELSEWHERE, "Zürich"):
        try:
            answers = requested(graph, {"region": [text]})
        except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument as stopped:
            assert "region: every category is one that is declared" in str(stopped)
            continue
        try:
            assert np.allclose(answers["probabilities"], estimator.predict_proba({"region": [text]})), text
            same.add(text)
        except DataError:
            assert answers["label"].item(0) == "" and np.isnan(answers["probabilities"]).all(), text
    assert same >= {"north", "Émile", "7", "7.0", *(ELSEWHERE if other else ())}
    if other and (rule.case, rule.unicode) == ("exact", "exact"):
        assert same >= {"nOrTh", "éMile", "Zürich"}


def test_the_file_carries_the_statement_and_the_declarations(tmp_path: Path) -> None:
    save_onnx(classifier(), tmp_path / "model.onnx")
    made = onnx.load(tmp_path / "model.onnx")
    props = {item.key: item.value for item in made.metadata_props}
    assert props["colonnade.privacy"] == str(PRIVACY) and str(PRIVACY) in made.doc_string
    assert json.loads(props["colonnade.guarantees"])[0]["epsilon"] == GUARANTEES[0].epsilon
    assert [item["name"] for item in json.loads(props["colonnade.columns"])] == ["age", "job", "visits"]
    assert (props["colonnade.method"], props["colonnade.run"]) == ("moments", "5f0c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


def test_a_model_with_seeded_noise_says_so_in_the_file() -> None:
    seeded = replace(classifier(), privacy=Privacy(GUARANTEES, reproducible=True))
    assert onnx_export.metadata(seeded)["colonnade.privacy"].startswith("No privacy")


@pytest.mark.parametrize(
    ("model", "kind", "answer", "name"),
    [
        (LogisticRegression(epsilon=20.0), "two", "predict_proba", "probabilities"),
        (LogisticRegression(epsilon=20.0), "three", "predict_proba", "probabilities"),
        (LinearRegression(epsilon=20.0), "real", "predict", "prediction"),
        (PCA(2, epsilon=20.0), "none", "transform", "components"),
    ],
)
def test_a_model_just_fitted_can_be_exported(model: Any, kind: str, answer: str, name: str) -> None:
    people = Shoppers(300)
    model.fit(people.federation(kind))
    answers = requested(onnx_model(model), {column: values.tolist() for column, values in people.raw.items()})
    assert np.allclose(answers[name], getattr(model, answer)(people.raw), atol=1e-10)


def test_weights_that_stay_with_their_parties_are_not_exported() -> None:
    part = parts_of(classifier(), active="bank")["shop"]
    with pytest.raises(ModelError, match=r"shop's part of a model\. The weights of this model stay"):
        onnx_model(part)
    with pytest.raises(ModelError, match="stay with their parties"):
        onnx_model(part.estimator())
    federation = Shoppers(200).federation("two")
    for model in (
        LogisticRegression(epsilon=20.0, method="private-messages", options={"epochs": 1}),
        SupportVectorClassifier(epsilon=20.0, options={"epochs": 1}),
    ):
        model.fit(federation)
        with pytest.raises(ModelError, match="stay with their parties"):
            onnx_model(model)


def test_what_is_no_linear_model_or_not_fitted_is_refused() -> None:
    with pytest.raises(ModelError, match="This is a LogisticRegression that is not fitted"):
        onnx_model(LogisticRegression())
    with pytest.raises(ModelError, match="This is a dict"):
        onnx_model({})


def test_columns_that_go_through_a_map_are_exported_as_features_only() -> None:
    age = NumericColumn("age", 0, 90)
    encoder = Encoder((age,), "circle", FeatureMap(RandomRelu(features=3, seed=1)))
    frame = InputSpec((("bank", encoder),), LABELS["LogisticRegression"])
    model = ModelFile("LogisticRegression", frame, np.ones((1, 3)), np.zeros(1), PRIVACY, "moments", "")
    with pytest.raises(ModelError, match=r"columns of bank go through the map.*encoded features"):
        onnx_model(model)
    assert onnx_model(model, encoded=True).graph.input[0].name == "features"


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(NotInstalled, match=r"colonnade\[onnx\]"):
        onnx_model(classifier())


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"none.*model.onnx cannot be written"):
        save_onnx(classifier(), tmp_path / "none" / "model.onnx")
