"""Charts into the files that users name: the ending says the kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from colonnade.errors import CannotWrite, InputError
from colonnade.report.charts import Axes, Chart, Series, svg
from colonnade.report.plots import check_plots, plot

FORMATS = ("svg", "png", "pdf")


def check_plot_path(path: Path) -> str:
    """The format that a file name asks for; refuses others, folders that do not exist, and what cannot be drawn."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is saved as {', '.join(FORMATS)}. Let the name end in one of them.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist. Make it, or name another file.")
    if kind != "svg":
        check_plots(kind)
    return kind


def draw(path: Path, lines: Sequence[Series], axes: Axes, *, title: str) -> None:
    """Draw the lines into a file, replaced in one step."""
    if not lines:
        raise ValueError("a plot needs a line")
    draw_chart(path, Chart(title, axes, tuple(lines)))


def draw_chart(path: Path, chart: Chart) -> None:
    """Draw a chart into a file, replaced in one step."""
    kind = check_plot_path(path)
    drawn = svg(chart).encode() if kind == "svg" else plot(chart, cast(Literal["png", "pdf"], kind))
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(drawn)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CannotWrite(f"{path} cannot be written ({error.strerror}). Name another file.") from None
