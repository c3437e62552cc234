"""A model card as hubs read it: metadata in YAML, then what the model is, what it may be used for and what it cost.

Everything on it is public or post-processing: declarations, the plan's number of rows, weights that were released, and
figures only where they were measured on data declared public.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from colonnade import __version__
from colonnade.models.files.linear_file import ModelFile, exportable
from colonnade.report.evaluation import evaluation_section
from colonnade.report.plain import measured_rows
from colonnade.report.record import RunRecord
from colonnade.runtime.channel import readable

TAGS = ("colonnade", "differential-privacy", "vertical-federated-learning", "tabular")
UNDECLARED = "unknown"
_KNOWN = (
    "apache-2.0 mit bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear cc cc0-1.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 "
    "cc-by-sa-4.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 "
    "cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gpl gpl-2.0 gpl-3.0 lgpl "
    "lgpl-2.1 lgpl-3.0 isc mpl-2.0 openrail odc-by odbl pddl unlicense zlib other unknown"
)
LICENSES = frozenset(_KNOWN.split())
"""Identifiers that hubs know. Another one is written as the name of a license of its own."""

_AS_TEXT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{character: f"\\{character}" for character in "\\`*"}}
_NOISY = "Noise was added for privacy: weights of columns that matter little may have either sign."
_UNCHECKED = (
    "Its probabilities follow from how large the classes are and how much the score explains, both noisy; nobody has "
    "compared them with what came true."
)
_GRAPH = "\n- ONNX: the graph beside this card takes the raw columns by name; its metadata has this statement, too."
_UNPROTECTED = "Nothing is promised to the people it was trained on: it was made without a privacy guarantee."


def model_card(
    model: Any,
    *,
    name: str = "",
    license: str = UNDECLARED,
    record: RunRecord | None = None,
    onnx: bool = False,
) -> str:
    """The card of a fitted linear model, or of its file, as Markdown with YAML front matter.

    `record` is that of the run (`facts.json`), for the number of rows, the notes and figures on public data. `license`
    is whoever publishes the model to declare; `onnx` says that the graph lies beside the card.
    """
    whole = exportable(model)
    title = readable(name or (record and record.name) or whole.kind)
    measured = (record and record.measured) or {}
    entries = metadata(whole, name=title, license=readable(license), measured=measured, onnx=onnx)
    # What is JSON is YAML, too.
    front = "\n".join(
        f"{key}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}" for key, value in entries.items()
    )
    sections = (
        _details(whole, license, onnx),
        _uses(whole),
        _training(whole, record),
        _privacy(whole, record),
        _evaluation(record),
        _limits(whole, record),
    )
    return f"---\n{front}\n---\n\n# {_prose(title)}\n\n" + "\n".join(sections)


def metadata(
    model: ModelFile, *, name: str, license: str, measured: Mapping[str, float], onnx: bool
) -> dict[str, Any]:
    """The front matter as plain values; metrics only where a figure was measured on public data."""
    own = {"license": license} if license in LICENSES else {"license": "other", "license_name": license}
    entries: dict[str, Any] = {
        **own,
        "library_name": "colonnade",
        "tags": [*TAGS, *(["onnx"] if onnx else [])],
    }
    components = model.reading.answer == "components"
    task = "tabular-classification" if model.reading.classifies else "tabular-regression"
    if not components:
        entries["pipeline_tag"] = task
    metrics = [
        {
            "type": "accuracy" if "accuracy" in what else "r_squared",
            "value": round(float(value), 6),
            "name": readable(what),
        }
        for what, value in measured.items()
        if not what.startswith("non-private")
    ]
    if metrics and not components:
        entries["metrics"] = sorted({metric["type"] for metric in metrics})
        result = {
            "task": {"type": task},
            "dataset": {"type": "declared-public", "name": "the parties' data, declared public"},
            "metrics": metrics,
        }
        entries["model-index"] = [{"name": name, "results": [result]}]
    return entries


def _details(model: ModelFile, license: str, onnx: bool) -> str:
    label = model.frame.label
    learns = f" of {_code(label.label.column)}" if label.label is not None else ""
    classes = f" Classes: {', '.join(map(_code, label.classes))}." if label.classes else ""
    undeclared = " Whoever publishes it has not declared one yet." if license == UNDECLARED else ""
    predicts = ""
    if model.kind == "LogisticRegression" and len(label.classes) == 2:
        second = _code(label.classes[1])
        predicts = f"- Predicts {second} where its probability is above {model.threshold:g}\n"
    return (
        "## Model details\n\n"
        f"This is {model.reading.title}{learns}, trained with Colonnade {__version__} "
        f"on columns that {_listed([_prose(party) for party, _ in model.frame.encoders])} hold about the same "
        f"people and never put in one place.{classes}\n\n"
        f"- Kind: {model.kind}, {model.frame.columns} features from {len(model.frame.column_names)} columns\n"
        f"- Method: {model.method}\n"
        f"- Run: {model.run or 'not recorded'}\n"
        f"{predicts}"
        f"- License: {_prose(license)}.{undeclared}{_GRAPH if onnx else ''}\n"
    )


def _uses(model: ModelFile) -> str:
    answer = "components of" if model.reading.answer == "components" else "predictions for"
    return (
        "## Intended uses\n\n"
        f"For {answer} people like those it was trained on, whose columns lie within the declared bounds below; values "
        "outside are clipped. With Colonnade installed:\n\n"
        "```sh\ncolonnade predict model.json --rows people.csv --id id\n```\n\n"
        "Not for decisions about a person without somebody who answers for them, and not for columns that are declared "
        "otherwise than below.\n"
    )


def _training(model: ModelFile, record: RunRecord | None) -> str:
    shown = "people that all parties hold, a number that the parties agreed to show"
    rows = f"{record.rows} {shown}.\n\n" if record is not None and record.rows else ""
    lines = ["| column | party | declared as |", "|---|---|---|"]
    names = iter(model.frame.column_names)
    for party, encoder in model.frame.encoders:
        lines += [
            f"| {_cell(next(names))} | {_cell(party)} | {_cell(column.sentence)} |"
            for column in encoder.columns
        ]
    return (
        f"## Training data\n\n{rows}Bounds and categories were declared by people who know the columns, not read from "
        "the data. No row of it is in the model.\n\n" + "\n".join(lines) + "\n"
    )


def _privacy(model: ModelFile, record: RunRecord | None) -> str:
    sentences = str(model.privacy).splitlines()
    collusion = f"\n{_prose(record.collusion)}\n" if record is not None and record.collusion else ""
    return (
        "## Privacy\n\nWhat each observer of the training learns at most, and what that rests on:\n\n"
        + "\n".join(f"- {_prose(sentence)}" for sentence in sentences)
        + f"\n{collusion}\nUsing the model, and everything computed from its weights, costs nothing more.\n"
    )


def _evaluation(record: RunRecord | None) -> str:
    section = evaluation_section(None if record is None else record.evaluated)
    if section is not None:
        heads, *rows = section.table
        lines = [f"| {_cell(what)} | {value} | {alongside} |" for what, value, alongside in rows]
        drawn = [base64.b64encode(str(picture).encode()).decode() for picture in section.pictures]
        pictures = [f"![A curve of this evaluation](data:image/svg+xml;base64,{one})" for one in drawn]
        table = "\n".join([f"| figure | value | {heads[2]} |", "|---|---|---|", *lines])
        return "\n\n".join(["## Evaluation", _prose(section.notes[0]), table, *pictures]) + "\n"
    measured = [] if record is None else measured_rows(record)
    if not measured:
        return (
            "## Evaluation\n\nNone is shown: an exact figure on people who are not public would itself be a release, "
            "and nobody paid for one.\n"
        )
    lines = ["| figure | value |", "|---|---|", *(f"| {_cell(what)} | {value} |" for what, value in measured)]
    said = "Measured on data that every party declared public."
    return "\n\n".join(["## Evaluation", said, "\n".join(lines)]) + "\n"


def _limits(model: ModelFile, record: RunRecord | None) -> str:
    bends = ", so what bends more than once along a column it cannot say" if model.frame.label.one_hot else ""
    limits = [_NOISY if model.privacy else _UNPROTECTED, f"It is linear in its features{bends}."]
    if model.kind == "LogisticRegression" and model.method == "moments" and not (record and record.evaluated):
        limits.append(_UNCHECKED)
    limits.append("Whatever was unfair in the data is in the model; privacy does not mend it.")
    limits += [_prose(note) for note in (record.notes if record is not None else ())]
    return "## Limitations\n\n" + "\n".join(f"- {limit}" for limit in limits) + "\n"


def _prose(text: str) -> str:
    """Words that others chose, as words: no tag, link, picture or code of theirs on the card."""
    words = "".join(_AS_TEXT.get(character, character) for character in readable(text))
    # Brackets alone are brackets, and a guarantee has some; what comes after them makes a link.
    return re.sub(r"\](?=[(\[:])", r"\\]", words)


def _code(name: str) -> str:
    text = readable(name)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "nobody"
