"""Poisson subsampling of one release with symmetric additive noise.

Each record is in the sample with probability q, independently, and the observer learns nothing about the sample.
Between "the record's row is there" and "it is the zero row", the outputs are (1 − q)Q + qP and Q, where P and Q are
the laws without sampling. Expanding the power gives, for an integer order α,

    D_α((1 − q)Q + qP ‖ Q) = log(Σ_ℓ C(α, ℓ) (1 − q)^(α−ℓ) q^ℓ e^((ℓ−1) D_ℓ(P‖Q))) / (α − 1),

and when x ↦ shift − x swaps P and Q the other direction is no larger (docs/proofs/subsampling.md). Without that
symmetry the known bound carries a further factor: Zhu and Wang, "Poisson Subsampled Rényi Differential Privacy"
(ICML 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from colonnade.privacy.special import log_sum

LARGEST_SAMPLED_ORDER = 1024.0


def sampled_renyi(rate: float, divergence: Callable[[float], float], order: float) -> float:
    """D_α after sampling at this rate, from the divergences ℓ ↦ D_ℓ(P‖Q) without it; infinite past order 1024."""
    whole = math.ceil(order)
    if whole > LARGEST_SAMPLED_ORDER:
        return math.inf
    if rate == 0:
        return 0.0
    if rate == 1:
        return divergence(float(whole))
    from scipy.special import gammaln

    powers = np.arange(2, whole + 1, dtype=np.float64)
    exponents = (powers - 1) * np.array([divergence(float(power)) for power in powers])
    weights = (
        gammaln(whole + 1)
        - gammaln(powers + 1)
        - gammaln(whole - powers + 1)
        + powers * math.log(rate)
        + (whole - powers) * math.log1p(-rate)
    )
    # The weights of all ℓ sum to 1, and those of 0 and 1 carry a factor e⁰: only the excess over 1 is summed, so
    # that a small divergence keeps its digits.
    with np.errstate(divide="ignore"):
        excess = log_sum(weights + exponents + np.log(-np.expm1(-exponents)))
    return float(np.logaddexp(0.0, excess)) / (whole - 1)
