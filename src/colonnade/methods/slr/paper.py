"""SLR as its paper has it: three releases a step, one rounding, the paper's own formulas. For public data only.

Algorithm 4 of "Differentially Private Principal Component Analysis for Vertically Partitioned Data", simulated in one
place: Σ x̄, Σ ⟨w̄, x̄⟩x̄ and Σ ȳx̄ with Skellam noise μ(h) = γ²m, γ⁶m, γ⁴m, where Lemma 13 decides m. Rows and weights are
rounded once, stochastically. What its ε claims is not proved; `colonnade.methods.slr.protocol` is what is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LabelMismatch, PlanError
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.gathering import gather
from colonnade.methods.method import LinearModel, TrainedModel
from colonnade.methods.slr.optimiser import Descent, Optimiser
from colonnade.models.privacy import Privacy
from colonnade.noise.skellam import LARGEST_MU, SkellamNoise
from colonnade.numbers.rounding import stochastic
from colonnade.privacy.paper.figure import LABEL
from colonnade.privacy.paper.skellam_moments import (
    gradient_client_epsilon,
    gradient_moments,
    gradient_multiplier,
)
from colonnade.protocols.specs import TrainingSpec
from colonnade.randomness import Randomness

Array = NDArray[np.float64]


def paper_slr(
    federation: Federation,
    asked: TrainingSpec,
    *,
    epochs: float,
    rate: float,
    weight_cap: float,
    gamma: int,
    optimiser: Optimiser,
) -> TrainedModel:
    """The model that Algorithm 4 would train, and the ε that Lemmas 13 and 14 would print for it."""
    rows = gather(federation, asked)
    if len(rows.plan.label.classes) != 2:
        raise LabelMismatch(f"SLR is for two classes; {len(rows.plan.label.classes)} are declared.")
    attributes = rows.plan.attributes
    features = np.column_stack([rows.features * math.sqrt(attributes), np.ones(rows.plan.rows)])
    features /= math.sqrt(attributes + 1)
    steps = max(1, round(epochs / rate))
    parts = gradient_moments(features.shape[1], gamma, weight_cap)
    multiplier = gradient_multiplier(parts, gamma, asked.epsilon, rows.delta, rate=rate, steps=steps)
    noise = [Fraction(gamma**power * multiplier.value) for power in (2, 6, 4)]
    randomness = federation.randomness("trusted party")
    weights = descend_in_three(
        features,
        rows.labels.astype(np.int64),
        noise,
        gamma=gamma,
        rate=rate,
        descent=Descent(features.shape[1], optimiser, cap=weight_cap, steps=steps),
        steps=steps,
        randomness=randomness,
    )
    clients = len(federation.group.owners)
    paired = [(part, float(mu)) for part, mu in zip(parts, noise, strict=True)]
    figures = (
        multiplier,
        gradient_client_epsilon(paired, rows.delta, clients=max(2, clients), uses=steps * rate),
    )
    scale = math.sqrt(attributes / (attributes + 1))
    return LinearModel(
        weights[None, :-1] * scale,
        weights[-1:] / math.sqrt(attributes + 1),
        frame=rows.frame,
        privacy=Privacy((), reproducible=randomness.reproducible),
        notes=(f"SLR as its paper has it, simulated on public data: {LABEL}.",),
        figures=figures,
    )


def descend_in_three(
    features: Array,
    labels: NDArray[np.int64],
    noise: Sequence[Fraction],
    *,
    gamma: int,
    rate: float,
    descent: Descent,
    steps: int,
    randomness: Randomness,
) -> Array:
    """The weights after all steps of Algorithm 4; `noise` are the three μ, on the grids γ, γ³ and γ²."""
    _check(noise)
    laws = [SkellamNoise(mu) for mu in noise]
    count = len(features)
    for _ in range(steps):
        coins = randomness.words(-(-count // 2)).view(np.uint32)[:count]
        batch = np.flatnonzero(coins < math.ceil(rate * 2**32)) if rate < 1 else np.arange(count)
        rounded = stochastic(gamma * features[batch], randomness).astype(np.float64)
        weights = stochastic(gamma * descent.weights, randomness).astype(np.float64)
        sums = (
            rounded.sum(axis=0),
            rounded.T @ (rounded @ weights),
            rounded.T @ (gamma * labels[batch].astype(np.float64)),
        )
        first, second, third = (
            exact + law.draw(len(exact), randomness) for exact, law in zip(sums, laws, strict=True)
        )
        gradient = first / (2 * gamma) + second / (4 * gamma**3) - third / gamma**2
        descent.step(gradient / (rate * count))
    return descent.model


def _check(noise: Sequence[Fraction]) -> None:
    if max(noise) > LARGEST_MU:
        raise PlanError(
            f"the paper's noise is μ = {float(max(noise)):.3g} on its finest grid, more than is drawn here "
            f"({float(LARGEST_MU):.0e}). Take a smaller gamma."
        )
