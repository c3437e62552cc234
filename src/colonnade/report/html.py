"""Facts as one page that needs nothing else: no network, no script, light and dark, phone, desk and paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from colonnade.privacy.guarantee import delta_text
from colonnade.privacy.words import about_text, observer_text, observers_text, unit_text
from colonnade.report.accounts import merged
from colonnade.report.audits import audit_section
from colonnade.report.evaluation import beside_text, evaluation_note, evaluation_pictures, figure_rows
from colonnade.report.facts import Facts
from colonnade.report.labels import brought_text, label_rows
from colonnade.report.numbers import budget_text, left_text, signed_text, size_text, spent_text
from colonnade.report.pictures import (
    bar_picture,
    effect_picture,
    effect_scale,
    eigenvalue_picture,
    flow_picture,
    meter_picture,
)
from colonnade.report.style import page_style
from colonnade.report.text import (
    NONE_STANDS_OUT,
    WOULD_HOLD,
    clear,
    declared_text,
    exact_text,
    forecast_rows,
    none_stands_out,
)
from colonnade.report.verdict import verdict

SHOWN_COEFFICIENTS = 20
SHOWN_ROWS = 12
SHOWN_EFFECTS = 12


def run_page(facts: Facts, beside: Sequence[Facts] = ()) -> str:
    """The page of a run, from its facts alone: fresh, or read again from facts.json.

    `beside` are sections of what other commands found on the same data (`colonnade.report.beside`).
    """
    sent, spectrum = flows(facts), facts.get("spectrum")
    owners = [party["name"] for party in facts["parties"]]
    return render(
        "run.html",
        facts,
        verdict=verdict(facts),
        guarantees=[
            {**item, "about": about_text(item["observer"], item["unit"], owners)}
            for item in facts["guarantees"]
        ],
        brought=[(party["name"], brought_text(party)) for party in facts["parties"]],
        effects=effects(facts["learnt"]),
        charts=charts(facts["learnt"]),
        shown=SHOWN_COEFFICIENTS,
        flow_rows=[(sender, to, size_text(size)) for sender, to, size in sent],
        step_rows=[
            (step["step"], step["rounds"], size_text(step["bytes"]))
            for step in facts["traffic"].get("steps", ())
        ],
        forecast=forecast_rows(facts),
        ledgers=ledgers(facts),
        audit=audit_section(facts.get("audit")),
        beside=beside,
        spectrum=spectrum,
        eigenvalues=eigenvalue_picture(spectrum) if spectrum else "",
        eigenvalues_text=", ".join(f"{value:.3g}" for value in spectrum["eigenvalues"]) if spectrum else "",
        flow_picture=flow_picture(sent),
        plan_text=json.dumps(
            {key: value for key, value in facts["plan"].items() if key != "hash"},
            ensure_ascii=False,
            indent=1,
            sort_keys=True,
        ),
        none_stands_out=NONE_STANDS_OUT if none_stands_out(facts["learnt"]) else "",
        would_hold=WOULD_HOLD,
        judged=evaluation_section(facts.get("judged")),
        labels=label_rows(facts),
    )


def evaluation_section(found: Facts | None) -> dict[str, Any] | None:
    """How good a model is on people it was not trained on: figures, a table, pictures; None where nobody knows."""
    if not found:
        return None
    return {
        "rows": figure_rows(found),
        "beside": beside_text(found),
        "note": evaluation_note(found),
        "pictures": evaluation_pictures(found),
        "guarantees": found.get("guarantees", []),
    }


def render(template: str, facts: Facts, **values: Any) -> str:
    """A page of a template, in the one style; on paper it carries the name of its run, if it has one."""
    style = page_style(str(facts.get("run", "")))
    return environment().get_template(template).render(facts=facts, style=style, **values)


@cache
def environment(*packages: str) -> Environment:
    """Where pages are made: whatever is put into them is text, and a name that is missing is an error.

    Templates of `packages` come before those of reports, which they may use.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (*packages, "colonnade.report")]),
        # Column names, party names and job names are other people's text.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "epsilon": spent_text,
        "delta": delta_text,
        "left": left_text,
        "budget": budget_text,
        "size": size_text,
        "signed": signed_text,
        "declared": declared_text,
        "observer": observer_text,
        "observers": observers_text,
        "unit": unit_text,
        "meter": meter_picture,
        "bar": bar_picture,
        "people": lambda count: f"{count:,}".replace(",", " "),
    }
    made.globals["exact_text"] = exact_text
    return made


def effects(model_facts: Facts) -> list[dict[str, Any]]:
    """For each row of coefficients, its strongest columns with a picture and their two ends in words."""
    made = []
    for row in model_facts.get("by_column", [])[:SHOWN_ROWS]:
        columns = row["columns"]
        scale = effect_scale(columns)
        shown = [
            {
                **column,
                "picture": effect_picture(column, scale),
                "least": min(column["points"], key=lambda point: point["effect"]),
                "most": max(column["points"], key=lambda point: point["effect"]),
                "stands_out": clear(column),
            }
            for column in columns[:SHOWN_EFFECTS]
        ]
        made.append({"row": row["row"], "columns": shown, "more": len(columns) - len(shown)})
    return made


def charts(model_facts: Facts) -> list[dict[str, Any]]:
    """For each row of coefficients, the largest of them as signed shares of the largest."""
    if not model_facts:
        return []
    made = []
    for name, row in list(zip(model_facts["rows"], model_facts["coefficients"], strict=True))[:SHOWN_ROWS]:
        triples = zip(model_facts["features"], model_facts["owners"], row, strict=True)
        largest = sorted(triples, key=lambda triple: -abs(triple[2]))[:SHOWN_COEFFICIENTS]
        scale = max((abs(value) for _, _, value in largest), default=0.0) or 1.0
        bars = [
            {"name": feature, "owner": owner, "value": value, "share": 50 * value / scale}
            for feature, owner, value in largest
        ]
        made.append({"name": name, "bars": bars})
    return made


def ledgers(facts: Facts) -> list[Facts]:
    """Every ledger, equal accounts as one, with what they were before the run where that is known."""
    made = []
    for party, ledger in facts["ledgers"].items():
        before = facts.get("before", {}).get(party, [])
        if len(before) != len(ledger["totals"]):
            before = [{}] * len(ledger["totals"])
        totals = [{**total, **earlier} for total, earlier in zip(ledger["totals"], before, strict=True)]
        datasets = list(dict.fromkeys(total["dataset"] for total in totals))
        made.append({**ledger, "totals": merged(totals), "datasets": datasets})
    return made


def flows(facts: Facts) -> list[tuple[str, str, int]]:
    """Who sent how much to whom, largest first."""
    totals: dict[tuple[str, str], int] = {}
    for flow in facts["traffic"]["flows"]:
        totals[flow["from"], flow["to"]] = totals.get((flow["from"], flow["to"]), 0) + flow["bytes"]
    return [(sender, to, size) for (sender, to), size in sorted(totals.items(), key=lambda item: -item[1])]
