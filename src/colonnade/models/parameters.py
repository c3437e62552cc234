"""What the parameters of estimators may be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from colonnade.data.documents import shown
from colonnade.errors import DataError, InputError


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number of more digits than a float has room for.
        return False


def at_least(name: str, value: Any, least: float, *, strict: bool = False) -> None:
    """Raise an `InputError` unless a parameter is a finite number from `least` up."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and _is_finite(value)
    if not number or value < least or (strict and value == least):
        raise InputError(
            f"{name} = {shown(value)} is not a finite number {'above' if strict else 'from'} {least:g}."
        )


def check_lengths(rows: int, y: ArrayLike, *, sample_weight: ArrayLike | None) -> None:
    """Raise a `DataError` unless labels and weights have an entry for each of so many people."""
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        shape = None if values is None else np.shape(values)
        if shape not in (None, (rows,)):
            many = f"{shape[0]} entries" if shape and len(shape) == 1 else f"the shape {shape}"
            people = "1 person" if rows == 1 else f"{rows} people"
            raise DataError(f"{name} has {many} for {people}. Give one for each, in the same order.")
