"""Facts as one page that needs nothing else: no network, no script, light and dark, phone and desk."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from colonnade.report.facts import Facts
from colonnade.report.text import NOT_PRIVATE, size_text

SHOWN_COEFFICIENTS = 20


def run_page(facts: Facts) -> str:
    """The page of a run."""
    environment = Environment(
        loader=PackageLoader("colonnade.report", "."),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("run.html").render(
        facts=facts,
        bars=coefficient_bars(facts),
        shown=SHOWN_COEFFICIENTS,
        size_text=size_text,
        steps=steps(facts),
        not_private=NOT_PRIVATE,
    )


def coefficient_bars(facts: Facts) -> list[dict[str, Any]]:
    """The largest coefficients of the first row, as signed shares of the largest of them."""
    learnt = facts["learnt"]
    if not learnt.get("coefficients"):
        return []
    pairs = sorted(
        zip(learnt["features"], learnt["coefficients"][0], strict=True), key=lambda pair: -abs(pair[1])
    )[:SHOWN_COEFFICIENTS]
    largest = max((abs(value) for _, value in pairs), default=0.0) or 1.0
    return [{"name": name, "value": value, "share": 50 * value / largest} for name, value in pairs]


def steps(facts: Facts) -> list[tuple[str, str, int]]:
    """Who sent how much to whom, largest first."""
    totals: dict[tuple[str, str], int] = {}
    for flow in facts["traffic"]["flows"]:
        totals[flow["from"], flow["to"]] = totals.get((flow["from"], flow["to"]), 0) + flow["bytes"]
    return [(sender, to, size) for (sender, to), size in sorted(totals.items(), key=lambda item: -item[1])]
