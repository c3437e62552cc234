"""What an owner that follows the protocol has in its hands: its diary, its own columns, and the public plan.

Each batch gives it one equation for each of its own columns: Σ f·x over the batch, with one unknown coefficient f a
record. With at least as many columns as records the coefficients follow ("Is Vertical Logistic Regression
Privacy-Preserving?", theorem 3.1); with fewer, they follow up to what its columns cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.encrypted.owner import OwnerTranscript
from colonnade.methods.encrypted.plan import EncryptedPlan
from colonnade.methods.encrypted.sigmoid import coefficients

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Look:
    """One batch as the attacker saw it: whose records, their coefficients as far as they follow, its own scores."""

    epoch: int
    rows: Integers
    coefficients: Array
    own_scores: Array
    determined: bool


@dataclass(frozen=True, eq=False)
class PartyView:
    """One owner's side of a run. `features` are its own columns, `labels` its own if it holds them."""

    plan: EncryptedPlan
    owner: str
    diary: OwnerTranscript
    features: Array
    labels: Array | None = None

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """Every batch of the run, in order."""
        return tuple(self._looks())

    def _looks(self) -> Iterator[Look]:
        for number, (rows, weights, sums) in enumerate(
            zip(self.diary.batches, self.diary.weights, self.diary.sums, strict=True)
        ):
            mine = self.features[rows]
            own = mine @ weights
            told = self.diary.scores[number]
            if told.size and self.labels is not None:
                # This owner reads the others' scores and computes the coefficients itself.
                values = coefficients(self.plan.options.approximation, own + told, self.labels[rows])
                determined = True
            else:
                solved, _, rank, _ = np.linalg.lstsq(mine.T, sums, rcond=None)
                values, determined = np.asarray(solved, dtype=np.float64), int(rank) == len(rows)
            yield Look(number // self.plan.schedule.steps_per_epoch, rows, values, own, determined)

    @property
    def determined(self) -> float:
        """The share of batches whose coefficients follow exactly."""
        return float(np.mean([look.determined for look in self.looks]))

    @property
    def epochs(self) -> int:
        return self.plan.schedule.epochs

    @property
    def scale(self) -> float:
        """What a coefficient in the diary is in multiples of the gradient's: 4 with the Taylor approximation."""
        return 4.0 if self.plan.splits else 1.0
