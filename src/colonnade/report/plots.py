"""Charts as PNG and PDF, by matplotlib (the extra `plots`); SVG needs neither.

Nothing here touches pyplot, so no window system and no global state is involved. The same chart gives the same bytes:
no date, no random identifiers.
"""

from __future__ import annotations

import io
from typing import Any, Literal

from colonnade.errors import InputError
from colonnade.report.charts import Axes, Chart, Style

_MARKS = {
    "circle": "o",
    "square": "s",
    "up": "^",
    "diamond": "D",
    "down": "v",
    "plus": "P",
    "cross": "X",
    "star": "*",
    "left": "<",
    "right": ">",
}
_BARE: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_DESCRIBED = {"png": "Description", "pdf": "Subject"}


def check_plots(kind: str) -> None:
    """Refuse a kind of picture that this installation cannot draw, before anything is computed for it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            f"drawing {kind.upper()} needs the package matplotlib, which is not installed. Let the name end in .svg, "
            "or install the extra: pip install 'colonnade[plots]'."
        ) from None


def plot(chart: Chart, kind: Literal["png", "pdf"]) -> bytes:
    """The chart as the bytes of a file of this kind."""
    check_plots(kind)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9.0}):
        figure = Figure(figsize=(7.2, 4.2), dpi=150, layout="constrained")
        frame = figure.add_subplot()
        for line, style in chart.styled:
            frame.errorbar(
                line.xs,
                line.ys,
                yerr=line.spreads or None,
                markevery=max(1, -(-len(line.xs) // 8)),
                markersize=4,
                markerfacecolor="white" if style.hollow else style.colour,
                elinewidth=0.8,
                capsize=2,
                label=line.label,
                **_look(style),
            )
        for level in chart.levels:
            frame.axhline(level.at, label=level.label or None, **_look(style=level.style))
            if level.note:
                where = (1.0, level.at)
                frame.annotate(
                    level.note, where, xycoords=("axes fraction", "data"), ha="right", fontsize=7.5
                )
        _set(frame, chart.axes)
        frame.set_title(chart.title, fontsize=10)
        frame.grid(True, color="0.88", linewidth=0.6)
        frame.set_axisbelow(True)
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, metadata={**_BARE[kind], _DESCRIBED[kind]: chart.description})
    return stream.getvalue()


def _look(style: Style) -> dict[str, Any]:
    return {
        "color": style.colour,
        "linestyle": (0, style.dashes) if style.dashes else "-",
        "linewidth": 1.2,
        "marker": _MARKS[style.mark] if style.mark else None,
    }


def _set(frame: Any, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    if axes.log_x:
        frame.set_xscale("log")
    if axes.whole_x:
        frame.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.ticks:
        frame.set_xticks(axes.ticks, [f"{value:g}" for value in axes.ticks])
        frame.minorticks_off()
    if axes.log_y:
        frame.set_yscale("log")
    elif axes.from_zero:
        frame.set_ylim(bottom=0)
    frame.set_xlabel(axes.across)
    frame.set_ylabel(axes.up)
