"""The discrete Gaussian as normal noise that was rounded at random: its second route to ε.

D(σ²) on the integers is, up to a total-variation distance, N(0, σ² − s²) whose value y is then replaced by an integer k
with probability proportional to exp(−(k − y)²/2s²). That rounding commutes with integer shifts, so a release with D(σ²)
on every entry is post-processing of one with N(0, σ² − s²), and costs what normal noise costs. The distance is below
2⁻¹¹² an entry at s² = 4 (docs/proofs/rounded-normal.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from colonnade.privacy.composition import Items, Leaf
from colonnade.privacy.events import COARSE_BITS, FINE_BITS, FINEST_BITS, PoissonSampled
from colonnade.privacy.leaves import DiscreteGaussian, Gaussian, Number

ROUNDING_VARIANCES = {COARSE_BITS: 4, FINE_BITS: 36, FINEST_BITS: 108}
"""s² by the bits of the samplers that it goes with, or more: 2·exp(−2π²s²) is below 2^−(bits + 12).

The last is for s² = 72: the event of a matrix has 36 less already, and needs twice s² less in all
(docs/proofs/rounded-normal.md).
"""
_SPARE_BITS = 12
_ROOT_BITS = 128


def rounded_normals(items: Items) -> Iterator[Items]:
    """The same releases with normal noise in place of discrete Gaussians, and the distance that this adds.

    One for each rounding, the one that leaves more noise first; none unless all noise is normal or discrete Gaussian
    on a known number of entries, with more variance than the rounding takes.
    """
    for bits, taken in ROUNDING_VARIANCES.items():
        rounded = _rounded(items, taken, Fraction(1, 2 ** (bits + _SPARE_BITS)))
        if rounded is not None:
            yield rounded


def _rounded(items: Items, taken: int, distance: Fraction) -> Items | None:
    leaves: dict[Leaf, int] = {}
    entries = 0
    for leaf, times in items.leaves:
        inner = leaf.event if isinstance(leaf, PoissonSampled) else leaf
        if isinstance(inner, DiscreteGaussian) and inner.coordinates is not None:
            if inner.sigma_squared <= taken:
                return None
            entries += times * inner.coordinates
            inner = Gaussian(inner.sensitivity, root_below(Fraction(inner.sigma_squared) - taken))
        elif not isinstance(inner, Gaussian):
            return None
        # A mixture over secret samples is rounded as each of its parts is.
        replaced: Leaf = PoissonSampled(leaf.rate, inner) if isinstance(leaf, PoissonSampled) else inner
        leaves[replaced] = leaves.get(replaced, 0) + times
    if not entries:
        return None
    return Items(frozenset(leaves.items()), items.draws + entries, items.total_variation + entries * distance)


def root_below(square: Number) -> Fraction:
    """A fraction that is at most the square root, and less than one part in 2¹²⁰ below it."""
    exact = Fraction(square)
    scale = 1 << max(0, _ROOT_BITS - (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2)
    return Fraction(math.isqrt(exact.numerator * scale**2 // exact.denominator), scale)
