"""A mixture of products fitted to the margins of a release, and synthetic people drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from colonnade.data.levels import LevelKind
from colonnade.errors import NotConverged
from colonnade.models.tables.margins import Margins
from colonnade.numbers.threads import one_thread
from colonnade.randomness import Randomness, SeededRandomness

Floats = NDArray[np.float32]
Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

COMPONENTS = 300
STEPS = 800
RATE = 0.1
ENOUGH = 0.85
"""Of the residual that the noise alone would leave: there the fit stops."""
LABEL_WEIGHT = 4.0
"""How much more the sums by class count than their noise alone says: what is learnt later rests on them."""
_AFTER = 40
_LEAST_NOISE = 1e-4


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted mixture: for each component, the probabilities of the levels of every column and of the classes.

    Residuals are mean square distances to the release in units of its noise; `start` is that of unrelated columns.
    """

    levels: tuple[Array, ...]
    classes: Array
    steps: int
    residual: float
    label_residual: float
    start: float

    @property
    def reached(self) -> bool:
        """Whether nothing but noise is left."""
        return self.residual <= 1.0 and self.label_residual <= 1.0


@one_thread()  # People are drawn from it by chance: a difference in the last digit makes other people.
def fit_mixture(
    margins: Margins,
    *,
    components: int = COMPONENTS,
    steps: int = STEPS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """The mixture nearest to these margins; `NotConverged` where it comes no nearer than columns without relations."""
    state = _State(margins, components, seed)
    left: int | None = None
    step, gram, label, first = 0, np.inf, np.inf, 0.0
    for step in range(1, steps + 1):
        gram, label, gradient = state.loss()
        if step == 1:
            first = gram
        if not np.isfinite(gram):
            break
        if left is None and gram <= ENOUGH and label <= ENOUGH:
            left = _AFTER
        if left is not None:
            left -= 1
            if left <= 0:
                break
        state.descend(gradient, step, RATE if left is None else 0.3 * RATE)
        if progress is not None and step % 20 == 0:
            progress("fit", step, steps)
    if progress is not None:
        progress("fit", steps, steps)
    if not np.isfinite(gram) or (gram > 1.0 and gram > 0.9 * first):
        raise NotConverged(
            f"no table fits this release: after {step} steps the distance is {gram:.3g} of what its noise would leave, "
            f"and was {first:.3g} for columns that have nothing to do with each other. Select fewer columns, or merge "
            "rare levels in the next release."
        )
    levels, classes = state.found()
    return Fit(levels, classes, step, float(gram), float(label), float(first))


class _State:
    """Logarithms of the probabilities, what they are fitted to, and Adam's two averages."""

    def __init__(self, margins: Margins, components: int, seed: int) -> None:
        people = margins.people
        widths = [len(column.levels) for column in margins.columns]
        self._starts = np.concatenate([[0], np.cumsum([*widths])]).astype(np.intp)
        self._levels = int(sum(widths))
        self._size = components
        self._codes: Floats = block_diag(*(column.codes for column in margins.columns)).astype(np.float32)
        self._targets = (margins.grams / people).astype(np.float32)
        self._sums = (margins.sums / people).astype(np.float32)
        shares = np.clip(margins.counts / people, 1e-3, None)
        self._shares = (shares / shares.sum()).astype(np.float32)
        self._between = _between([column.codes.shape[1] for column in margins.columns])
        # Without noise there is nothing to stop at; a share of 1e-4 is below what anybody asks of a table.
        noise = max(margins.noise / people, _LEAST_NOISE)
        ratio = margins.sum_noise / margins.noise if margins.noise else 1.0
        # One column has nothing beside it, and no distance.
        pairs = max(float(self._between.sum()), 1.0)
        self._gram_noise = pairs * len(margins.grams) * noise**2
        self._label_noise = self._sums.size * (ratio * noise) ** 2
        # Each unordered pair stands twice in a Gram matrix, so a sum counts twice to count as much.
        self._label_weight = 2.0 * LABEL_WEIGHT / ratio**2
        self._count_weight = 4.0 / ratio**4
        self._conditional = margins.conditional
        self.logits = self._initial(margins, seed)
        self._first = np.zeros_like(self.logits)
        self._second = np.zeros_like(self.logits)

    def _initial(self, margins: Margins, seed: int) -> Floats:
        """The one-way margins for every component, moved at random so that components can part."""
        randomness = SeededRandomness(f"mixture {seed}")
        size = (self._size, self._levels + len(margins.counts))
        uniform = (
            (randomness.words(2 * size[0] * size[1]) >> np.uint64(12)).astype(np.float64) + 0.5
        ) * 2.0**-52
        one, two = uniform.reshape(2, *size)
        logits = np.sqrt(-2.0 * np.log(one)) * np.cos(2.0 * np.pi * two)
        for place, (start, stop) in enumerate(zip(self._starts[:-1], self._starts[1:], strict=True)):
            shares, _ = margins.level_shares(place)
            least = 0.3 / len(shares) / (1.0 + margins.people / 1e4)
            shares = np.maximum(shares, least)
            logits[:, start:stop] += np.log(shares / shares.sum())
        logits[:, self._levels :] += np.log(self._shares)
        return logits.astype(np.float32)

    def loss(self) -> tuple[float, float, Floats]:
        """Both residuals in units of noise, and the gradient by the logarithms."""
        probable = self._probabilities()
        levels, classes = probable[:, : self._levels], probable[:, self._levels :]
        features = levels @ self._codes
        by_feature = np.zeros_like(features)
        slopes = np.zeros_like(probable)
        gram = 0.0
        for kind, target in enumerate(self._targets):
            weighted = features * classes[:, kind : kind + 1] if self._conditional else features
            rest = (weighted.T @ features / self._size - target) * self._between
            gram += float((rest**2).sum())
            pulled = features @ rest
            if self._conditional:
                by_feature += 2.0 * classes[:, kind : kind + 1] * pulled
                slopes[:, self._levels + kind] += (features * pulled).sum(axis=1)
            else:
                by_feature += 2.0 * pulled
        off = classes.T @ features / self._size - self._sums
        by_feature += self._label_weight * (classes @ off)
        slopes[:, self._levels :] += self._label_weight * (features @ off.T)
        slopes[:, self._levels :] += self._count_weight * (classes.mean(axis=0) - self._shares)
        slopes[:, : self._levels] = by_feature @ self._codes.T
        label = float((off**2).sum())
        return gram / self._gram_noise, label / self._label_noise, self._back(probable, slopes)

    def descend(self, gradient: Floats, step: int, rate: float) -> None:
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.01 * (gradient * gradient - self._second)
        mean = self._first / (1.0 - 0.9**step)
        size = np.sqrt(self._second / (1.0 - 0.99**step)) + 1e-12
        self.logits -= np.float32(rate) * mean / size

    def found(self) -> tuple[tuple[Array, ...], Array]:
        """The probabilities of levels by column, and of classes."""
        probable = self._probabilities().astype(np.float64)
        pairs = zip(self._starts[:-1], self._starts[1:], strict=True)
        return tuple(probable[:, start:stop] for start, stop in pairs), probable[:, self._levels :]

    def _probabilities(self) -> Floats:
        highest = np.maximum.reduceat(self.logits, self._starts, axis=1)
        powers = np.exp(self.logits - self._spread(highest))
        return np.asarray(powers / self._spread(np.add.reduceat(powers, self._starts, axis=1)))

    def _back(self, probable: Floats, slopes: Floats) -> Floats:
        weighted = probable * slopes
        return np.asarray(weighted - probable * self._spread(np.add.reduceat(weighted, self._starts, axis=1)))

    def _spread(self, by_block: Floats) -> Floats:
        widths = np.diff(np.append(self._starts, self._levels + len(self._shares)))
        return np.repeat(by_block, widths, axis=1)


def _between(widths: list[int]) -> Floats:
    """1 between two columns, 0 within one: what a column is with itself, its own shares say."""
    owner = np.repeat(np.arange(len(widths)), widths)
    return np.asarray(owner[:, None] != owner[None, :], dtype=np.float32)


Codes = NDArray[np.int32]
_PIECE = 1 << 16


def draw_levels(
    fit: Fit, rows: int, randomness: Randomness, progress: Progress | None = None
) -> tuple[list[Codes], Codes]:
    """Levels of so many people by column, and their classes; components are taken in turn, as often each as can be."""
    components = len(fit.classes)
    order = np.argsort(_uniform(randomness, rows), kind="stable")
    chosen = (order % components).astype(np.int32)
    blocks = [*fit.levels, fit.classes]
    drawn = [np.empty(rows, dtype=np.int32) for _ in blocks]
    for start in range(0, rows, _PIECE):
        part = slice(start, min(start + _PIECE, rows))
        for target, block in zip(drawn, blocks, strict=True):
            upto = np.cumsum(block, axis=1)[:, :-1]
            places = _uniform(randomness, part.stop - part.start)
            target[part] = (places[:, None] >= upto[chosen[part]]).sum(axis=1)
        if progress is not None:
            progress("draw", part.stop, rows)
    return drawn[:-1], drawn[-1]


def values_of_levels(column: LevelKind, codes: Codes, randomness: Randomness) -> NDArray[Any]:
    """Values as the party that holds the column would write them: numbers within a bin, levels as declared."""
    return column.written(codes, lambda count: _uniform(randomness, count))


def _uniform(randomness: Randomness, count: int) -> Array:
    return (randomness.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
