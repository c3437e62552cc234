"""Many runs of PBM-VFL's algorithm side by side: `split_training.Trainer` for a list of settings at once.

A run is the same as it would be alone, but for its noise; together they take a fifth of the time.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import nn

from colonnade.methods.network.modules import loss_of, targets_of
from colonnade.randomness import SystemRandomness, public_permutation
from reproduction.split_training import BATCH, Curve, Data, Recipe, Setting, codes_of

# Compiled functions are untyped to those who check types.
njit: Any = importlib.import_module("numba").njit
SEEN = 2000
"""So many training rows are looked at after every epoch."""
BITS = 16
"""Probabilities are multiples of 2⁻¹⁶ here. Nothing is released, so the law need not be the library's exact one."""
Look = tuple[float, float, float, float]


@njit(inline="always")  # type: ignore[untyped-decorator]
def _word(state: Any) -> Any:
    """64 bits by splitmix64: quick, and good enough for what is never released."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit  # type: ignore[untyped-decorator]
def _popcount(word: Any) -> Any:
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit  # type: ignore[untyped-decorator]
def _summed(shares: Any, trials: Any, state: Any, found: Any) -> None:
    models, parties, cells = shares.shape
    for model in range(models):
        for party in range(parties):
            for cell in range(cells):
                share, count, left = shares[model, party, cell], 0, trials[model]
                while left > 0:
                    if left >= 64:
                        # 64 coins at once: a lane shows 1 where its random bits, read from the top, fall below p's.
                        lanes, bits = np.uint64(0), share
                        for _ in range(BITS):
                            word = _word(state)
                            lanes = (lanes | ~word) if bits & 1 else (lanes & ~word)
                            bits >>= 1
                        count += _popcount(lanes)
                        left -= 64
                    else:
                        word = _word(state)
                        for place in range(min(left, 4)):
                            count += (word >> np.uint64(BITS * place)) & np.uint64(
                                (1 << BITS) - 1
                            ) < np.uint64(share)
                        left -= 4
                found[model, cell] += count


def summed_counts(
    shares: NDArray[np.int32], trials: NDArray[np.int64], state: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Σ over parties of Bin(trials, share/2¹⁶), for (models, parties, …) of shares and trials of each model."""
    found = np.zeros((shares.shape[0], *shares.shape[2:]), dtype=np.int32)
    flat = np.ascontiguousarray(shares).reshape(*shares.shape[:2], -1)
    _summed(flat, trials, state, found.reshape(len(found), -1))
    return found


