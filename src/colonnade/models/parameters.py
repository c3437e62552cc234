"""What the parameters of estimators may be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from colonnade.data.documents import shown
from colonnade.errors import InputError


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number of more digits than a float has room for.
        return False


def at_least(name: str, value: Any, least: float, *, strict: bool = False) -> None:
    """Raise an `InputError` unless a parameter is a finite number from `least` up.

    >>> at_least("ridge", 0.5, 0.0)
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and _is_finite(value)
    if not number or value < least or (strict and value == least):
        raise InputError(
            f"{name} = {shown(value)} is not a finite number {'above' if strict else 'from'} {least:g}."
        )
