"""What is agreed for a training run on sums of embeddings: the schedule of its batches and its noise.

Batches follow public permutations: a record is in exactly one batch of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.masks import SumRing
from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.protocols.plans import Plan, Task
from colonnade.randomness import public_permutation

# Embeddings of the local baseline and clipped gradients are integers on grids this fine.
EMBEDDING_GRID = 1 << 12
GRADIENT_GRID = 1 << 16

Regime = Literal["frozen", "private-local", "paper"]
Mechanism = Literal["poisson-binomial", "local-gaussian", "none"]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Some rows of one epoch: `held_out` ones are looked at and never learnt from."""

    step: int
    rows: Indices
    held_out: bool


@dataclass(frozen=True)
class EmbeddingsTerms(Plan):
    """One training run: who, which columns, how noisy, how often. What it is to whom, `EmbeddingsPlan` adds.

    `trials` and `beta` are b and β of the Poisson binomial mechanism; `local_variance` is σ² of the integer noise of
    the local baseline, in units of its grid; `update_variance` that of the clipped sums that local networks learn from;
    `label_trials` and `label_beta` randomise the labels, or are 0 where nothing computed from labels leaves.
    """

    task: Task
    regime: Regime
    mechanism: Mechanism
    epsilon: float
    embedding: int
    bound: int
    trials: int
    beta: Fraction
    local_variance: Fraction
    update_variance: Fraction
    label_trials: int
    label_beta: Fraction
    batch: int
    epochs: int
    held_out: int
    clip: float
    parameters: int
    gradient_bits: int
    order_seed: int
    coalitions: tuple[tuple[str, ...], ...] = ()

    @property
    def receiver(self) -> str:
        return self.group.active or ""

    @cached_property
    def contributors(self) -> tuple[str, ...]:
        """The owners of at least one column, in order; M of them."""
        return tuple(schema.party for schema in self.schemas if schema.columns)

    @property
    def taught(self) -> tuple[str, ...]:
        """The contributors to whom the label holder says something: all but itself."""
        return tuple(party for party in self.contributors if party != self.receiver)

    @property
    def hiding(self) -> int:
        """How many contributors' counts the label holder does not know."""
        return len(self.taught)

    @property
    def sum_variance(self) -> float:
        """The variance of a coordinate of the label holder's estimate of Σ h, at most.

        Where nothing goes back it takes its own counts out of the sum and its own embedding in.
        """
        noisy = len(self.contributors) if self.learns_locally else self.hiding
        if self.mechanism == "poisson-binomial":
            return float(noisy * self.bound**2 / (4 * self.trials * self.beta**2))
        return noisy * float(self.local_variance) * (self.bound / EMBEDDING_GRID) ** 2

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        return {schema.party: schema.encoder("linear") for schema in self.schemas if schema.columns}

    @cached_property
    def label(self) -> LabelBlock:
        return LabelBlock(next(schema.label for schema in self.schemas if schema.label is not None))

    @property
    def learns_locally(self) -> bool:
        return self.regime != "frozen"

    @property
    def passes(self) -> int:
        return self.epochs if self.learns_locally else 1

    @cached_property
    def noise(self) -> PoissonBinomialNoise | None:
        """The quantiser, where sums are what travels."""
        if self.mechanism != "poisson-binomial":
            return None
        return PoissonBinomialNoise(self.trials, self.beta, Fraction(self.bound))

    @cached_property
    def local_noise(self) -> DiscreteGaussianNoise | None:
        return (
            DiscreteGaussianNoise(self.local_variance)
            if self.mechanism == "local-gaussian" and self.local_variance
            else None
        )

    @cached_property
    def update_noise(self) -> DiscreteGaussianNoise | None:
        """What is added to the clipped sum of gradients before a local network learns from it."""
        return DiscreteGaussianNoise(self.update_variance) if self.update_variance else None

    @cached_property
    def label_noise(self) -> PoissonBinomialNoise | None:
        """How labels are randomised before anything that leaves is computed from them."""
        if not self.label_trials:
            return None
        return PoissonBinomialNoise(self.label_trials, self.label_beta, Fraction(1))

    @property
    def label_coordinates(self) -> int:
        return 2 if len(self.label.classes) > 2 else 1

    @cached_property
    def ring(self) -> SumRing:
        return SumRing(parties=len(self.contributors), largest=self.trials)

    @property
    def train_rows(self) -> int:
        return self.rows - self.held_out

    @property
    def steps_in_epoch(self) -> int:
        return -(-self.train_rows // self.batch) + -(-self.held_out // self.batch)

    @property
    def steps(self) -> int:
        return self.passes * self.steps_in_epoch

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch in public order: every record is in exactly one."""
        split = public_permutation(self.rows, self.order_seed)
        train, looked_at = split[: self.train_rows], split[self.train_rows :]
        # The place of the epoch in the seed's sequence; only its being public and agreed matters.
        train = train[public_permutation(len(train), self.order_seed + (epoch + 1) * 1_000_003)]
        step = epoch * self.steps_in_epoch
        for rows, held_out in ((train, False), (looked_at, True)):
            for start in range(0, len(rows), self.batch):
                yield Batch(step, rows[start : start + self.batch], held_out)
                step += 1
