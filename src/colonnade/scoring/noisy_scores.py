"""What noisy sums of scores say: what is expected of people with such sums, and how far noise moves it.

What is printed is read through a link, or through a network, so that noise on a sum is another in what is read. It is
drawn again, over sums that lie around the one that came out: their mean is what is expected, their deviation what ± is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from colonnade.randomness import public_permutation
from colonnade.scoring.figures import error_text, figure_text

Array = NDArray[np.float64]
DRAWS = 64
"""How many sums around each are read."""


def expected(
    read: Callable[[Array], Array], sums: Array, *, deviation: float, most: float
) -> tuple[Array, Array]:
    """Mean and deviation of what is read of sums whose noise has this deviation; no sum is past `most`."""
    levels = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    steps = np.stack([levels[public_permutation(DRAWS, seed)] for seed in range(sums.shape[1])], axis=1)
    within = np.clip(sums, -most, most)
    readings = np.stack([read(np.clip(within + deviation * step, -most, most)) for step in steps])
    return np.asarray(readings.mean(axis=0)), np.asarray(readings.std(axis=0))


def noisy_text(value: float, noise: float, *, probability: bool) -> str:
    """A number with no more digits than its noise leaves; a probability is never said to be 0 or 1."""
    if probability and noise > 0:
        least = 10.0 ** math.floor(math.log10(noise))
        value = min(max(value, least), 1.0 - least) if least < 0.5 else 0.5
    return figure_text(value, noise)


def noise_text(noise: float) -> str:
    return error_text(noise)
