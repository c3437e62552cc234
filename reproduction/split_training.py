"""PBM-VFL's algorithm in one place: the arithmetic of `colonnade.methods.network.protocol` without channels and masks.

For grids of settings on public data: a secure sum shows exactly the sum, so that leaving its masks out changes no
number. All parties' networks have one shape and are evaluated together.
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

from colonnade.methods.network.fusion import targets_of
from colonnade.methods.network.parts import loss_of
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.privacy.paper.pbm_vfl import local_variance
from colonnade.randomness import SystemRandomness, public_permutation

EMBEDDING, BATCH, RATE = 16, 100, 0.01


@dataclass(frozen=True)
class Setting:
    """One way to send embeddings: "npq" as they are, "pbm" quantised and summed, "ldp" with Gaussian noise each.

    The local noise has the paper's variance, or, `matched`, the one that costs as much as the Poisson binomial sum.
    """

    kind: str
    trials: int = 0
    beta: float = 0.0
    matched: bool = False

    def deviation(self, parties: int) -> float:
        """The standard deviation of the local noise of one party."""
        if self.matched:
            return math.sqrt(parties * (1 - 4 * self.beta**2) / (4 * self.trials * self.beta**2))
        return math.sqrt(local_variance(contributors=parties, trials=self.trials, beta=self.beta).value)


class DenseParties(nn.Module):
    """Three dense layers for each of M parties, side by side; narrower parties are padded with zeros."""

    def __init__(self, parties: int, numbers: int, *, width: int = 32) -> None:
        super().__init__()
        sizes = [(numbers, width), (width, width), (width, EMBEDDING)]
        self.weights = nn.ParameterList(
            nn.Parameter((torch.rand(parties, a, b) * 2 - 1) / math.sqrt(a)) for a, b in sizes
        )
        self.biases = nn.ParameterList(
            nn.Parameter((torch.rand(parties, 1, b) * 2 - 1) / math.sqrt(a)) for a, b in sizes
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(parties, rows, numbers) → (parties, rows, P)."""
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = torch.baddbmm(bias, rows, weight)
            rows = torch.relu(rows) if place < 2 else torch.tanh(rows)
        return rows


class ImageParties(nn.Module):
    """A small convolutional network for each of M parties, side by side, as grouped convolutions."""

    def __init__(self, parties: int, image: tuple[int, int, int], *, channels: int = 8) -> None:
        super().__init__()
        self.parties, self.image = parties, image
        self.first = nn.Conv2d(parties * image[0], parties * channels, 3, padding=1, groups=parties)
        self.second = nn.Conv2d(parties * channels, parties * 2 * channels, 3, padding=1, groups=parties)
        inner = 2 * channels * (image[1] // 4) * (image[2] // 4)
        self.weight = nn.Parameter((torch.rand(parties, inner, EMBEDDING) * 2 - 1) / math.sqrt(inner))
        self.bias = nn.Parameter(torch.zeros(parties, 1, EMBEDDING))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(parties, rows, pixels) → (parties, rows, P)."""
        count = rows.shape[1]
        stacked = rows.reshape(self.parties, count, *self.image).permute(1, 0, 2, 3, 4).flatten(1, 2)
        maps = nn.functional.max_pool2d(torch.relu(self.first(stacked)), 2)
        maps = nn.functional.max_pool2d(torch.relu(self.second(maps)), 2)
        flat = maps.reshape(count, self.parties, -1).permute(1, 0, 2)
        return torch.tanh(torch.baddbmm(self.bias, flat, self.weight))


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of all parties, (parties, rows, numbers), and class numbers, for training and for testing."""

    train: torch.Tensor
    train_codes: NDArray[np.int64]
    test: torch.Tensor
    test_codes: NDArray[np.int64]
    classes: int
    image: tuple[int, int, int] | None = None


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

    def __init__(self, data: Data, setting: Setting, *, seed: int = 0, momentum: float = 0.0) -> None:
        torch.manual_seed(seed)
        self.data, self.setting, self.seed = data, setting, seed
        parties, _, numbers = data.train.shape
        self.parties = parties
        self.networks: nn.Module = (
            DenseParties(parties, numbers) if data.image is None else ImageParties(parties, data.image)
        )
        outputs = data.classes if data.classes > 2 else 1
        self.fusion = nn.Linear(EMBEDDING, outputs)
        self.loss = loss_of(data.classes)
        self.targets = torch.tensor(targets_of(data.train_codes, data.classes), dtype=torch.float32)
        every = [*self.networks.parameters(), *self.fusion.parameters()]
        self.optimiser = torch.optim.SGD(every, lr=RATE, momentum=momentum)
        self.noise = (
            PoissonBinomialNoise(setting.trials, Fraction(str(setting.beta)), Fraction(1))
            if setting.kind == "pbm"
            else None
        )
        self._coins = SystemRandomness()

    def noisy(self, embedded: torch.Tensor) -> torch.Tensor:
        """What the server makes of (parties, rows, P): the estimate of their sum."""
        if self.setting.kind == "npq":
            return embedded.sum(dim=0)
        values = embedded.numpy().astype(np.float64)
        if self.noise is not None:
            counts = self.noise.draw(values, self._coins).sum(axis=0)
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
            float((self._codes(scores) == codes[: len(scores)]).mean())
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

    def _codes(self, scores: NDArray[np.float32]) -> NDArray[np.int64]:
        return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
