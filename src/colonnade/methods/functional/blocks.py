"""The dissection of a quadratic objective among parties, and the noise of each block of coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise, PolyaNoise
from colonnade.noise.skellam import SkellamNoise
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import COARSE_BITS, DiscreteLaplace, Event, itemise
from colonnade.privacy.renyi import pure_epsilon
from colonnade.privacy.sensitivity.functional import CoefficientChange
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.protocols import dealt_noise
from colonnade.protocols.dealt_noise import DealtNoise
from colonnade.runtime.party import Group

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CoefficientBlock:
    """The coefficients of one party, or of two together: products of columns `left` and `right`, left ≤ right."""

    owners: tuple[str, ...]
    left: Positions
    right: Positions

    @property
    def name(self) -> str:
        return "+".join(self.owners)

    @property
    def kind(self) -> str:
        return "single-party" if len(self.owners) == 1 else "cross-party"

    @property
    def size(self) -> int:
        return len(self.left)


@dataclass(frozen=True)
class Dissection:
    """Columns are dealt owner by owner: features, and after the label holder's the constant and the label."""

    owners: tuple[str, ...]
    widths: tuple[int, ...]
    holder: str
    intercept: bool

    @cached_property
    def dealt(self) -> dict[str, int]:
        extra = {self.holder: 1 + self.intercept}
        return {
            owner: width + extra.get(owner, 0) for owner, width in zip(self.owners, self.widths, strict=True)
        }

    @property
    def columns(self) -> int:
        return sum(self.dealt.values())

    @cached_property
    def features_of(self) -> dict[str, Positions]:
        starts = np.cumsum([0, *self.dealt.values()])
        return {
            owner: np.arange(start, start + width)
            for owner, start, width in zip(self.owners, starts.tolist(), self.widths, strict=False)
        }

    @cached_property
    def features(self) -> Positions:
        return np.concatenate(list(self.features_of.values()))

    @property
    def constant(self) -> int | None:
        return self.label - 1 if self.intercept else None

    @cached_property
    def label(self) -> int:
        names = list(self.dealt)
        return sum(self.dealt[owner] for owner in names[: names.index(self.holder) + 1]) - 1

    @cached_property
    def blocks(self) -> tuple[CoefficientBlock, ...]:
        """Single-party blocks in the order of the owners, then cross-party ones; none is empty."""
        blocks = [self._single(owner) for owner in self.owners]
        for pair in combinations(self.owners, 2):
            sides = [
                self.features_of[owner].tolist() + [self.label] * (owner == self.holder) for owner in pair
            ]
            left, right = (side.ravel() for side in np.meshgrid(*sides, indexing="ij"))
            blocks.append(_block(pair, [left], [right]))
        return tuple(block for block in blocks if block.size)

    @cached_property
    def opened(self) -> Positions:
        """Where the coefficients of all blocks, block by block, stand in the upper triangle read row by row."""
        left, right = self._places
        return np.asarray(left * self.columns - left * (left - 1) // 2 + (right - left), dtype=np.int64)

    @property
    def _places(self) -> tuple[Positions, Positions]:
        left, right = zip(*((block.left, block.right) for block in self.blocks), strict=True)
        return np.concatenate(left), np.concatenate(right)

    @property
    def coefficients(self) -> int:
        return sum(block.size for block in self.blocks)

    def matrix(self, coefficients: NDArray[np.int64]) -> NDArray[np.int64]:
        left, right = self._places
        matrix = np.zeros((self.columns, self.columns), dtype=np.int64)
        matrix[left, right] = coefficients
        matrix[right, left] = coefficients
        return matrix

    def _single(self, owner: str) -> CoefficientBlock:
        mine = self.features_of[owner]
        above = np.triu_indices(len(mine))
        left, right = [mine[above[0]]], [mine[above[1]]]
        borders = [self.constant] if self.constant is not None else []
        if owner == self.holder:
            borders.append(self.label)
            if self.constant is not None:
                left.append(np.array([self.constant]))
                right.append(np.array([self.label]))
        for border in borders:
            left.append(mine)
            right.append(np.full(len(mine), border))
        return _block((owner,), left, right)


def _block(owners: tuple[str, ...], left: list[Positions], right: list[Positions]) -> CoefficientBlock:
    one, other = np.concatenate(left).astype(np.int64), np.concatenate(right).astype(np.int64)
    return CoefficientBlock(owners, np.minimum(one, other), np.maximum(one, other))


Law = Literal["laplace", "gaussian", "skellam"]
DISTRIBUTIONS: tuple[Law, ...] = ("laplace", "gaussian", "skellam")

# A whole discrete Laplace is past so many scales with probability e^-75: then a coefficient may wrap around in the
# field, which spoils the model and, being a function of what is opened, no guarantee.
_FAR_IN_SCALES = 75


@dataclass(frozen=True)
class BlockNoise:
    """`parameter` is the scale of a Laplace law, the variance of a discrete Gaussian, or the μ of a Skellam law."""

    law: Law
    parameter: Fraction
    bits: int = COARSE_BITS

    @property
    def is_laplace(self) -> bool:
        return self.law == "laplace"

    def finer(self, bits: int) -> BlockNoise:
        return replace(self, bits=bits) if self.law == "gaussian" else self

    @property
    def dealt(self) -> DealtNoise:
        """As noise that is dealt in parts of which a sum is known; not for a Laplace law."""
        if self.law == "skellam":
            return DealtNoise(self.law, 2 * self.parameter)
        if self.law == "gaussian":
            return DealtNoise(self.law, self.parameter, self.bits)
        raise PlanError("parts of discrete Laplace noise have a law of their own")

    @cached_property
    def whole(self) -> DiscreteLaplaceNoise | DiscreteGaussianNoise | SkellamNoise:
        return DiscreteLaplaceNoise(self.parameter) if self.is_laplace else self.dealt.vector

    def part(self, group: Group) -> DiscreteLaplaceNoise | PolyaNoise | DiscreteGaussianNoise | SkellamNoise:
        return self.whole.part(group.honest_owners if self.is_laplace else group.whole)

    def dealers(self, group: Group) -> tuple[str, ...]:
        return group.owners if self.is_laplace else group.dealers

    def extent(self, group: Group) -> int:
        part = self.part(group)
        each = (
            math.ceil(_FAR_IN_SCALES * part.scale) if isinstance(part, DiscreteLaplaceNoise) else part.support
        )
        return len(self.dealers(group)) * each

    def event(self, change: CoefficientChange, group: Group, *, entries: int, known: int) -> Event:
        if self.is_laplace:
            # t owners' parts may be known whatever else was agreed; fewer known are no less than a whole either.
            known = max(known, group.threshold)
            owners, honest = len(group.owners), group.honest_owners
            return DiscreteLaplaceNoise(self.parameter).event(
                change.l1, known=known, parts=owners, of=honest, entries=entries
            )
        return self.dealt.vector_event(
            VectorChange(change.l1, change.l2), group, entries=entries, known=known
        )

    def variance(self, group: Group) -> float:
        if not self.is_laplace:
            return float(self.dealt.total_variance(group))
        rate = float(1 / self.parameter)
        whole = 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2
        return whole * len(group.owners) / group.honest_owners

    def __str__(self) -> str:
        named = {
            "laplace": "discrete Laplace of scale",
            "gaussian": "discrete Gaussian of σ² =",
            "skellam": "Skellam of μ =",
        }
        return f"{named[self.law]} {float(self.parameter):.6g}"

    def to_data(self) -> dict[str, Any]:
        fine = {"bits": self.bits} if self.law == "gaussian" else {}
        return {"law": self.law, "parameter": str(self.parameter), **fine}


def least_noise(
    distributions: tuple[Law, ...],
    change: CoefficientChange,
    group: Group,
    *,
    entries: int,
    epsilon: float,
    delta: float,
    bits: int = COARSE_BITS,
) -> BlockNoise:
    """Whichever law adds less variance to an opened coefficient; one that cannot be drawn on this grid is not a choice.

    Laplace noise is calibrated to its pure ε, whatever δ is.
    """

    def calibrated(law: Law) -> BlockNoise:
        if law == "laplace":
            scale = calibrate(lambda scale: DiscreteLaplace(change.l1, scale), epsilon=epsilon, delta=0.0)
            laplace = BlockNoise(law, scale)
            laplace.part(group)  # refuses what no table can draw
            return laplace
        noise = dealt_noise.least_noise(
            lambda noise: noise.vector_event(VectorChange(change.l1, change.l2), group, entries=entries),
            epsilon=epsilon,
            delta=delta,
            drawn=lambda noise: noise.vector.part(group.whole),
            distributions=(law,),
            bits=bits,
        )
        return BlockNoise(law, noise.variance / 2 if law == "skellam" else noise.variance, noise.bits)

    noises, refused = [], PlanError("no law of noise was named")
    for law in distributions:
        try:
            noises.append(calibrated(law))
        except PlanError as error:
            refused = error
    if not noises:
        raise refused
    return min(noises, key=lambda noise: noise.variance(group))


def truncation_delta(events: tuple[Event, ...], delta: float) -> float:
    """The δ at which a pure ε is stated: four times (1 + e^ε) per truncated draw leaves `account` its room."""
    needed = 0.0
    for event in events:
        items = itemise(event)
        if items.draws:
            growth = 1.0 + math.exp(min(pure_epsilon(items), 700.0))
            needed = max(needed, 4.0 * float(items.total_variation) * growth)
    return min(needed, delta)
