"""The compiled loops over packed residues, loaded at first use: importing numba takes longer than most commands run."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]


@cache
def kernels() -> ModuleType:
    """The module `compiled`."""
    from colonnade.numbers import compiled

    return compiled
