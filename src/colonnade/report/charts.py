"""Lines in one frame as SVG: no script, no font of its own, and the same bytes for the same numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markupsafe import escape

from colonnade.errors import CannotWrite, InputError
from colonnade.federation.files import write_whole

Mark = Literal["circle", "square", "up", "diamond", "down", "cross"]
FRAME, NARROW = (430.0, 300.0), (330.0, 230.0)
# Room for what is written above, below and to the left of the frame.
_TOP, _BOTTOM, _LEFT, _GAP = 30.0, 46.0, 62.0, 14.0
# About how wide a letter is, and how far apart the lines of the legend are.
_LETTER, _LEGEND_LINE, _SAMPLE = 5.6, 16.0, 26.0
_MARGIN, _TICKS, _MARK = 0.04, 7, 3.0
_DIGITS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_CORNERS: dict[Mark, tuple[tuple[float, float], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "up": ((0, -1.1), (1, 0.8), (-1, 0.8)),
    "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    "down": ((0, 1.1), (1, -0.8), (-1, -0.8)),
    "cross": (
        *((0, -0.5), (0.7, -1.2), (1.2, -0.7), (0.5, 0), (1.2, 0.7), (0.7, 1.2)),
        *((0, 0.5), (-0.7, 1.2), (-1.2, 0.7), (-0.5, 0), (-1.2, -0.7), (-0.7, -1.2)),
    ),
}


@dataclass(frozen=True)
class Style:
    """How a line looks: its colour, its dashes and gaps in points (none if it is whole), and the mark of its points."""

    colour: str
    dashes: tuple[float, ...] = ()
    mark: Mark | None = None
    hollow: bool = False


# Okabe and Ito's colours, told apart by every eye.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
# Greys that a printer keeps apart, by dashes and marks.
_GREYS = (
    Style("#000000", (), "circle"),
    Style("#595959", (5, 2), "square"),
    Style("#000000", (1.5, 2), "up"),
    Style("#8c8c8c", (6, 2, 1.5, 2), "diamond"),
    Style("#595959", (1.5, 1.5, 5, 1.5), "down"),
    Style("#8c8c8c", (8, 3), "cross"),
)


@dataclass(frozen=True)
class Series:
    """Points to be joined, and what they show; `spreads` are the halves of bars through them."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    spreads: tuple[float, ...] = ()
    style: Style | None = None


@dataclass(frozen=True)
class Level:
    """A height that holds everywhere: in the legend by its label, or with a note at its right end."""

    at: float
    style: Style
    label: str = ""
    note: str = ""


@dataclass(frozen=True)
class Axes:
    """What both directions mean; without `ticks` marks are round, without `from_zero` the frame begins anywhere."""

    horizontal: str
    up: str
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = False
    ticks: tuple[float, ...] = ()
    from_zero: bool = True


@dataclass(frozen=True)
class Chart:
    title: str
    axes: Axes
    lines: tuple[Series, ...]
    levels: tuple[Level, ...] = ()

    @property
    def description(self) -> str:
        points = {
            line.label: [
                [float(f"{x:.4g}"), float(f"{y:.4g}")] for x, y in zip(line.xs, line.ys, strict=True)
            ]
            for line in self.lines
        }
        return json.dumps(points, ensure_ascii=False)

    @property
    def styled(self) -> Iterator[tuple[Series, Style]]:
        for place, line in enumerate(self.lines):
            yield line, line.style or _GREYS[place % len(_GREYS)]


