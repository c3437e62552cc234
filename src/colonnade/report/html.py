"""Facts as one page that needs nothing else: no network, no script, light and dark, phone, desk and paper."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from colonnade.privacy.guarantee import delta_text
from colonnade.privacy.observers import observer_text, observers_text, unit_text
from colonnade.report import plain
from colonnade.report import text as words
from colonnade.report.evaluation import evaluation_section
from colonnade.report.record import ModelFactsRecord, PointRecord, RunRecord, SpectrumRecord


@dataclass(frozen=True)
class SvgStyle:
    """What stands between `<style>` and `</style>`, and how a Content-Security-Policy names it."""

    text: Markup
    hash: str


@lru_cache(64)
def page_style(run: str = "") -> SvgStyle:
    # The name stands in a string of the style: what could end it is left out.
    name = re.sub(r"[^\w.-]", "", run)
    footer = f'@page {{ @bottom-left {{ content: "run {name}"; font: 8pt monospace; }} }}\n' if name else ""
    text = Path(__file__).with_name("page.css").read_text(encoding="utf-8") + footer
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return SvgStyle(Markup(text), f"sha256-{digest}")


# An interval may reach this many times past the largest effect before the picture cuts it off.
EXTENT = 2.5
SHOWN_EIGENVALUES = 120


def effect_scale(columns: Iterable[Sequence[PointRecord]]) -> float:
    points = [point for column in columns for point in column]
    largest = max((abs(point.effect) for point in points), default=0.0)
    extent = max((abs(point.effect) + (point.half_width or 0.0) for point in points), default=0.0)
    return min(extent, EXTENT * largest) or 1.0


def effect_picture(points: Sequence[PointRecord], column: str, scale: float, *, ordered: bool) -> Markup:
    width, height = 220.0, 56.0
    step = (width - 12.0) / max(len(points) - 1, 1)

    def x(place: int) -> float:
        return 6.0 + place * step if len(points) > 1 else width / 2

    def y(value: float) -> float:
        return height / 2 - max(-1.0, min(1.0, value / scale)) * (height / 2 - 3)

    drawn = [f'<line class="axis" x1="0" x2="{width:g}" y1="{height / 2:g}" y2="{height / 2:g}"/>']
    spans = [
        (x(i), y(point.effect - point.half_width), y(point.effect + point.half_width))
        for i, point in enumerate(points)
        if point.half_width is not None
    ]
    dots = [complex(x(i), y(point.effect)) for i, point in enumerate(points)]
    if ordered:
        if len(spans) == len(points):
            top, bottom = [complex(at, up) for at, _, up in spans], [complex(at, low) for at, low, _ in spans]
            edge = [*top, *reversed(bottom)]
            drawn.append(f'<polygon class="band" points="{_path(edge)}"/>')
        drawn.append(f'<polyline class="curve" points="{_path(dots)}"/>')
    else:
        drawn += [
            f'<line class="whisker" x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{top:.1f}"/>'
            for at, low, top in spans
        ]
        drawn += [f'<circle class="dot" cx="{at.real:.1f}" cy="{at.imag:.1f}" r="3"/>' for at in dots]
    values = "; ".join(
        f"{plain.signed_text(point.effect, point.half_width)} at {point.at}" for point in points
    )
    return _svg(width, height, drawn, f"effect of {column}", values=values)


def eigenvalue_picture(spectrum: SpectrumRecord) -> Markup:
    """Eigenvalues from the largest down, linear within the noise's edge and logarithmic beyond it, on both sides."""
    values = list(spectrum.eigenvalues[:SHOWN_EIGENVALUES])
    if not values:
        return Markup("")
    width, height, left, right = 400.0, 190.0, 8.0, 8.0
    unit = spectrum.edge or max(abs(value) for value in values) or 1.0

    def bent(value: float) -> float:
        return math.asinh(2.0 * value / unit)

    top = max(bent(max(values)), bent(unit)) * 1.06
    bottom = min(bent(min(values)), bent(-unit) if spectrum.edge else 0.0) * 1.06

    def y(value: float) -> float:
        return height - 8 - (bent(value) - bottom) / ((top - bottom) or 1.0) * (height - 16)

    room = width - left - right
    bar = min(room / len(values), 26.0)
    edge, zero = spectrum.edge, y(0.0)
    drawn = [f'<line class="axis" x1="0" x2="{width:g}" y1="{zero:.1f}" y2="{zero:.1f}"/>']
    if edge:
        zone = f'y="{y(edge):.1f}" height="{y(-edge) - y(edge):.1f}"'
        drawn.insert(0, f'<rect class="noisezone" x="0" width="{width:g}" {zone}/>')
    for place, value in enumerate(values):
        kind = "above" if value > edge else "within"
        high, low = min(y(value), zero), max(y(value), zero)
        drawn.append(
            f'<rect class="{kind}" x="{left + place * bar + bar * 0.12:.1f}" width="{bar * 0.76:.2f}" '
            f'y="{high:.1f}" height="{max(low - high, 0.8):.1f}"/>'
        )
    said = ", ".join(f"{value:.3g}" for value in values)
    if edge:
        # Above its line, unless bars stand there and none below the axis.
        label = y(-edge) - 5 if min(values) > 0 and values[len(values) // 2] > edge else y(edge) - 5
        drawn.append(
            f'<line class="edge" x1="0" x2="{width:g}" y1="{y(edge):.1f}" y2="{y(edge):.1f}"/>'
            f'<text x="{width - 4:g}" y="{label:.1f}" text-anchor="end">noise edge 2s√d = {edge:.3g}</text>'
        )
    return _svg(width, height, drawn, "eigenvalues against the noise edge", "wide", values=said)


def _path(points: Iterable[complex]) -> str:
    return " ".join(f"{point.real:.1f},{point.imag:.1f}" for point in points)


def meter_picture(account: plain.BudgetMeter) -> Markup:
    """How much of a budget was spent before a run, thin, and by it, full."""
    budget, spent, known = account.total.budget, account.total.epsilon, account.before
    before = 0.0 if known is None else known.epsilon_before or 0.0

    def share(value: float | None) -> float:
        if budget is None or math.isinf(budget):
            return 0.0
        return 100.0 if value is None or not value < budget else 100.0 * value / budget

    start, end = min(share(before), share(spent)), share(spent)
    earlier = "" if known is None else f", {plain.spent_text(before) if before else '0'} before"
    return Markup(
        f'<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="ε {plain.spent_text(spent)} of {plain.budget_text(budget)}{earlier}">'
        '<rect class="all" y="4.5" width="100" height="1"/>'
        f'<rect class="before" y="3" width="{start:.1f}" height="4"/>'
        f'<rect class="spent" x="{start:.1f}" width="{end - start:.1f}" height="10"/></svg>'
    )


def _svg(
    width: float, height: float, drawn: Iterable[str], title: str, kind: str = "small", *, values: str
) -> Markup:
    place = "xMidYMid" if kind == "wide" else "xMinYMid"
    return Markup(
        f'<svg class="picture {kind}" preserveAspectRatio="{place}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><desc>{escape(values)}</desc>{"".join(drawn)}</svg>'
    )


SHOWN_COEFFICIENTS = 20
SHOWN_ROWS = 12
SHOWN_EFFECTS = 12


def run_page(
    record: RunRecord, alongside: Sequence[plain.Section] = (), *, audit: plain.Section | None = None
) -> str:
    plan = {key: value for key, value in record.plan.items() if key != "hash"}
    return render(
        "run.html",
        record,
        run=record.run,
        verdict=words.verdict(record),
        brought=[(party.name, words.brought_text(party)) for party in record.parties],
        charts=charts(record.model_facts),
        shown=SHOWN_COEFFICIENTS,
        shown_effects=SHOWN_EFFECTS,
        effects=record.model_facts.by_column[:SHOWN_ROWS],
        flow_rows=[(sender, to, plain.size_text(size)) for sender, to, size in flows(record)],
        step_rows=[(step.step, step.rounds, plain.size_text(step.bytes)) for step in record.traffic.steps],
        forecast=words.forecast_section(record),
        ledgers=[
            (ledger, plain.merged(ledger.totals, record.before.get(party, ())))
            for party, ledger in record.ledgers.items()
        ],
        audit=audit,
        alongside=alongside,
        plan_text=json.dumps(plan, ensure_ascii=False, indent=1, sort_keys=True),
        none_stands_out=words.NONE_STANDS_OUT if record.model_facts.none_stands_out else "",
        would_hold=words.WOULD_HOLD,
        evaluated=evaluation_section(record.evaluated),
        labels=words.labels_section(record),
    )


def render(template: str, facts: Any, *, run: str = "", **values: Any) -> str:
    """A page of a template, in the one style; on paper it carries the name of its run, if it has one."""
    return environment().get_template(template).render(facts=facts, style=page_style(run), **values)


@cache
def environment(*packages: str) -> Environment:
    """Where pages are made, first of templates of `packages`: what is put in is text, a missing name an error."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (*packages, "colonnade.report")]),
        # Column names, party names and job names are other people's text.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "epsilon": plain.spent_text,
        "delta": delta_text,
        "left": plain.left_text,
        "budget": plain.budget_text,
        "size": plain.size_text,
        "signed": plain.signed_text,
        "declared": words.declared_text,
        "observer": observer_text,
        "observers": observers_text,
        "unit": unit_text,
        "meter": meter_picture,
        "effect": effect_picture,
        "eigenvalues": eigenvalue_picture,
        "people": lambda count: f"{count:,}".replace(",", " "),
    }
    templates.globals |= {"exact_text": words.exact_text, "effect_scale": effect_scale}
    return templates


def charts(learnt: ModelFactsRecord, shown: int = SHOWN_COEFFICIENTS) -> list[dict[str, Any]]:
    """For each row of coefficients, the largest of them as signed shares of the largest."""
    groups = []
    for name, row in list(zip(learnt.rows, learnt.coefficients, strict=True))[:SHOWN_ROWS]:
        triples = zip(learnt.features, learnt.owners, row, strict=True)
        largest = sorted(triples, key=lambda triple: -abs(triple[2]))[:shown]
        scale = max((abs(value) for _, _, value in largest), default=0.0) or 1.0
        bars = [
            {"name": feature, "owner": owner, "value": value, "share": 50 * value / scale}
            for feature, owner, value in largest
        ]
        groups.append({"name": name, "bars": bars})
    return groups


def flows(record: RunRecord) -> list[tuple[str, str, int]]:
    totals: Counter[tuple[str, str]] = Counter()
    for flow in record.traffic.flows:
        totals[flow.sender, flow.to] += flow.bytes
    return [(*ends, size) for ends, size in sorted(totals.items(), key=lambda item: -item[1])]
