"""Pure differential privacy: the largest loss any output can show, where there is one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import assert_never

from colonnade.privacy.composition import Items, Leaf
from colonnade.privacy.conversion import float_above, round_up
from colonnade.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixSkellam,
    PerStep,
    PoissonBinomial,
    PoissonSampled,
    Skellam,
)
from colonnade.privacy.poisson_binomial import pure_loss


def pure_epsilon(items: Items) -> float:
    """ε at δ = 0, rounded up: losses add up, infinite if any leaf's loss is unbounded.

    >>> from colonnade.privacy.composition import itemise
    >>> pure_epsilon(itemise(Laplace(sensitivity=1, scale=2)))
    0.5
    """
    exact = sum((times * _exact_loss(leaf) for leaf, times in items.leaves), Fraction(0))
    inexact = math.fsum(times * _inexact_loss(leaf) for leaf, times in items.leaves)
    return float_above(exact) if inexact == 0 else round_up(float(exact) + inexact)


def _exact_loss(leaf: Leaf) -> Fraction:
    """The part of a leaf's loss that is a fraction."""
    match leaf:
        case Laplace():
            return Fraction(leaf.sensitivity) / Fraction(leaf.scale)
        case DiscreteLaplace():
            return math.floor(leaf.sensitivity) / Fraction(leaf.scale)
        case _:
            return Fraction(0)


def _inexact_loss(leaf: Leaf) -> float:
    """The part of a leaf's loss that is not."""
    match leaf:
        case Gaussian() | DiscreteGaussian():
            return math.inf if leaf.sensitivity else 0.0
        case PerStep():
            return math.inf if any(leaf.sensitivities) else 0.0
        case Skellam():
            return math.inf if leaf.l1 and leaf.l2 else 0.0
        case MatrixSkellam():
            return math.inf if leaf.change.frobenius else 0.0
        case Laplace() | DiscreteLaplace():
            return 0.0
        case PoissonBinomial():
            return pure_loss(leaf)
        case PoissonSampled():
            inner: Leaf = leaf.event  # type: ignore[assignment]
            return _sampled_loss(float(leaf.rate), float(_exact_loss(inner)) + _inexact_loss(inner))
    assert_never(leaf)


def _sampled_loss(rate: float, loss: float) -> float:
    """log(1 − q + q e^ε): the mixture's likelihood ratio at its largest."""
    return math.log1p(rate * math.expm1(loss)) if loss < 700 else loss
