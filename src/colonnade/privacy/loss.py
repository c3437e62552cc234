"""Privacy loss distributions: the exact way leaves with known laws compose, on dp-accounting's arithmetic.

Each leaf's hockey-stick curve is sampled on a grid of losses and joined pessimistically ("Connect the Dots",
Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, arXiv 2207.04380v1); the grids are convolved. What a Fourier
transform can lose in double arithmetic is taken out of δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from colonnade.numbers.threads import one_thread
from colonnade.privacy.composition import Items
from colonnade.privacy.hockey_stick import Curve, curves_of
from colonnade.privacy.leaves import PerStep, PoissonBinomial

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

LEAST_DELTA = 1e-12
_GRID = 2.0**15
_LONGEST_GRID = 2.0**17
_MOST_VALUES = 2.0**23
_MOST_CURVES = 24
_MOST_TIMES = 10**5
_ROOT = 1e-13
_LARGEST_EPSILON = 2.0**13
"""Beyond every loss on a grid: what is left there has no finite loss."""
_LARGEST_REACH = 600.0
"""Beyond this e^ε leaves the range of doubles; other routes do as well there."""


@dataclass(frozen=True)
class LossDistribution:
    """The loss in each direction, and how much of δ the arithmetic may have lost."""

    directions: tuple[PLDPmf, ...]
    lost: float
    scale: float
    """Roughly the ε that will be asked about: where to look first."""

    def epsilon(self, delta: float) -> float:
        """The least ε at this δ; infinite if the arithmetic is not fine enough for it."""
        inside = delta - self.lost
        if inside <= 0:
            return math.inf
        with one_thread():
            return max(_least_epsilon(pmf, inside, self.scale) for pmf in self.directions)

    def delta(self, epsilon: float) -> float:
        """The least δ at this ε."""
        with one_thread():
            return max(float(pmf.get_delta_for_epsilon(epsilon)) for pmf in self.directions) + self.lost


def loss_distribution(items: Items, scale: float) -> LossDistribution | None:
    """The loss of all these leaves together, if each has a curve; `scale` is a rough ε, from a quicker route."""
    if any(isinstance(leaf, PerStep) and leaf.discrete for leaf, _ in items.leaves):
        return None  # no curve is proved for these, and a long schedule is slow to put in order
    # Scales within a factor of two share a grid, so that nearby questions share an answer.
    return _distribution(items, 2.0 ** math.ceil(math.log2(scale))) if 1e-6 < scale < 1e6 else None


@lru_cache(maxsize=32)
def _distribution(items: Items, scale: float) -> LossDistribution | None:
    curves: list[tuple[Curve, int]] = []
    # Poisson binomials last: their curves take longest, and another leaf may have none.
    for leaf, times in sorted(
        items.leaves, key=lambda item: (isinstance(item[0], PoissonBinomial), repr(item))
    ):
        of_leaf = curves_of(leaf)
        if of_leaf is None:
            return None
        curves.extend((curve, times * count) for curve, count in of_leaf)
    curves = [(curve, count) for curve, count in curves if curve.reach > 0]
    count = sum(count for _, count in curves)
    if (
        not 0 < count <= _MOST_TIMES
        or len(curves) > _MOST_CURVES
        or max(c.reach for c, _ in curves) > _LARGEST_REACH
    ):
        return None
    interval = max(
        scale / _GRID,
        *(2 * curve.reach / _LONGEST_GRID for curve, _ in curves),
        *(2 * curve.reach * curve.width / _MOST_VALUES for curve, _ in curves),
    )
    forward = [(_grid(curve, interval, backward=False), count) for curve, count in curves]
    directions = [_convolve(forward)]
    if any(curve.forward is not curve.backward for curve, _ in curves):
        directions.append(
            _convolve([(_grid(curve, interval, backward=True), count) for curve, count in curves])
        )
    length = max(pmf.size for pmf in directions)
    # A transform of length n is off by at most 4u·log₂ n of the 2-norm, a k-th power by k times that, and the
    # 1-norm of the error is at most √n times its 2-norm.
    lost = count * math.sqrt(length) * 4 * 2.0**-53 * math.log2(length + 2)
    return LossDistribution(tuple(directions), lost, scale)


def _least_epsilon(pmf: PLDPmf, delta: float, near: float) -> float:
    """The least ε at this δ, rounded up: a root of the curve, looked for around `near` with few sums over the grid.

    The library's own answer walks over the grid in Python, a hundred times slower.
    """

    @cache
    def above(epsilon: float) -> float:
        # Logarithms of δ lie near a parabola, whose root is soon found.
        return math.log(max(float(pmf.get_delta_for_epsilon(epsilon)), LEAST_DELTA**2) / delta)

    low, high = near / 2, near
    while above(high) > 0:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return math.inf
    while low > 0 and above(low) <= 0:
        low, high = (low / 2 if low > near / 64 else 0.0), low
    from scipy.optimize import brentq

    epsilon = low if above(low) <= 0 else float(brentq(above, low, high, xtol=_ROOT, rtol=_ROOT))
    slack = _ROOT
    while float(pmf.get_delta_for_epsilon(epsilon)) > delta:
        epsilon, slack = epsilon + slack, 2 * slack
    return epsilon


def _grid(curve: Curve, interval: float, *, backward: bool) -> PLDPmf:
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap

    reach = math.ceil(curve.reach / interval)
    epsilons = np.arange(-reach, reach + 1, dtype=np.float64) * interval
    deltas = np.clip((curve.backward if backward else curve.forward)(epsilons), 0.0, 1.0)
    return create_pmf_pessimistic_connect_dots_fixed_gap(interval, -reach, reach, deltas).to_dense_pmf()


def _convolve(parts: list[tuple[PLDPmf, int]]) -> PLDPmf:
    truncation = 1e-15
    composed = [pmf.self_compose(count, truncation) if count > 1 else pmf for pmf, count in parts]
    total = composed[0]
    for pmf in composed[1:]:
        total = total.compose(pmf, truncation)
    return total
