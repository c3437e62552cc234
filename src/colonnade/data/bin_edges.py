"""Where one bin ends and the next begins: edges by list, by their number, or by quantiles of a public set."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike

from colonnade.data.declaring import Transform, check_bounds, check_whole
from colonnade.errors import Misdeclared

MOST_BINS = 256
"""Each bin is a feature: more would put most of a release into one column."""


def checked_edges(where: tuple[str, ...], what: str, edges: tuple[float, ...]) -> tuple[float, ...]:
    """Edges as floats, if they are finite and rise."""
    if not edges:
        raise Misdeclared(where, f"{what}: edges declares no edge; one makes two bins.")
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, int | float) or not math.isfinite(edge):
            raise Misdeclared(where, f"{what}: the edge {edge!r} is not a finite number.")
    numbers = tuple(float(edge) for edge in edges)
    if any(not left < right for left, right in itertools.pairwise(numbers)):
        raise Misdeclared(where, f"{what}: edges must rise, each above the one before it.")
    return numbers


def even_edges(
    name: str, bins: int, *, low: float | None, high: float | None, transform: Transform = "none"
) -> tuple[float, ...]:
    """The edges of so many bins of one width from low to high, on the scale of the transform."""
    where, what = ("columns", name), f"column {name!r}"
    check_whole((*where, "bins"), f"{what}: bins", bins, low=2, high=MOST_BINS)
    if low is None or high is None:
        key = "low" if low is None else "high"
        raise Misdeclared(
            (*where, key),
            f"{what}: bins = {bins} are of one width from low to high, and {key} is not declared. Declare it, or list "
            "the edges.",
        )
    check_bounds(where, what, low, high)
    if transform == "log1p":
        if low <= -1:
            raise Misdeclared((*where, "low"), f"{what}: log1p needs low above -1, not {low:g}.")
        return tuple(np.expm1(np.linspace(math.log1p(low), math.log1p(high), bins + 1))[1:-1].tolist())
    return tuple(np.linspace(low, high, bins + 1)[1:-1].tolist())


def quantile_edges(name: str, bins: int, values: ArrayLike) -> tuple[float, ...]:
    """Edges between which so many bins hold about as many of these public values each.

    A value that takes up several quantiles begins one bin, so there may be fewer.
    """
    where, what = ("columns", name), f"column {name!r}"
    check_whole((*where, "bins"), f"{what}: bins", bins, low=2, high=MOST_BINS)
    given = np.asarray(values, dtype=np.float64)
    given = np.sort(given[np.isfinite(given)])
    if not given.size or given[0] == given[-1]:
        raise Misdeclared(
            (*where, "quantiles"),
            f"{what}: the public set has {'no number' if not given.size else 'one number only'} in that column, which "
            "makes no bins. Name another set, or list the edges.",
        )
    edges = np.unique(np.quantile(given, np.arange(1, bins) / bins, method="inverted_cdf"))
    edges = edges[edges > given[0]]
    # Where one value fills every quantile, what lies above it begins the second bin.
    return tuple(edges.tolist()) if edges.size else (float(given[given > given[0]][0]),)
