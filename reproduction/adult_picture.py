"""One picture for the README: accuracy against ε for every logistic method, made to be read on a phone.

Written as SVG by hand: names stand beside their lines, colours are Okabe and Ito's and a violet, each with a mark of
its own, and the card is opaque in both colour schemes, so that it reads on a light and on a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 600
LEFT, RIGHT, TOP, BOTTOM = 66, 438, 96, 470
LOW, HIGH = 0.745, 0.860
LABEL, APART = 486, 25
NAMES = {
    "margin": "margin",
    "moments": "moments",
    "functional": "functional",
    "slr": "SLR",
    "network": "network",
    "private-messages": "messages",
    "encrypted": "DP-Paillier",
}
COLOURS = {
    "margin": "#785ef0",
    "moments": "#0072b2",
    "functional": "#d55e00",
    "slr": "#009e73",
    "network": "#cc79a7",
    "private-messages": "#e69f00",
    "encrypted": "#56b4e9",
}
MARKS = dict(zip(COLOURS, ("hexagon", "circle", "square", "up", "diamond", "down", "cross"), strict=True))
STYLE = """
text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #24292f; }
.card { fill: #ffffff; stroke: #d0d7de; }
.grid { stroke: #d8dee4; stroke-width: 1; }
.soft { fill: #57606a; }
.level { stroke: #57606a; stroke-width: 2; fill: none; }
.mark { stroke: #ffffff; stroke-width: 1.2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .card { fill: #161b22; stroke: #30363d; }
  .grid { stroke: #30363d; }
  .soft { fill: #9aa4af; }
  .level { stroke: #9aa4af; }
  .mark { stroke: #161b22; }
}
"""


def picture(facts: dict[str, Any]) -> str:
    """The picture as SVG text; the same facts give the same bytes."""
    epsilons = facts["epsilons"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(_announced(facts))}">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="14"/>',
        _text(28, 42, "Who earns more than $50,000?", size=24, weight=700),
        _text(28, 70, "Accuracy on new people against ε; two organisations", size=17.5, soft=True),
        *_axes(epsilons),
    ]
    labels: list[tuple[float, str, str]] = []
    exact = next(row["mean"] for row in facts["rows"] if row["method"] == "non-private")
    for value, name, dash in (
        (exact, "without privacy", "none"),
        (facts["constant"], "commonest class", "2 6"),
    ):
        parts.append(
            f'<path class="level" d="M{LEFT} {_y(value):.1f}H{RIGHT + 8}" stroke-dasharray="{dash}"/>'
        )
        labels.append((_y(value), name, ""))
    for place, method in enumerate(NAMES):
        rows = [row for row in facts["rows"] if row["method"] == method and row["mean"] is not None]
        rows.sort(key=lambda row: row["epsilon"])
        if not rows:
            continue
        parts.append(
            _line(rows, epsilons, COLOURS[method], MARKS[method], shift=(place - (len(NAMES) - 1) / 2) * 2.2)
        )
        labels.append((_y(rows[-1]["mean"]), NAMES[method], method))
    parts += _labels(labels)
    parts += _foot(facts)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(epsilons: Sequence[float]) -> list[str]:
    drawn = []
    for hundredths in range(math.ceil(LOW * 50) * 2, math.floor(HIGH * 50) * 2 + 1, 2):
        y = _y(hundredths / 100)
        drawn.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT + 8}"/>')
        drawn.append(_text(LEFT - 10, y + 6, f"{hundredths} %", size=17, soft=True, anchor="end"))
    for epsilon in epsilons:
        drawn.append(
            _text(_x(epsilon, epsilons), BOTTOM + 28, f"{epsilon:g}", size=18, soft=True, anchor="middle")
        )
    drawn.append(_text(LEFT, BOTTOM + 54, "ε: more private", size=17, soft=True))
    drawn.append(_text(RIGHT + 8, BOTTOM + 54, "less private", size=17, soft=True, anchor="end"))
    return drawn


def _line(
    rows: Sequence[dict[str, Any]], epsilons: Sequence[float], colour: str, mark: str, *, shift: float
) -> str:
    points = [(_x(row["epsilon"], epsilons) + shift, _y(row["mean"]), row["spread"]) for row in rows]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
    drawn = [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="3" stroke-linejoin="round"/>']
    for x, y, spread in points:
        if spread:
            extent = spread / (HIGH - LOW) * (BOTTOM - TOP)
            top, end = max(TOP, y - extent), min(BOTTOM, y + extent)
            drawn.append(f'<path d="M{x:.1f} {top:.1f}V{end:.1f}" stroke="{colour}" stroke-width="1.6"/>')
        drawn.append(f'<path class="mark" fill="{colour}" d="{_mark(mark, x, y)}"/>')
    return "\n".join(drawn)


def _mark(kind: str, x: float, y: float) -> str:
    """The outline of a mark around a point."""
    corners = {
        "hexagon": ((-8, 0), (-4, -7), (4, -7), (8, 0), (4, 7), (-4, 7)),
        "square": ((-6, -6), (6, -6), (6, 6), (-6, 6)),
        "up": ((0, -8), (7.5, 6), (-7.5, 6)),
        "down": ((0, 8), (7.5, -6), (-7.5, -6)),
        "diamond": ((0, -8.5), (8.5, 0), (0, 8.5), (-8.5, 0)),
        "cross": (
            *((-3, -8), (3, -8), (3, -3), (8, -3), (8, 3), (3, 3)),
            *((3, 8), (-3, 8), (-3, 3), (-8, 3), (-8, -3), (-3, -3)),
        ),
    }
    if kind == "circle":
        return f"M{x - 6.5:.1f} {y:.1f}a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0Z"
    return "M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in corners[kind]) + "Z"


def _labels(labels: Sequence[tuple[float, str, str]]) -> list[str]:
    """Names beside the ends of their lines, with their marks, pushed apart so that none lies on another."""
    ordered = sorted(labels)
    places = [y for y, *_ in ordered]
    for _ in range(200):
        for above in range(len(places) - 1):
            overlap = APART - (places[above + 1] - places[above])
            if overlap > 0:
                places[above] -= overlap / 2
                places[above + 1] += overlap / 2
    drawn = []
    for place, (y, name, method) in zip(places, ordered, strict=True):
        start, end = RIGHT + 12, LABEL - 20
        if method:
            drawn.append(
                f'<path d="M{start} {y:.1f}L{end} {place:.1f}" stroke="{COLOURS[method]}" stroke-width="1.4"/>'
            )
            mark = _mark(MARKS[method], LABEL - 12, place)
            drawn.append(f'<path class="mark" fill="{COLOURS[method]}" d="{mark}"/>')
        else:
            drawn.append(f'<path class="level" d="M{start} {y:.1f}L{LABEL - 4} {place:.1f}"/>')
        drawn.append(
            _text(
                LABEL,
                place + 5.5,
                name,
                size=17 if method else 16,
                soft=not method,
                weight=600 if method else 400,
            )
        )
    return drawn


def _foot(facts: dict[str, Any]) -> list[str]:
    few = sorted(
        {NAMES[row["method"]] for row in facts["rows"] if row["splits"] == 1 and row["method"] in NAMES}
    )
    lines = [
        f"Adult census: {facts['trained_on']:,} people to train on, {facts['held_out']:,} to score, "
        f"δ = {facts['delta']:g}.",
        f"Bars: one standard deviation over {facts['seeds']} splits"
        + (f"; {', '.join(few)}: one split." if few else "."),
    ]
    return [_text(28, 556 + 22 * number, line, size=14.5, soft=True) for number, line in enumerate(lines)]


def _announced(facts: dict[str, Any]) -> str:
    """What the picture shows, for those who cannot see it."""
    best = {}
    for row in facts["rows"]:
        if row["mean"] is not None and row["epsilon"] in (1.0, None):
            best[row["method"]] = f"{row['method']} {row['mean']:.3f}"
    return "Accuracy on census income at ε = 1: " + ", ".join(best.values())


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    soft: bool = False,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    kind = ' class="soft"' if soft else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" text-anchor="{anchor}"{kind}>'
        f"{escape(text)}</text>"
    )


def _x(epsilon: float, epsilons: Sequence[float]) -> float:
    inset = 22
    low, high = math.log(min(epsilons)), math.log(max(epsilons))
    return LEFT + inset + (math.log(epsilon) - low) / (high - low) * (RIGHT - LEFT - 2 * inset)


def _y(value: float) -> float:
    return BOTTOM - (value - LOW) / (HIGH - LOW) * (BOTTOM - TOP)
