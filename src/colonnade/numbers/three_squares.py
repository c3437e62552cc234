"""How far a squared norm is below its bound, as a sum of three squares.

4(R − ‖z‖²) + 1 is 1 modulo 4, so it is never of the form 4^a(8b + 7), and Gauss and Legendre have three squares for
it: integers a, b, c with 4‖z‖² + a² + b² + c² = 4R + 1. Conversely such integers show that ‖z‖² ≤ R, since a sum of
squares is not negative and 4‖z‖² ≤ 4R + 1 among integers.
"""

from __future__ import annotations

from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.quartic import loops

Integers = NDArray[np.int64]

MOST_NORM = 1 << 36
"""The largest bound R for which a table finds nearly all representations; the rest takes a search."""
_TABLE = 1 << 22


@cache
def _roots() -> NDArray[np.int16]:
    table: NDArray[np.int16] = loops().two_squares_table(_TABLE)
    return table


def slack(rows: Integers, bound: int) -> Integers:
    """Three integers for each row with 4‖z‖² + a² + b² + c² = 4·bound + 1."""
    norms = np.einsum("ij,ij->i", rows, rows)
    if norms.size and int(norms.max()) > bound:
        raise ValueError(f"{int((norms > bound).sum())} of {len(rows)} rows are longer than the bound")
    numbers = 4 * (bound - norms) + 1
    out = np.zeros((len(rows), 3), dtype=np.int64)
    for at in loops().three_squares(numbers, _roots(), out):
        out[at] = _searched(int(numbers[at]))
    return out


def _searched(number: int) -> tuple[int, int, int]:
    for x in range(isqrt(number), -1, -1):
        rest = number - x * x
        a = np.arange(isqrt(rest // 2) + 1, dtype=np.int64)
        others = rest - a * a
        b = np.rint(np.sqrt(others.astype(np.float64))).astype(np.int64)
        squares = np.flatnonzero(b * b == others)
        if squares.size:
            return x, int(a[squares[0]]), int(b[squares[0]])
    raise ArithmeticError(f"{number} is no sum of three squares")
