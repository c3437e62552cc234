"""Many runs of PBM-VFL's algorithm side by side: `split_training.Trainer` for a list of settings and seeds at once.

A run is the same as it would be alone, but for its noise; together they take a fifth of the time.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import nn

from colonnade.methods.network.fusion import targets_of
from colonnade.methods.network.parts import loss_of
from colonnade.randomness import SystemRandomness, public_permutation
from reproduction.split_training import BATCH, EMBEDDING, RATE, Curve, Data, DenseParties, Setting

# Compiled functions are untyped to those who check types.
njit: Any = importlib.import_module("numba").njit
SEEN = 2000
"""So many training rows are looked at after every epoch."""
BITS = 16
"""Probabilities are multiples of 2⁻¹⁶ here. Nothing is released, so the law need not be the library's exact one."""


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
    """Dense networks of two classes, for every setting and every seed; the settings send in one kind of way."""

    def __init__(self, data: Data, settings: Sequence[Setting], seeds: Sequence[int]) -> None:
        if data.classes != 2 or data.image is not None:
            raise ValueError("runs side by side are for dense networks and two classes")
        if len({each.kind for each in settings}) != 1:
            raise ValueError("runs side by side send in one kind of way")
        self.data, self.settings, self.seeds = data, tuple(settings), tuple(seeds)
        self.parties, _, numbers = data.train.shape
        self.models = len(self.settings) * len(self.seeds)
        self.networks = DenseParties(self.models * self.parties, numbers)
        self.weight = nn.Parameter(torch.empty(self.models, EMBEDDING, 1))
        self.bias = nn.Parameter(torch.empty(self.models, 1, 1))
        self._begin(numbers)
        self.loss = loss_of(2)
        self.targets = torch.tensor(targets_of(data.train_codes, 2), dtype=torch.float32)
        every = [*self.networks.parameters(), self.weight, self.bias]
        self.optimiser = torch.optim.SGD(every, lr=RATE)
        self._state = SystemRandomness().words(1)

    def _begin(self, numbers: int) -> None:
        """Every seed's first weights, the same for all settings, as `Trainer` draws them."""
        firsts, fusions = [], []
        for seed in self.seeds:
            torch.manual_seed(seed)
            firsts.append(DenseParties(self.parties, numbers))
            fusions.append(nn.Linear(EMBEDDING, 1))
        times = len(self.settings)
        with torch.no_grad():
            mine = list(self.networks.parameters())
            for place, parameter in enumerate(mine):
                stacked = torch.cat([list(first.parameters())[place] for first in firsts])
                parameter.copy_(stacked.repeat(times, 1, 1))
            self.weight.copy_(torch.stack([each.weight.T for each in fusions]).repeat(times, 1, 1))
            self.bias.copy_(torch.stack([each.bias[None] for each in fusions]).repeat(times, 1, 1))

    def noisy(self, embedded: torch.Tensor) -> torch.Tensor:
        """What the servers make of (models, parties, rows, P): the estimates of their sums."""
        kind = self.settings[0].kind
        if kind == "npq":
            return embedded.sum(dim=1)
        if kind == "ldp":
            drawn = torch.randn(embedded.shape) * self._each(
                [s.deviation(self.parties) for s in self.settings]
            )
            return (embedded + drawn).sum(dim=1)
        betas = self._each([setting.beta for setting in self.settings])
        trials = self._each([setting.trials for setting in self.settings])[:, 0]
        shares = ((0.5 + betas * embedded) * (1 << BITS)).round().int().numpy()
        each = trials.flatten().long().numpy()
        counts = torch.from_numpy(summed_counts(shares, each, self._state)).float()
        return (counts - self.parties * trials / 2) / (betas[:, 0] * trials)

    def _each(self, values: Sequence[float]) -> torch.Tensor:
        """One number for each setting, for all its seeds."""
        return torch.tensor(values).repeat_interleave(len(self.seeds)).reshape(-1, 1, 1, 1).float()

    def step(self, rows: torch.Tensor) -> None:
        """One batch of each run, as in Algorithm 2; (seeds, rows) says who is in them."""
        taken = self.data.train[:, rows].permute(1, 0, 2, 3).flatten(0, 1)
        embedded = self.networks(taken.repeat(len(self.settings), 1, 1))
        shape = (self.models, self.parties, rows.shape[1], EMBEDDING)
        sums = self.noisy(embedded.detach().reshape(shape)).requires_grad_()
        self.optimiser.zero_grad()
        scores = torch.baddbmm(self.bias, sums, self.weight)
        targets = self.targets[rows].repeat(len(self.settings), 1, 1)
        lost: Any = self.loss(scores, targets.reshape(scores.shape)).mean(dim=(1, 2)).sum()
        lost.backward()
        found: Any = sums.grad
        torch.autograd.backward(embedded, found[:, None].expand(shape).reshape(embedded.shape))
        self.optimiser.step()

    def epochs(self, count: int) -> dict[Setting, list[Curve]]:
        """Train for so many epochs and look after each, at exact sums: a curve for every seed of a setting."""
        total = self.data.train.shape[1]
        looks = []
        for epoch in range(count):
            orders = torch.stack(
                [torch.from_numpy(public_permutation(total, seed + 1000 * epoch + 1)) for seed in self.seeds]
            )
            for start in range(0, total, BATCH):
                self.step(orders[:, start : start + BATCH])
            looks.append(self.look())
        curves = [
            Curve(*(tuple(look[model][place] for look in looks) for place in range(4)))
            for model in range(self.models)
        ]
        width = len(self.seeds)
        return {
            setting: curves[number * width : (number + 1) * width]
            for number, setting in enumerate(self.settings)
        }

    def look(self) -> list[tuple[float, float, float, float]]:
        """Of every run: accuracy on some training rows and on all test rows, average precision there and here."""
        train, test = self.scores(self.data.train[:, :SEEN]), self.scores(self.data.test)
        mine, others = self.data.train_codes[:SEEN], self.data.test_codes
        return [
            (
                float(((seen > 0) == mine).mean()),
                float(((unseen > 0) == others).mean()),
                float(average_precision_score(others, unseen)),
                float(average_precision_score(mine, seen)),
            )
            for seen, unseen in zip(train, test, strict=True)
        ]

    def scores(self, rows: torch.Tensor) -> NDArray[np.float32]:
        """(models, rows) at exact sums, some rows at a time."""
        pieces = []
        with torch.no_grad():
            for start in range(0, rows.shape[1], 500):
                embedded = self.networks(rows[:, start : start + 500].repeat(self.models, 1, 1))
                sums = embedded.reshape(self.models, self.parties, -1, EMBEDDING).sum(dim=1)
                pieces.append(torch.baddbmm(self.bias, sums, self.weight)[:, :, 0])
        found: NDArray[np.float32] = torch.cat(pieces, dim=1).numpy()
        return found


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
                trained = Runs(data, together, (seed,)).epochs(epochs)
                curves = [trained[setting][0] for setting in together]
                if path:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps([astuple(curve) for curve in curves]))
            for setting, curve in zip(together, curves, strict=True):
                found[setting].append(curve)
    return found
