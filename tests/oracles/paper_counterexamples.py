"""Figures that show where a paper's claim fails, computed from first principles."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import binom


def longest_rounding_of_a_flat_row(columns: int, gamma: int) -> int:
    """‖x̄‖² when every entry of γ(1, …, 1)/√n is rounded up."""
    return columns * math.ceil(gamma / math.sqrt(columns)) ** 2


def server_view_of_integer_masks(value: int, masks: int, parties: int) -> np.ndarray:
    """The law of q + Σ(u − u′), u and u′ uniform on 0 … b − 1, one pair for each other party.

    Position i stands for the number i − (M − 1)(b − 1).
    """
    uniform = np.full(masks, 1 / masks)
    law = np.ones(1)
    for _ in range(parties - 1):
        law = np.convolve(law, np.convolve(uniform, uniform))
    return np.concatenate([np.zeros(value), law, np.zeros(masks - value)])


def masked_total_variation(first: int, second: int, *, masks: int, parties: int) -> float:
    laws = [server_view_of_integer_masks(value, masks, parties) for value in (first, second)]
    return float(np.abs(laws[0] - laws[1]).sum() / 2)


def masked_certainty(first: int, second: int, *, masks: int, parties: int) -> float:
    """The largest probability of an event that the other value makes impossible."""
    laws = [server_view_of_integer_masks(value, masks, parties) for value in (first, second)]
    return float(max(laws[0][laws[1] == 0].sum(), laws[1][laws[0] == 0].sum()))


def most_uses(records: int, *, batch: int, steps: int, failure: float) -> int:
    """The least count that, with this much certainty, no record exceeds when batches are drawn independently."""
    uses = steps * batch // records
    while records * binom.sf(uses, steps, batch / records) > failure:
        uses += 1
    return uses


def residual_geometric_inflation(scale: float, parties: int) -> float:
    """max_k log f(k)/f(k + 1), in units of 1/scale, for what K − 1 of K Pólya shares NB(1/K) leave of the noise.

    f is the law of a difference of two negative binomials of shape (K − 1)/K.
    """
    shape = (parties - 1) / parties
    length = math.ceil(60 * scale) + 60
    values = np.arange(length)
    log_law = gammaln(values + shape) - gammaln(shape) - gammaln(values + 1) - values / scale
    law = np.exp(log_law - logsumexp(log_law))
    # Far in the tail the truncation shows; the largest ratio is near the peak.
    differences = np.array([law[: length - k] @ law[k:] for k in range(length // 2)])
    return float(np.max(np.log(differences[:-1] / differences[1:])) * scale)


def general_subsampling(rate: float, divergence: Callable[[int], float], order: int) -> float:
    """Zhu and Wang's bound for any mechanism: a factor of 3 on the terms of three and more."""
    total = (1 - rate) ** (order - 1) * (order * rate - rate + 1)
    for power in range(2, order + 1):
        factor = 1 if power == 2 else 3
        term = math.comb(order, power) * (1 - rate) ** (order - power) * rate**power
        total += factor * term * math.exp((power - 1) * divergence(power))
    return math.log(total) / (order - 1)


def separate_over_fused(
    parts: Sequence[float], scales: Sequence[float], fused: float, shares: Sequence[float]
) -> float:
    """Variance of a gradient from separate releases over that of one fused release, at the same leading cost.

    Part h has sensitivity Δ_h and enters the gradient times s_h; with variances proportional to `shares`, the
    cost is Σ Δ_h²/v_h. `fused` is the sensitivity of the gradient itself.
    """
    cost = sum(part**2 / share for part, share in zip(parts, shares, strict=True))
    variance = sum(scale**2 * share for scale, share in zip(scales, shares, strict=True))
    return variance * cost / fused**2


def breakdown_epsilon(true_delta: Callable[[float], float], delta: float) -> float:
    """The ε beyond which a calibration misses its δ; it meets it at 1 and misses it at 1000."""
    low, high = 1.0, 1000.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if true_delta(middle) <= delta else (low, middle)
    return (low + high) / 2


def row_norm_squared(columns: int, gamma: int) -> int:
    """Equation (13) of SPCA, the squared norm of a rounded row: stochastic rounding exceeds it."""
    return gamma**2 + columns


def sample_factor(contributors: int, order: float) -> float:
    """S_M(α) of Theorem 6.2 of PBM-VFL, which multiplies a C₀ that the paper leaves open."""
    power: float = 2 ** (contributors - 1)
    last = (power - 1) / (power / 2 * (order - 1))
    return (3 * power - 2) * order - 3 * (power - contributors) + last


def packed_values(key_bits: int, field_bits: int) -> int:
    """Equation (37) of the vertical logistic regression paper; a field must hold sums of products, so fewer fit."""
    return (key_bits - 1) // field_bits
