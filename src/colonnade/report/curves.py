"""Charts into the SVG files that users name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colonnade.errors import CannotWrite, InputError
from colonnade.report.charts import Axes, Chart, Series, svg


def check_plot_path(path: Path) -> None:
    """Refuse a name that does not end in .svg, and a folder that does not exist."""
    if path.suffix.lower() != ".svg":
        raise InputError(f"{path}: a plot is saved as SVG. Let the name end in .svg.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist. Make it, or name another file.")


def draw(path: Path, lines: Sequence[Series], axes: Axes, *, title: str) -> None:
    """Draw the lines into a file, replaced in one step."""
    if not lines:
        raise ValueError("a plot needs a line")
    draw_chart(path, Chart(title, axes, tuple(lines)))


def draw_chart(path: Path, chart: Chart) -> None:
    """Draw a chart into a file, replaced in one step."""
    check_plot_path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(svg(chart).encode())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CannotWrite(f"{path} cannot be written ({error.strerror}). Name another file.") from None
