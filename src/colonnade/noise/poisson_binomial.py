"""The Poisson binomial mechanism: each party sends a binomial count instead of its value.

A value x in [−C, C] becomes p = 1/2 + βx/C, and the party sends Bin(b, p). The noise is in the counts
themselves: what the server learns of one value is hidden by the sum of the others. The privacy proof
needs every p inside [1/2 − β, 1/2 + β], so p lies on a grid of 2^-53 whose ends are rounded inwards.
From "PBM-VFL: Vertical Federated Learning with Feature and Sample Privacy".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.errors import DataError, PlanError, PrivacyError
from colonnade.noise.binomial import LARGEST_TRIALS, ONE, binomial
from colonnade.noise.mechanism import exact_positive
from colonnade.privacy.events import Event, Repeated
from colonnade.privacy.leaves import PoissonBinomial
from colonnade.randomness import Randomness

SMALLEST_BETA = Fraction(1, 1 << 40)


@dataclass(frozen=True)
class PoissonBinomialNoise:
    """Values in [−bound, bound] as Bin(trials, 1/2 + β·value/bound), drawn exactly."""

    trials: int
    beta: Fraction
    bound: Fraction

    def __post_init__(self) -> None:
        if not 1 <= self.trials <= LARGEST_TRIALS:
            raise PlanError(f"the number of trials is from 1 to 2^20, not {self.trials}")
        beta = exact_positive("β", self.beta)
        if not SMALLEST_BETA <= beta < Fraction(1, 2):
            raise PlanError(
                f"β is from 2^-40 to just below 1/2, not {float(beta):.6g}: at 1/2 a count shows its value"
            )
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "bound", exact_positive("the bound", self.bound))

    def numerators(self, values: ArrayLike) -> NDArray[np.int64]:
        """p·2^53 for every value, never outside [1/2 − β, 1/2 + β]; values past the bound are clipped."""
        floats = np.asarray(values, dtype=np.float64)
        if np.isnan(floats).any():
            raise DataError("a value to be quantised is not a number; impute or drop it before training")
        limit = float(self.bound)
        shift = np.rint(np.clip(floats, -limit, limit) / limit * float(self.beta * ONE)).astype(np.int64)
        low = math.ceil((Fraction(1, 2) - self.beta) * ONE)
        # Whatever rounding did, the proof's interval holds.
        return np.clip(shift + ONE // 2, low, ONE - low)

    def draw(self, values: ArrayLike, randomness: Randomness) -> NDArray[np.int64]:
        """One count in [0, trials] for every value."""
        return binomial(self.trials, self.numerators(values), randomness)

    def estimate(self, totals: ArrayLike, *, parties: int) -> NDArray[np.float64]:
        """The sum of the parties' values that a sum of their counts stands for, without bias."""
        centred = np.asarray(totals, dtype=np.float64) - parties * self.trials / 2
        return centred * float(self.bound / (self.beta * self.trials))

    def event(self, *, parties: int, known: int = 0, changed: int = 1, coordinates: int = 1) -> Event:
        """What an observer learns of a record from the sums of `coordinates` counts over `parties`.

        `known` parties' counts are the observer's own; `changed` of the others differ between neighbours.
        The counts are exact, so nothing is added to δ.
        """
        if not 0 <= known < parties:
            raise PrivacyError(
                f"an observer who knows {known} of {parties} parties' counts is hidden nothing"
            )
        leaf = PoissonBinomial(parties - known, self.trials, self.beta, changed)
        return leaf if coordinates == 1 else Repeated(leaf, coordinates)
