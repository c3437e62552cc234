"""Curves on paper: a few lines in one frame, told apart without colour, saved to the file a user names.

The same lines give the same bytes: no date, no random identifiers. Nothing here touches pyplot, so no window system
and no global state is involved.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.errors import CannotWrite, InputError

FORMATS = ("png", "svg", "pdf")
_STYLES = (
    ("0.0", "-", "o"),
    ("0.35", "--", "s"),
    ("0.0", ":", "^"),
    ("0.55", "-.", "D"),
    ("0.35", (0, (1, 1, 4, 1)), "v"),
    ("0.55", (0, (6, 2)), "x"),
)
_SETTINGS: Any = {"svg.hashsalt": "colonnade", "svg.fonttype": "none", "font.size": 9.0}
_DATES: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True)
class Line:
    """Points to be joined, and what they show.

    >>> Line("server", (1.0, 2.0), (0.5, 0.7)).label
    'server'
    """

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.xs) != len(self.ys) or not self.xs:
            raise ValueError(f"line {self.label!r} has {len(self.xs)} abscissas and {len(self.ys)} ordinates")


@dataclass(frozen=True)
class Axes:
    """What the two directions mean, whether they are logarithmic, and whether only whole numbers make sense.

    >>> Axes("δ", "ε", log_x=True).log_y
    False
    """

    across: str
    up: str
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = False


def check_plot_path(path: Path) -> str:
    """The format that a file name asks for; refuses others, and folders that do not exist.

    >>> check_plot_path(Path("curve.svg"))
    'svg'
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is saved as {', '.join(FORMATS)}. Let the name end in one of them.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist. Make it, or name another file.")
    return kind


def draw(path: Path, lines: Sequence[Line], axes: Axes, *, title: str) -> None:
    """Draw the lines into a file, replaced in one step.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> draw(Path(folder.name) / "a.svg", [Line("one", (1, 2), (3, 4))], Axes("x", "y"), title="Example")
    >>> folder.cleanup()
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    kind = check_plot_path(path)
    if not lines:
        raise ValueError("a plot needs a line")
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
        frame = figure.add_subplot()
        for place, line in enumerate(lines):
            colour, dashes, marker = _STYLES[place % len(_STYLES)]
            every = max(1, math.ceil(len(line.xs) / 8))
            frame.plot(
                line.xs,
                line.ys,
                color=colour,
                linestyle=dashes,
                marker=marker,
                markersize=4,
                markevery=every,
                linewidth=1.3,
                label=line.label,
            )
        if axes.log_x:
            frame.set_xscale("log")
        if axes.whole_x:
            frame.xaxis.set_major_locator(MaxNLocator(integer=True))
        if axes.log_y:
            frame.set_yscale("log")
        else:
            frame.set_ylim(bottom=0)
        frame.set_xlabel(axes.across)
        frame.set_ylabel(axes.up)
        frame.set_title(title, fontsize=10)
        frame.grid(True, color="0.88", linewidth=0.6)
        frame.set_axisbelow(True)
        frame.legend(frameon=False, fontsize=8)
        partial = path.with_name(f".{path.name}.partial")
        try:
            figure.savefig(partial, format=kind, metadata=_metadata(kind, lines))
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise CannotWrite(f"{path} cannot be written ({error.strerror}). Name another file.") from None


def described(lines: Sequence[Line]) -> str:
    """The points of all lines to four digits, as text: what a drawing carries and a test can compare.

    >>> described([Line("one", (1.0, 2.0), (1 / 3, 4.0))])
    '{"one": [[1.0, 0.3333], [2.0, 4.0]]}'
    """
    points = {
        line.label: [[float(f"{x:.4g}"), float(f"{y:.4g}")] for x, y in zip(line.xs, line.ys, strict=True)]
        for line in lines
    }
    return json.dumps(points, ensure_ascii=False)


def _metadata(kind: str, lines: Sequence[Line]) -> dict[str, Any]:
    where = {"png": "Description", "svg": "Description", "pdf": "Subject"}[kind]
    return {**_DATES[kind], where: described(lines)}