class _Scale:
    """From values to places, linear or logarithmic; a value that cannot be shown has none."""

    def __init__(
        self, values: Iterable[float], places: tuple[float, float], *, log: bool, zero: bool
    ) -> None:
        self._log = log
        shown = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = (min(shown), max(shown)) if shown else (1.0, 10.0)
        if zero and not log:
            low, high = min(0.0, low), max(0.0, high)
        start, end = self._bent(low), self._bent(high)
        margin = _MARGIN * (end - start) or 0.5
        # What starts at 0 stands on the frame's edge.
        self._start, self._end = start - (0.0 if zero and low == 0 else margin), end + margin
        self._places = places

    def _bent(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def place(self, value: float) -> float | None:
        if not math.isfinite(value) or (self._log and value <= 0):
            return None
        first, last = self._places
        return first + (self._bent(value) - self._start) / (self._end - self._start) * (last - first)

    def ticks(self, *, whole: bool) -> list[tuple[float, str]]:
        if self._log:
            decades = range(math.ceil(self._start), math.floor(self._end) + 1)
            if len(decades) >= 3:
                every = -(-len(decades) // (_TICKS + 2))
                return [
                    (
                        10.0**power,
                        f"{10.0**power:g}" if -4 < power < 5 else f"10{str(power).translate(_DIGITS)}",
                    )
                    for power in decades
                    if power % every == 0
                ]
            powers = range(math.floor(self._start), math.ceil(self._end) + 1)
            values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
            return [
                (value, f"{value:g}") for value in values if self._start <= math.log10(value) <= self._end
            ]
        # The next of 1, 2, 2.5 and 5 times a power of ten; whole if it has to be.
        rough = (self._end - self._start) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        steps = (digit * power for digit in (1.0, 2.0, 2.5, 5.0, 10.0))
        step = next(step for step in steps if step >= rough * (1 - 1e-9))
        step = float(max(1, math.ceil(step))) if whole else step
        first, last = math.ceil(self._start / step - 1e-9), math.floor(self._end / step + 1e-9)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9), 1 + (step * 10 % 1 > 0) if step < 1 else 0)
        return [(place * step, f"{place * step:.{decimals}f}") for place in range(first, last + 1)]


def svg(chart: Chart, *, narrow: bool = False) -> str:
    """The chart as one SVG element that stands by itself in a file, or `narrow` for a page, the legend below."""
    frame = NARROW if narrow else FRAME
    width, height = frame
    axes = chart.axes
    xs = [x for line in chart.lines for x in line.xs]
    ys = [
        end
        for line in chart.lines
        for y, spread in zip(line.ys, line.spreads or (0.0,) * len(line.ys), strict=True)
        for end in (y - spread, y, y + spread)
        if end > 0 or not axes.log_y
    ]
    horizontal = _Scale([*xs, *axes.ticks], (_LEFT, _LEFT + width), log=axes.log_x, zero=False)
    up = _Scale(
        [*ys, *(level.at for level in chart.levels)],
        (_TOP + height, _TOP),
        log=axes.log_y,
        zero=axes.from_zero,
    )
    drawn = [*_grid(axes, horizontal, up, frame), *_levels(chart, up, frame)]
    for line, style in chart.styled:
        drawn += _line(line, style, horizontal, up)
    legend, (alongside, below) = _legend(chart, below=narrow)
    whole_width, whole_height = _LEFT + width + alongside, _TOP + height + _BOTTOM + below
    name = "" if narrow else 'xmlns="http://www.w3.org/2000/svg" '
    return (
        f'<svg {name}viewBox="0 0 {whole_width:g} {whole_height:g}" '
        f'width="{whole_width:g}" height="{whole_height:g}" role="img" font-family="sans-serif" font-size="11">'
        f"<title>{escape(chart.title)}</title><desc>{escape(chart.description)}</desc>"
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(drawn)}{"".join(legend)}</svg>\n'
    )


def _grid(axes: Axes, horizontal: _Scale, up: _Scale, frame: tuple[float, float]) -> Iterator[str]:
    width, height = frame
    bottom, right = _TOP + height, _LEFT + width
    chosen = [(value, f"{value:g}") for value in axes.ticks]
    for value, name in chosen or horizontal.ticks(whole=axes.whole_x):
        x = horizontal.place(value) or _LEFT
        yield f'<path d="M{x:.1f} {_TOP:g}V{bottom:g}" stroke="#e2e2e2" stroke-width=".6"/>'
        yield _text(x, bottom + 15, name)
    for value, name in up.ticks(whole=False):
        y = up.place(value) or _TOP
        yield f'<path d="M{_LEFT:g} {y:.1f}H{right:g}" stroke="#e2e2e2" stroke-width=".6"/>'
        yield _text(_LEFT - 6, y + 4, name, anchor="end")
    yield (
        f'<rect x="{_LEFT:g}" y="{_TOP:g}" width="{width:g}" height="{height:g}" fill="none" stroke="#333333" '
        'stroke-width=".8"/>'
    )
    yield _text(_LEFT + width / 2, bottom + 34, axes.horizontal)
    middle = _TOP + height / 2
    yield (
        f'<text x="14" y="{middle:g}" text-anchor="middle" transform="rotate(-90 14 {middle:g})">'
        f"{escape(axes.up)}</text>"
    )


def _levels(chart: Chart, up: _Scale, frame: tuple[float, float]) -> Iterator[str]:
    right = _LEFT + frame[0]
    for level in chart.levels:
        y = up.place(level.at)
        if y is not None:
            yield f'<path d="M{_LEFT:g} {y:.1f}H{right:g}" {_stroke(level.style, 1.1)}/>'
            if level.note:
                yield _text(right - 3, y - 3, level.note, anchor="end", size=9, colour="#737373")


