"""The labels of a run: who brought them, how good the model of each is, and the facts as those of one of them."""

from __future__ import annotations

from colonnade.data.declaring import nearest_name
from colonnade.errors import LabelMismatch
from colonnade.privacy.words import joined
from colonnade.report.compared import measured_rows
from colonnade.report.facts import Facts

HEADS = ("label", "learnt as", "how good it is", "model")
_TASKS = {"classes": "classification", "real": "regression", "count": "regression"}


def label_rows(facts: Facts) -> list[tuple[str, str, str, str]]:
    """A row for each label of a run with several: its name, what it is learnt as, how good its model is, and where.

    Heads come first; a run with one label has no rows.
    """
    rows = [
        (one["label"], _TASKS[one["kind"]], _quality(facts, one, first=place == 0), one["model"] or "")
        for place, one in enumerate(facts.get("labels", ()))
    ]
    return [HEADS, *rows] if rows else []


def _quality(facts: Facts, one: Facts, *, first: bool) -> str:
    if one["failure"] is not None:
        return f"no model: {one['failure']}"
    measured = measured_rows({**facts, "measured": one["measured"]})
    if measured:
        return ", ".join(f"{name} {value}" for name, value in measured)
    judged = one.get("judged") or (first and facts.get("judged"))
    return "judged on the people held out" if judged else "not measured"


def facts_of_label(facts: Facts, label: str | None) -> Facts:
    """The facts of a run with the model of one of its labels in the first's place; a `LabelMismatch` names them all.

    What was foretold and judged is of the first, and left out for another.
    """
    if label is None:
        return facts
    labels = facts.get("labels", ())
    names = [one["label"] for one in labels] or _only(facts)
    if label not in names:
        raise LabelMismatch(
            f"--label: this run has no model of {label!r}. It learnt {joined(names) or 'no label'}."
            + nearest_name(label, names)
        )
    if label == names[0]:
        return facts
    one = next(one for one in labels if one["label"] == label)
    kept = {key: value for key, value in facts.items() if key not in ("judged", "forecast")}
    failed = [] if one["failure"] is None else [f"No model of {label} was learnt: {one['failure']}"]
    return {
        **kept,
        "labels": [{**labels[0], "judged": bool(facts.get("judged"))}, *labels[1:]],
        "task": _TASKS[one["kind"]],
        "learnt": one.get("learnt", {}),
        "measured": one["measured"],
        "notes": [f"This is the model of {label}, in {one['model'] or 'no file'}.", *failed],
    }


def _only(facts: Facts) -> list[str]:
    schemas = facts.get("plan", {}).get("schemas", {})
    return [schema["label"]["column"] for schema in schemas.values() if "label" in schema]


def brought_text(party: Facts) -> str:
    count, labels = len(party["columns"]), f"{party['labels']} labels" if "labels" in party else "the label"
    columns = "1 column" if count == 1 else f"{count} columns"
    return f"{columns} and {labels}" if party["holds_label"] else columns
