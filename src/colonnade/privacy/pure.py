"""Pure differential privacy: the largest loss any output can show, where there is one."""

from __future__ import annotations

import math
from fractions import Fraction

from colonnade.privacy.composition import Items, Leaf
from colonnade.privacy.conversion import float_above, round_up
from colonnade.privacy.leaves import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixSkellam,
    PerStep,
    PoissonBinomial,
    Skellam,
)
from colonnade.privacy.poisson_binomial import pure_loss


def pure_epsilon(items: Items) -> float:
    """ε at δ = 0, rounded up: losses add up, infinite if any leaf's loss is unbounded."""
    exact = sum((times * _exact_loss(leaf) for leaf, times in items.leaves), Fraction(0))
    inexact = math.fsum(times * _inexact_loss(leaf) for leaf, times in items.leaves)
    return float_above(exact) if inexact == 0 else round_up(float(exact) + inexact)


def _exact_loss(leaf: Leaf) -> Fraction:
    match leaf:
        case Laplace():
            return Fraction(leaf.sensitivity) / Fraction(leaf.scale)
        case DiscreteLaplace():
            return math.floor(leaf.sensitivity) / Fraction(leaf.scale)
        case _:
            return Fraction(0)


def _inexact_loss(leaf: Leaf) -> float:
    """The part of a leaf's loss that is not; after the cases, a sample of a leaf is left."""
    match leaf:
        case Gaussian():
            return math.inf if leaf.sensitivity else 0.0
        # A vector of integers shorter than 1 is zero.
        case DiscreteGaussian():
            return math.inf if leaf.sensitivity >= 1 else 0.0
        case PerStep():
            least = 1 if leaf.discrete else 0
            return (
                math.inf
                if any(sensitivity and sensitivity >= least for sensitivity in leaf.sensitivities)
                else 0.0
            )
        case Skellam():
            return math.inf if min(leaf.l1, leaf.l2) >= 1 else 0.0
        case MatrixSkellam():
            return math.inf if leaf.change.frobenius >= 1 else 0.0
        case Laplace() | DiscreteLaplace():
            return 0.0
        case PoissonBinomial():
            return pure_loss(leaf)
    inner: Leaf = leaf.event  # type: ignore[assignment]
    return _sampled_loss(float(leaf.rate), float(_exact_loss(inner)) + _inexact_loss(inner))


def _sampled_loss(rate: float, loss: float) -> float:
    """log(1 − q + q e^ε): the mixture's likelihood ratio at its largest."""
    return math.log1p(rate * math.expm1(loss)) if loss < 700 else loss
