"""The card of a model: metadata that hubs accept, and nothing on it that may not be shown."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, LabelBlock, RealLabel
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.errors import ModelError
from colonnade.models.files.document import Privacy
from colonnade.models.files.linear_file import ModelFile, parts_of
from colonnade.models.inputs import InputSpec
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.observers import ZERO_OUT, Reader, Server
from colonnade.report.model_card import LICENSES, model_card
from colonnade.report.record import RunRecord
from colonnade.runtime.channel import readable

GUARANTEES = (
    Guarantee(
        Server(), ZERO_OUT, 0.9951, 1e-5, "at least 1 of 2 owners keeps its noise secret", "Rényi, order 21"
    ),
    Guarantee(Reader(), ZERO_OUT, 0.9951, 1e-5, "", "Rényi, order 21"),
)
FACTS = {
    "name": "Risk",
    "rows": 4000,
    "notes": ["Class 'high' is rare."],
    "collusion": "The shares lie with the server, the bank and the shop.",
    "measured": {"accuracy on the training rows": 0.75, "non-private model, accuracy": 0.8},
}


def record_of(facts: dict[str, Any] | None) -> RunRecord | None:
    return None if facts is None else RunRecord.model_construct(**facts)


# Of the fields that the hub's own specification has (hub-docs, modelcard.md), those that are written.
FIELDS = {"license", "license_name", "library_name", "tags", "pipeline_tag", "metrics", "model-index"}
TASKS = {"LogisticRegression": "tabular-classification", "LinearRegression": "tabular-regression"}


def front(card: str) -> Any:
    start, matter, _ = re.split(r"^---$", card, maxsplit=2, flags=re.MULTILINE)
    assert start == ""
    return yaml.safe_load(matter)


def model(kind: str = "LogisticRegression", *, privacy: Privacy | None = None) -> ModelFile:
    label = {
        "LogisticRegression": LabelBlock(ClassLabel("risk", ("low", "high"))),
        "LinearRegression": LabelBlock(RealLabel("cost", 0, 10)),
        "PCA": LabelBlock(None),
    }[kind]
    bank = Encoder((NumericColumn("age", 18, 90), BinaryColumn("sex", ("F", "M"))), "linear")
    shop = Encoder((CategoricalColumn("a | b", ("x", "y", "z")), BinnedColumn("visits", (1, 5))), "linear")
    frame = InputSpec((("bank", bank), ("shop", shop)), label)
    offsets = np.zeros(frame.columns if kind == "PCA" else 1)
    shown = Privacy(GUARANTEES) if privacy is None else privacy
    return ModelFile(kind, frame, np.ones((1, frame.columns)), offsets, shown, "moments", "5f0c")


@pytest.mark.parametrize("kind", ["LogisticRegression", "LinearRegression", "PCA"])
@pytest.mark.parametrize("facts", [None, FACTS, {**FACTS, "measured": None}])
@pytest.mark.parametrize("license", ["unknown", "cc-by-4.0", "our-own-1.0"])
def test_hubs_accept_the_metadata(kind: str, facts: dict[str, Any] | None, license: str) -> None:
    found = front(model_card(model(kind), record=record_of(facts), license=license))
    assert set(found) <= FIELDS and found["library_name"] == "colonnade" and "tabular" in found["tags"]
    own = (
        {"license": "other", "license_name": "our-own-1.0"}
        if license.startswith("our")
        else {"license": license}
    )
    assert {key: found[key] for key in found if "license" in key} == own and own["license"] in LICENSES
    assert found.get("pipeline_tag") == TASKS.get(kind)
    if kind == "PCA" or facts is None or facts["measured"] is None:
        assert not {"model-index", "metrics"} & set(found)
        return
    (result,) = found["model-index"][0]["results"]
    assert found["model-index"][0]["name"] == "Risk" and result["task"] == {"type": TASKS[kind]}
    # Another model's figure is not this one's.
    name = "accuracy on the training rows"
    assert result["metrics"] == [{"type": "accuracy", "value": 0.75, "name": name}]
    assert found["metrics"] == ["accuracy"] and set(result["dataset"]) == {"type", "name"}


@given(st.text(min_size=1), st.lists(st.text(), max_size=2))
def test_no_name_breaks_out_of_the_metadata(name: str, notes: list[str]) -> None:
    found = front(model_card(model(), name=name, record=record_of({**FACTS, "notes": notes})))
    assert found["model-index"][0]["name"] == readable(name)


def test_every_observer_is_told_about_with_what_it_rests_on() -> None:
    card = model_card(model(), record=record_of(FACTS))
    for item in GUARANTEES:
        assert f"- {item}" in card
    assert str(FACTS["collusion"]) in card and "4000 people" in card and "- Class 'high' is rare." in card


def test_figures_are_shown_only_where_they_were_measured_on_public_data() -> None:
    shown = model_card(model(), record=record_of(FACTS))
    assert "| accuracy on the training rows | 0.750 |" in shown
    assert "None is shown" in model_card(model(), record=record_of({**FACTS, "measured": None}))


def test_columns_are_shown_as_they_were_declared() -> None:
    card = model_card(model())
    for line in ("| age | bank | number from 18 to 90 |", r"| a \| b | shop | one of x, y, z |"):
        assert line in card


def test_a_classifier_says_where_it_cuts_and_what_its_probabilities_rest_on() -> None:
    card = model_card(replace(model(), threshold=0.3))
    assert "- Predicts `high` where its probability is above 0.3\n" in card
    assert "nobody has compared them with what came true" in card
    assert "nobody has compared" not in model_card(replace(model(), method="slr"))
    assert "probabilit" not in model_card(model("LinearRegression"))


def test_a_model_that_promises_nothing_says_so() -> None:
    assert "- No guarantee." in (card := model_card(model(privacy=Privacy(()))))
    assert "Nothing is promised" in card
    assert "- No privacy: the noise was drawn from a seed" in model_card(
        model(privacy=Privacy(GUARANTEES, reproducible=True))
    )


def test_a_part_of_a_model_has_no_card() -> None:
    with pytest.raises(ModelError, match="stay with their parties"):
        model_card(parts_of(model(), active="bank")["shop"])
    assert model_card(replace(model(), run=""))


def test_names_that_somebody_chose_are_words_on_the_card_and_no_markup() -> None:
    hostile = "<img src=x onerror=alert(1)> [click](javascript:alert(1)) `code` *bold*"
    bank = Encoder((CategoricalColumn(hostile, (hostile, "b|c")),), "linear")
    frame = InputSpec((("bank", bank),), LabelBlock(ClassLabel(hostile, ("low", hostile))))
    whole = ModelFile(
        "LogisticRegression", frame, np.zeros((1, 1)), np.zeros(1), Privacy(GUARANTEES), "moments", "r"
    )
    facts = {**FACTS, "name": hostile, "notes": [hostile], "collusion": hostile}
    card = model_card(whole, record=record_of(facts), license="mit").split("---\n", 2)[2]
    # What is left between the code spans, whose fences are longer than any run of backticks within.
    prose = re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", card)
    assert (
        "<" not in prose
        and re.search(r"(?<!\\)\][(\[:]", prose) is None
        and re.search(r"(?<!\\)\*", prose) is None
    )
    assert "&lt;img" in prose and "``" in card