class Runs:
    """A run of every setting from one seed: the same first weights, and the same batches."""

    def __init__(
        self, data: Data, settings: Sequence[Setting], *, seed: int, recipe: Recipe | None = None
    ) -> None:
        recipe = recipe or Recipe()
        self.data, self.settings, self.seed = data, tuple(settings), seed
        self.parties, self.embedding = data.train.shape[0], recipe.embedding
        self.networks = data.networks(recipe, copies=len(self.settings))
        self.weight = nn.Parameter(torch.empty(len(self.settings), recipe.embedding, data.outputs))
        self.bias = nn.Parameter(torch.empty(len(self.settings), 1, data.outputs))
        self._begin(recipe)
        self.loss = loss_of(data.classes)
        self.targets = torch.tensor(targets_of(data.train_codes, data.classes), dtype=torch.float32)
        # A setting's rate stands before its loss, because all of them take their steps together.
        self.optimiser = torch.optim.SGD(
            [*self.networks.parameters(), self.weight, self.bias],
            lr=1.0,
            momentum=recipe.momentum,
            fused=True,
        )
        self.rates = torch.tensor([setting.rate for setting in self.settings])
        self._state = SystemRandomness().words(1)

    def _begin(self, recipe: Recipe) -> None:
        """The seed's first weights, the same for all settings, as `Trainer` draws them."""
        torch.manual_seed(self.seed)
        first, fusion = self.data.networks(recipe), nn.Linear(recipe.embedding, self.data.outputs)
        with torch.no_grad():
            for mine, theirs in zip(self.networks.parameters(), first.parameters(), strict=True):
                mine.copy_(theirs.repeat(len(self.settings), 1, 1))
            self.weight.copy_(fusion.weight.T.expand_as(self.weight))
            self.bias.copy_(fusion.bias.expand_as(self.bias))

    def noisy(self, embedded: torch.Tensor) -> torch.Tensor:
        """What the servers make of (settings, parties, rows, P): the estimates of their sums."""
        sums = embedded.sum(dim=1)
        local, counted = (
            [place for place, setting in enumerate(self.settings) if setting.kind == kind]
            for kind in ("ldp", "pbm")
        )
        if local:
            # A sum of the parties' Gaussian parts is one Gaussian.
            scale = self.parties**0.5 * _each(
                [self.settings[place].deviation(self.parties) for place in local]
            )
            sums[local] += torch.randn(len(local), *sums.shape[1:]) * scale
        if counted:
            betas = _each([self.settings[place].beta for place in counted])
            trials = _each([self.settings[place].trials for place in counted])
            shares = ((0.5 + betas[:, None] * embedded[counted]) * (1 << BITS)).round().int().numpy()
            counts = summed_counts(shares, trials.flatten().long().numpy(), self._state)
            sums[counted] = (torch.from_numpy(counts) - self.parties * trials / 2) / (betas * trials)
        return sums

    def step(self, rows: torch.Tensor) -> None:
        """One batch of every run, as in Algorithm 2."""
        embedded = self.networks(self.data.train[:, rows])
        shape = (len(self.settings), self.parties, len(rows), self.embedding)
        sums = self.noisy(embedded.detach().reshape(shape)).requires_grad_()
        self.optimiser.zero_grad()
        scores = torch.baddbmm(self.bias, sums, self.weight)
        targets = self.targets[rows].reshape(len(rows), -1).repeat(len(self.settings), 1)
        lost: Any = self.loss(scores.flatten(0, 1), targets).reshape(scores.shape[:2]).mean(dim=1)
        (self.rates @ lost).backward()
        found: Any = sums.grad
        torch.autograd.backward(embedded, found[:, None].expand(shape).reshape(embedded.shape))
        self.optimiser.step()

    def epochs(self, count: int) -> dict[Setting, Curve]:
        """Train for so many epochs and look after each, at exact sums."""
        looks = []
        for number in range(count):
            self.epoch(number)
            looks.append(self.look())
        return {
            setting: Curve(*(tuple(look[place][value] for look in looks) for value in range(4)))
            for place, setting in enumerate(self.settings)
        }

    def epoch(self, number: int) -> None:
        """Train for one epoch, this many after the first."""
        total = self.data.train.shape[1]
        order = torch.from_numpy(public_permutation(total, self.seed + 1000 * number + 1))
        for start in range(0, total, BATCH):
            self.step(order[start : start + BATCH])

    def right(self) -> list[float]:
        """Of every run: accuracy on all test rows, at exact sums."""
        return [
            float((codes_of(each) == self.data.test_codes).mean()) for each in self.scores(self.data.test)
        ]

    def look(self) -> list[Look]:
        """Of every run: accuracy on some training rows and on all test rows, average precision there and here.

        Average precision is looked at where there are two classes.
        """
        train, test = self.scores(self.data.train[:, :SEEN]), self.scores(self.data.test)
        mine, others = self.data.train_codes[:SEEN], self.data.test_codes
        return [
            (
                float((codes_of(seen) == mine).mean()),
                float((codes_of(unseen) == others).mean()),
                self._precision(unseen, others),
                self._precision(seen, mine),
            )
            for seen, unseen in zip(train, test, strict=True)
        ]

    def _precision(self, scores: NDArray[np.float32], codes: NDArray[np.int64]) -> float:
        return float(average_precision_score(codes, scores[:, 0])) if self.data.classes == 2 else math.nan

    def scores(self, rows: torch.Tensor) -> NDArray[np.float32]:
        """(settings, rows, scores) at exact sums, some rows at a time."""
        pieces = []
        with torch.no_grad():
            for start in range(0, rows.shape[1], 500):
                embedded = self.networks(rows[:, start : start + 500])
                sums = embedded.reshape(len(self.settings), self.parties, -1, self.embedding).sum(dim=1)
                pieces.append(torch.baddbmm(self.bias, sums, self.weight))
        found: NDArray[np.float32] = torch.cat(pieces, dim=1).numpy()
        return found


def _each(values: Sequence[float]) -> torch.Tensor:
    """One number for each run, before rows and coordinates."""
    return torch.tensor(values).float().reshape(-1, 1, 1)


def grid_of_runs(
    data: Data, settings: Sequence[Setting], *, seeds: Sequence[int], epochs: int, kept: Path | None = None
) -> dict[Setting, list[Curve]]:
    """A curve of every setting for every seed; settings of one kind are trained side by side.

    What lies in the folder `kept` is not trained again.
    """
    found: dict[Setting, list[Curve]] = {setting: [] for setting in settings}
    for seed in seeds:
        for kind in dict.fromkeys(setting.kind for setting in settings):
            together = [setting for setting in settings if setting.kind == kind]
            path = kept and kept / f"{data.train.shape[0]}-{kind}-{epochs}-{seed}.json"
            if path and path.exists():
                curves = [Curve(*map(tuple, each)) for each in json.loads(path.read_text())]
            else:
                curves = list(Runs(data, together, seed=seed).epochs(epochs).values())
                if path:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps([astuple(curve) for curve in curves]))
            for setting, curve in zip(together, curves, strict=True):
                found[setting].append(curve)
    return found
