"""What HDP-VFL's own noise achieves when the passive party does not clip what it receives: Monte Carlo.

One record of the passive party is +1 in one data set and −1 in the other, every other record is +1, and the
weight starts at its bound k. Given A's messages, which B uses as they come (residuals ±½ and A's noise), B's
messages differ by a known Δ, and the δ they reach at ε is that of a Gaussian of shift Δ/σ. The mean of that δ
over A's noise is what is achieved.

Large shifts are rare and weigh most, so the mean has a skewed law: a run of `RUNS` has a standard error of 5 to 30 per
cent, and two such runs differ by as much.
"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from colonnade.privacy.paper import active_sensitivity, classical_sigma, passive_sensitivity

RUNS = 20_000


def realised_shifts(
    *, rows: int, batch: int, epochs: int, step_size: float, radius: float, sigma: float, runs: int, seed: int
) -> np.ndarray:
    """√(Σ Δ_t²) of B's messages in so many runs, when A's messages carry noise of this deviation."""
    generator = np.random.default_rng(seed)
    weight, other = np.full(runs, float(radius)), np.full(runs, float(radius))
    squares = np.zeros(runs)
    record = generator.choice([-0.5, 0.5], runs)

    def received(count: int) -> np.ndarray:
        residuals = generator.binomial(count, 0.5, runs) - count / 2
        return residuals + generator.normal(0, sigma * math.sqrt(count), runs)

    per_epoch = -(-rows // batch)
    for step in range(epochs * per_epoch):
        size = min(batch, rows - step % per_epoch * batch)
        holds_record = step % per_epoch == 0
        squares += (size - holds_record) * (weight - other) ** 2 + holds_record * (weight + other) ** 2
        shared = received(size - holds_record)
        own = holds_record * (record + generator.normal(0, sigma, runs))
        weight = np.clip(weight - step_size * (shared + own) / batch, -radius, radius)
        other = np.clip(other - step_size * (shared - own) / batch, -radius, radius)
    return np.sqrt(squares)


def achieved_delta(
    *, epsilon: float, delta: float, runs: int = RUNS, seed: int, rows: int, **shape: Any
) -> tuple[float, float]:
    """The mean δ that the paper's noise for (ε, δ) achieves at ε, and its standard error.

    `shape` are batch, epochs, step_size and radius.
    """
    shared = {**shape, "steps": shape["epochs"] * -(-rows // shape["batch"]), "lipschitz": 1}
    passive = passive_sensitivity(**shared)
    active = active_sensitivity(**shared, slope=0.25, label_slope=1.1, label_bound=1)
    sigma = classical_sigma(epsilon, delta, sensitivity=active.value).value
    shifts = realised_shifts(rows=rows, **shape, sigma=sigma, runs=runs, seed=seed)
    mu = shifts / classical_sigma(epsilon, delta, sensitivity=passive.value).value
    deltas = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    return float(deltas.mean()), float(deltas.std() / math.sqrt(runs))
