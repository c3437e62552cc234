"""How well an attack did, against what guessing would have done, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Success:
    """So many hits among so many trials; `chance` is the share of hits that luck would give."""

    hits: float
    trials: int
    chance: float

    def __post_init__(self) -> None:
        if self.trials < 1 or not 0 <= self.hits <= self.trials:
            raise ValueError(f"{self.hits} hits among {self.trials} trials are no share")

    @property
    def rate(self) -> float:
        return self.hits / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """The Clopper-Pearson interval at 95 %, as if trials were independent."""
        tail = (1 - CONFIDENCE) / 2
        hits, misses = self.hits, self.trials - self.hits
        low = float(beta.ppf(tail, hits, misses + 1)) if hits > 0 else 0.0
        high = float(beta.ppf(1 - tail, hits + 1, misses)) if misses > 0 else 1.0
        return low, high

    def to_data(self) -> dict[str, object]:
        low, high = self.interval
        return {
            "rate": self.rate,
            "low": low,
            "high": high,
            "chance": self.chance,
            "hits": self.hits,
            "trials": self.trials,
        }

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.rate:.3f} ({low:.3f} to {high:.3f}), by chance {self.chance:.3f}"


def label_success(guesses: NDArray[np.float64], labels: NDArray[np.float64]) -> Success:
    """Guesses of ±1 against labels of ±1; 0 is no guess and never a hit.

    Chance is how often the same guesses would be right if they had nothing to do with the labels.
    """
    positive = float(np.mean(labels > 0))
    chance = float(np.mean(guesses > 0)) * positive + float(np.mean(guesses < 0)) * (1 - positive)
    return Success(float(np.sum(guesses == labels)), len(labels), chance)


def value_success(
    guesses: NDArray[np.float64], values: NDArray[np.float64], *, tolerance: float = 0.01
) -> Success:
    """How many numbers are right to within a part of their spread; NaN is no guess.

    Chance is how often a guess of one number would also be right for another one.
    """
    guesses, values = guesses.ravel(), values.ravel()
    near = tolerance * float(np.std(values) or 1.0)
    hits = int(np.sum(np.abs(guesses - values) <= near))
    shifted = [np.abs(guesses - np.roll(values, turn)) <= near for turn in range(1, min(len(values), 50))]
    return Success(hits, len(values), float(np.mean(shifted)) if shifted else 0.0)
