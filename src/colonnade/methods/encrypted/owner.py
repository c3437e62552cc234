"""What one owner of an encrypted gradient computes alone: its scores, its noise, its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.packing import from_fixed, to_fixed
from colonnade.errors import LocalProtocolError
from colonnade.methods.encrypted.plan import LARGEST_SCORE, EncryptedPlan
from colonnade.methods.encrypted.sigmoid import coefficients
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.protocols.session import RowSource, own_rows
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnerTranscript:
    """What an owner that follows the protocol can write down, batch by batch: kept where a run is recorded.

    `weights` are its own before the batch. `sums` are Σ f·x over the batch as they came to it: f times 4 with the
    Taylor approximation, whose coefficients are (θᵀx − 2y)/4. `scores` are the others' summed scores, where it reads
    them.
    """

    batches: tuple[Integers, ...]
    weights: tuple[Array, ...]
    sums: tuple[Array, ...]
    scores: tuple[Array, ...]


# Random starting weights are multiples of this.
_WEIGHT_BITS = 20


class OwnerState:
    """One owner's rows as integers, its labels if it has them, and its weights, which only it knows."""

    def __init__(
        self, owner: str, table: RowSource | None, plan: EncryptedPlan, randomness: Randomness
    ) -> None:
        self.owner, self.plan, self._randomness = owner, plan, randomness
        blocks = list(own_rows(owner, table, plan.rows).blocks(plan.rows))
        quantizer = plan.quantizers[owner]
        self.integers = np.concatenate([quantizer.quantize(block) for block in blocks])
        self.features: Array = self.integers / plan.spec.gamma
        labels = [block.label for block in blocks if block.label is not None]
        self.labels: Array | None = None
        if owner == plan.active:
            self.labels = 2.0 * np.concatenate(labels) - 1.0
        self.weights = self._projected(initial_weights(plan, owner, randomness))

    def scores(self, rows: Integers) -> Array:
        scores: Array = self.features[rows] @ self.weights
        return scores

    def message(self, rows: Integers) -> Integers:
        """What the others may add up under encryption: scores, less 2y at the owner of the label, on the grid.

        With a defence, noise is added; with the sound one the noisy value is clipped here, because whoever receives
        only sums cannot clip.
        """
        sent = self.on_grid(self._terms(rows))
        if self.plan.noise:
            sent = sent + self.plan.noise_of(self.owner).draw(len(sent), self._randomness)
        if self.plan.options.defence == "sound":
            sent = np.clip(sent, -self.plan.clips[self.owner], self.plan.clips[self.owner])
        return sent

    def _terms(self, rows: Integers) -> Array:
        return self.scores(rows) if self.labels is None else self.scores(rows) - 2.0 * self.labels[rows]

    def on_grid(self, values: Array) -> Integers:
        """The nearest multiples of the grid; refused if weights have run away."""
        if not (np.isfinite(values).all() and np.all(np.abs(values) <= LARGEST_SCORE)):
            raise LocalProtocolError(
                f"{self.owner}: a score is no finite number of at most {LARGEST_SCORE}; the weights run away. "
                "Choose a smaller learning_rate or another initialisation."
            )
        return to_fixed(values, self.plan.fraction_bits)

    def coefficients(self, rows: Integers, others: Array) -> Array:
        """f of every record at the owner of the label, who has read the sum of the others' scores."""
        if self.labels is None:
            raise LocalProtocolError(f"{self.owner} has no labels and computes no coefficients")
        return coefficients(self.plan.options.approximation, self.scores(rows) + others, self.labels[rows])

    def descend_split(self, rows: Integers, received: Sequence[int]) -> Array:
        """One step on own scores and the sum Σ m·x̃ of what the others sent; returns Σ f·x, as this owner sees it.

        Own scores enter without noise and without rounding: the contraction that sensitivities rest on is theirs.
        """
        total: Array = self.features[rows].T @ self._terms(rows) + self.real(received)
        self._step(0.25 * total)
        return total

    def descend(self, total: Array) -> Array:
        """One step on Σ f·x."""
        self._step(total)
        return total

    def real(self, received: Sequence[int]) -> Array:
        return from_fixed(received, self.plan.fraction_bits) / self.plan.spec.gamma

    def _step(self, total: Array) -> None:
        self.weights = self._projected(self.weights - self.plan.step_size * total)

    def _projected(self, weights: Array) -> Array:
        if not np.isfinite(weights).all():
            raise LocalProtocolError(
                f"{self.owner}: a weight is not a finite number. Choose a smaller learning_rate."
            )
        if self.plan.options.defence != "sound":
            return weights
        norm = float(np.linalg.norm(weights))
        return weights if norm <= self.plan.options.radius else weights * (self.plan.options.radius / norm)


def initial_weights(plan: EncryptedPlan, owner: str, randomness: Randomness) -> Array:
    """An owner's part of θ₀: zeros, or independent draws whose size depends on the number of all features.

    Xavier: uniform on ±√(6/(d + 1)). Kaiming: normal with variance 2/d. Large: normal with variance 1.
    """
    width = plan.width(owner)
    joint = sum(plan.width(name) for name in plan.group.owners)
    match plan.options.initialisation:
        case "zero":
            return np.zeros(width)
        case "xavier":
            unit = (randomness.words(width) >> np.uint64(11)).astype(np.float64) * 2.0**-53
            return math.sqrt(6 / (joint + 1)) * (2.0 * unit - 1.0)
        case "kaiming":
            return math.sqrt(2 / joint) * _normal(width, randomness)
        case "large":
            return _normal(width, randomness)


def _normal(count: int, randomness: Randomness) -> Array:
    draws = DiscreteGaussianNoise(Fraction(1 << (2 * _WEIGHT_BITS))).draw(count, randomness)
    return draws.astype(np.float64) * 2.0**-_WEIGHT_BITS
