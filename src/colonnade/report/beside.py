"""What other commands found on the same data, for the page of a run: attacks, and accuracy against ε."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from colonnade.report.attacks import DEFENCES, success_text
from colonnade.report.charts import svg
from colonnade.report.comparison import comparison_chart, comparison_table
from colonnade.report.facts import Facts

Section = dict[str, Any]
PRIVATE = (
    "No accuracy is shown: the data was not declared public, and a score of it would be a release of its own."
)


def section_of(facts: Facts) -> Section | None:
    """The section of an attack's or a comparison's facts; None if they are neither."""
    if {"findings", "people"} <= set(facts) and all("attack" in item for item in facts["findings"]):
        return attack_section(facts)
    if {"rows", "epsilons", "metric", "public"} <= set(facts):
        return comparison_section(facts)
    return None


def attack_section(facts: Facts) -> Section:
    """Every attack with its success, what chance would give, and an interval; undefended first."""
    lines = [
        f"{title}: {item['attack']}: {success_text(item)}"
        for defence, title in DEFENCES.items()
        for item in facts["findings"]
        if item["defence"] == defence
    ]
    return {
        "title": "What attacks on encrypted gradients found",
        "note": f"On {facts['people']} people's records, declared public; the defence has ε = {facts['epsilon']:g}.",
        "lines": lines,
        "picture": "",
        "table": [],
    }


def comparison_section(facts: Facts) -> Section:
    """Score against ε for every method, where every party declared its data public."""
    shown = bool(facts["public"]) and any(row["mean"] is not None for row in facts["rows"])
    return {
        "title": f"{facts['metric'].capitalize()} against ε",
        "note": facts["metric_note"] if shown else PRIVATE,
        "lines": [],
        # A picture of ours, drawn anew from the facts: nothing of the file goes onto the page as markup.
        "picture": Markup(svg(comparison_chart(facts), narrow=True)) if shown else "",
        "table": comparison_table(facts) if shown else [],
    }
