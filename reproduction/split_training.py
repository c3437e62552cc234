"""PBM-VFL's algorithm in one place: the arithmetic of `colonnade.methods.network.protocol` without channels and masks.

For grids of settings on public data: a secure sum shows exactly the sum, so that leaving its masks out changes no
number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import nn

from colonnade.methods.network.modules import loss_of, targets_of
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.privacy.paper import local_variance
from colonnade.randomness import SystemRandomness, public_permutation
from reproduction.split_networks import EMBEDDING, DenseParties

BATCH, RATE = 100, 0.01


@dataclass(frozen=True)
class Setting:
    """One way to send embeddings: "npq" as they are, "pbm" quantised and summed, "ldp" with Gaussian noise each.

    The local noise has the paper's variance, or, `matched`, the one that costs as much as the Poisson binomial sum.
    `rate` is how far a step goes.
    """

    kind: str
    trials: int = 0
    beta: float = 0.0
    matched: bool = False
    rate: float = RATE

    def deviation(self, parties: int) -> float:
        """The standard deviation of the local noise of one party."""
        if self.matched:
            return math.sqrt(parties * (1 - 4 * self.beta**2) / (4 * self.trials * self.beta**2))
        return math.sqrt(local_variance(contributors=parties, trials=self.trials, beta=self.beta).value)


@dataclass(frozen=True)
class Recipe:
    """What runs side by side share: the momentum of steps, P, and the width of dense layers."""

    momentum: float = 0.0
    embedding: int = EMBEDDING
    width: int = 32


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of all parties, (parties, rows, numbers), and class numbers, for training and for testing."""

    train: torch.Tensor
    train_codes: NDArray[np.int64]
    test: torch.Tensor
    test_codes: NDArray[np.int64]
    classes: int

    def networks(self, recipe: Recipe, *, copies: int = 1) -> DenseParties:
        """Fresh networks for these rows."""
        parties, _, numbers = self.train.shape
        return DenseParties(parties, numbers, width=recipe.width, embedding=recipe.embedding, copies=copies)

    @property
    def outputs(self) -> int:
        """How many scores a row has."""
        return self.classes if self.classes > 2 else 1


@dataclass(frozen=True)
class Curve:
    """One number per epoch: accuracy on training rows and on test rows, average precision of the second class.

    `train_precision` is that on training rows, where it was looked at.
    """

    train: tuple[float, ...]
    test: tuple[float, ...]
    precision: tuple[float, ...]
    train_precision: tuple[float, ...] = ()

    def epochs_to(self, target: float, *, of: str = "train") -> int | None:
        """The first epoch at which a curve reaches a target."""
        for epoch, value in enumerate(getattr(self, of), start=1):
            if value >= target:
                return epoch
        return None


class Trainer:
    """Parties' networks, a linear fusion, plain gradient steps: one run."""

    def __init__(self, data: Data, setting: Setting, *, seed: int = 0, recipe: Recipe | None = None) -> None:
        torch.manual_seed(seed)
        recipe = recipe or Recipe()
        self.data, self.setting, self.seed = data, setting, seed
        self.parties = data.train.shape[0]
        self.networks = data.networks(recipe)
        self.fusion = nn.Linear(recipe.embedding, data.outputs)
        self.loss = loss_of(data.classes)
        self.targets = torch.tensor(targets_of(data.train_codes, data.classes), dtype=torch.float32)
        every = [*self.networks.parameters(), *self.fusion.parameters()]
        self.optimiser = torch.optim.SGD(every, lr=setting.rate, momentum=recipe.momentum)
        self.noise = (
            PoissonBinomialNoise(setting.trials, Fraction(str(setting.beta)), Fraction(1))
            if setting.kind == "pbm"
            else None
        )
        self._draws = SystemRandomness()

    def noisy(self, embedded: torch.Tensor) -> torch.Tensor:
        """What the server makes of (parties, rows, P): the estimate of their sum."""
        if self.setting.kind == "npq":
            return embedded.sum(dim=0)
        values = embedded.numpy().astype(np.float64)
        if self.noise is not None:
            counts = self.noise.draw(values, self._draws).sum(axis=0)
            return torch.from_numpy(self.noise.estimate(counts, parties=self.parties)).float()
        # The baseline promises nothing here and is not released: plain floating-point noise will do.
        drawn = torch.randn(embedded.shape) * self.setting.deviation(self.parties)
        return (embedded + drawn).sum(dim=0)

    def step(self, rows: torch.Tensor) -> None:
        """One batch, as in Algorithm 2."""
        embedded = self.networks(self.data.train[:, rows])
        sums = self.noisy(embedded.detach()).requires_grad_()
        self.optimiser.zero_grad()
        self.loss(self.fusion(sums), self.targets[rows]).mean().backward()  # type: ignore[no-untyped-call]
        assert sums.grad is not None
        embedded.backward(sums.grad.expand_as(embedded))
        self.optimiser.step()

    def epochs(self, count: int) -> Curve:
        """Train for so many epochs and look after each, at exact sums."""
        found: list[tuple[float, float, float]] = []
        total = self.data.train.shape[1]
        for epoch in range(count):
            order = torch.from_numpy(public_permutation(total, self.seed + 1000 * epoch + 1))
            for start in range(0, total, BATCH):
                self.step(order[start : start + BATCH])
            found.append(self.look())
        return Curve(*(tuple(column) for column in zip(*found, strict=True)))

    def look(self) -> tuple[float, float, float]:
        """Accuracy on at most 2,000 training rows and on all test rows, and average precision there."""
        with torch.no_grad():
            train = self.scores(self.data.train[:, :2000])
            test = self.scores(self.data.test)
        right = [
            float((codes_of(scores) == codes[: len(scores)]).mean())
            for scores, codes in ((train, self.data.train_codes), (test, self.data.test_codes))
        ]
        precision = (
            float(average_precision_score(self.data.test_codes == 1, test[:, 0]))
            if self.data.classes == 2
            else math.nan
        )
        return right[0], right[1], precision

    def scores(self, rows: torch.Tensor) -> NDArray[np.float32]:
        """Scores of rows at exact sums, some rows at a time."""
        pieces = [
            self.fusion(self.networks(rows[:, start : start + 1000]).sum(dim=0))
            for start in range(0, rows.shape[1], 1000)
        ]
        out: NDArray[np.float32] = torch.cat(pieces).detach().numpy()
        return out


def codes_of(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """The class that scores speak for: the largest, or the second of two where the only one is above zero."""
    return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