def _line(line: Series, style: Style, horizontal: _Scale, up: _Scale) -> Iterator[str]:
    places = [(horizontal.place(x), up.place(y)) for x, y in zip(line.xs, line.ys, strict=True)]
    # A point that has no place breaks the line.
    way, joined = [], False
    for x, y in places:
        if x is None or y is None:
            joined = False
            continue
        way.append(f"{'L' if joined else 'M'}{x:.1f} {y:.1f}")
        joined = True
    if way:
        yield f'<path d="{"".join(way)}" {_stroke(style, 1.3)} stroke-linejoin="round"/>'
    for (x, _), y, spread in zip(places, line.ys, line.spreads, strict=bool(line.spreads)):
        low, high = up.place(y - spread), up.place(y + spread)
        if x is not None and low is not None and high is not None and spread > 0:
            bar = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 2:.1f} {low:.1f}h4M{x - 2:.1f} {high:.1f}h4"
            yield f'<path d="{bar}" fill="none" stroke="{style.colour}" stroke-width=".8"/>'
    every = max(1, math.ceil(len(places) / 8))
    for x, y in places[::every]:
        if style.mark is not None and x is not None and y is not None:
            yield _mark(style, x, y)


def _mark(style: Style, x: float, y: float) -> str:
    fill = "#ffffff" if style.hollow else style.colour
    look = f'fill="{fill}" stroke="{style.colour}" stroke-width=".8"'
    if style.mark is None or style.mark == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_MARK:g}" {look}/>'
    corners = " ".join(
        f"{x + _MARK * right:.1f},{y + _MARK * down:.1f}" for right, down in _CORNERS[style.mark]
    )
    return f'<polygon points="{corners}" {look}/>'


def _legend(chart: Chart, *, below: bool) -> tuple[list[str], tuple[float, float]]:
    """The title and the legend, beside the frame or `below` it, and how much room they take there."""
    entries = [(line.label, style) for line, style in chart.styled]
    entries += [(level.label, level.style) for level in chart.levels if level.label]
    width, height = NARROW if below else FRAME
    room = _SAMPLE + 12 + max((len(label) for label, _ in entries), default=0) * _LETTER
    columns = 2 if below and room < (width + _LEFT - _GAP) / 2 else 1
    left, top = (_GAP, _TOP + height + _BOTTOM + 6) if below else (_LEFT + width + _GAP, _TOP + 8)
    drawn = [_text(_LEFT + width / 2, 18, chart.title, size=12)]
    for place, (label, style) in enumerate(entries):
        row, column = divmod(place, columns)
        drawn += _entry(label, style, left + column * (width + _LEFT) / 2, top + row * _LEGEND_LINE)
    if below:
        return drawn, (_GAP, 12 + _LEGEND_LINE * -(-len(entries) // columns))
    # A long title needs room too, half of it on either side of the frame's middle.
    title = len(chart.title) * _LETTER * 1.15 / 2 - width / 2
    return drawn, (max(_GAP + room, title, _GAP), 0.0)


def _entry(label: str, style: Style, start: float, y: float) -> Iterator[str]:
    yield f'<path d="M{start:g} {y:g}h{_SAMPLE:g}" {_stroke(style, 1.3)}/>'
    if style.mark is not None:
        yield _mark(style, start + _SAMPLE / 2, y)
    yield _text(start + _SAMPLE + 6, y + 4, label, anchor="start", size=10)


def _stroke(style: Style, width: float) -> str:
    dashes = f' stroke-dasharray="{" ".join(f"{one:g}" for one in style.dashes)}"' if style.dashes else ""
    return f'fill="none" stroke="{style.colour}" stroke-width="{width:g}"{dashes}'


def _text(x: float, y: float, said: str, *, anchor: str = "middle", size: int = 0, colour: str = "") -> str:
    look = (f' font-size="{size}"' if size else "") + (f' fill="{colour}"' if colour else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(said)}</text>'


def check_plot_path(path: Path) -> None:
    if path.suffix.lower() != ".svg":
        raise InputError(f"{path}: a plot is saved as SVG. Let the name end in .svg.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist. Make it, or name another file.")


def draw(path: Path, lines: Sequence[Series], axes: Axes, *, title: str) -> None:
    check_plot_path(path)
    try:
        write_whole(path, svg(Chart(title, axes, tuple(lines))))
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written ({error.strerror}). Name another file.") from None
