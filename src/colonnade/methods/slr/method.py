"""SLR: logistic regression trained step by step on noisy gradients, sound and as its paper has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LabelMismatch, PlanError
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.gathering import gather
from colonnade.methods.method import Array, LinearModel, Method, NoiseSummary, TrainedModel
from colonnade.methods.slr.plan import GradientPlan, Optimiser, SlrDescent, SlrOptions
from colonnade.methods.slr.protocol import TrainedWeights, gradient_session
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.noise.skellam import LARGEST_MU, SkellamNoise
from colonnade.numbers.rounding import stochastic
from colonnade.planning.cost import Axis, Pilot, in_rows, kept, product
from colonnade.privacy.paper import LABEL, gradient_client_epsilon, gradient_moments, gradient_multiplier
from colonnade.protocols.plans import TrainingSpec, check_job_gamma, options_of
from colonnade.randomness import Randomness


def as_in_the_paper(federation: Federation, spec: TrainingSpec) -> TrainedModel:
    """The model that Algorithm 4 would train on public data, and the ε that Lemmas 13 and 14 would print for it."""
    check_job_gamma(
        spec, "is the grid of a moment release; gradients have their own. Write it under [options]."
    )
    options = options_of(spec, SlrOptions)
    rate, gamma = options.rate, options.gamma
    optimiser = Optimiser(options.optimiser, options.learning_rate, options.average)
    rows = gather(federation, spec)
    if len(rows.plan.label.classes) != 2:
        raise LabelMismatch(f"SLR is for two classes; {len(rows.plan.label.classes)} are declared.")
    attributes = rows.plan.attributes
    features = np.column_stack([rows.features * math.sqrt(attributes), np.ones(rows.plan.rows)])
    features /= math.sqrt(attributes + 1)
    steps = max(1, round(options.epochs / rate))
    parts = gradient_moments(features.shape[1], gamma, options.weight_cap)
    multiplier = gradient_multiplier(parts, gamma, spec.epsilon, rows.delta, rate=rate, steps=steps)
    noise = [Fraction(gamma**power * multiplier.value) for power in (2, 6, 4)]
    if max(noise) > LARGEST_MU:
        raise PlanError(
            f"the paper's noise is μ = {float(max(noise)):.3g} on its finest grid, more than is drawn here "
            f"({float(LARGEST_MU):.0e}). Take a smaller gamma."
        )
    randomness = federation.randomness("trusted party")
    weights = descend_in_three(
        features,
        rows.labels.astype(np.int64),
        noise,
        gamma=gamma,
        rate=rate,
        descent=SlrDescent(features.shape[1], optimiser, cap=options.weight_cap, steps=steps),
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
    descent: SlrDescent,
    steps: int,
    randomness: Randomness,
) -> Array:
    """The weights after all steps of Algorithm 4; `noise` are the three μ, on the grids γ, γ³ and γ²."""
    distributions = [SkellamNoise(mu) for mu in noise]
    count = len(features)
    for _ in range(steps):
        draws = randomness.words(-(-count // 2)).view(np.uint32)[:count]
        batch = np.flatnonzero(draws < math.ceil(rate * 2**32)) if rate < 1 else np.arange(count)
        rounded = stochastic(gamma * features[batch], randomness).astype(np.float64)
        weights = stochastic(gamma * descent.weights, randomness).astype(np.float64)
        sums = (
            rounded.sum(axis=0),
            rounded.T @ (rounded @ weights),
            rounded.T @ (gamma * labels[batch].astype(np.float64)),
        )
        first, second, third = (
            exact + law.draw(len(exact), randomness) for exact, law in zip(sums, distributions, strict=True)
        )
        gradient = first / (2 * gamma) + second / (4 * gamma**3) - third / gamma**2
        descent.step(gradient / (rate * count))
    return descent.model


def model(_requested: TrainingSpec, results: Mapping[str, TrainedWeights]) -> TrainedModel | None:
    trained = next((trained for trained in results.values() if trained.weights.size), None)
    if trained is None:
        return None
    plan = trained.plan
    coefficients, intercept = as_log_odds(trained.weights, plan)
    notes = (
        f"Trained in {plan.schedule.steps} steps on secret batches of about "
        f"{float(plan.rows * plan.schedule.rate):.0f} of {plan.rows} people, dealt as {plan.capacity} rows each.",
        f"Parties know the batches: for them nobody is in more than {plan.uses} of them.",
    )
    return LinearModel(
        coefficients[None, :],
        np.array([intercept]),
        frame=InputSpec(tuple(plan.encoders.items()), plan.label),
        privacy=Privacy(plan.guarantees, reproducible=trained.reproducible),
        notes=notes,
    )


def pilots(plan: GradientPlan) -> tuple[Pilot, ...]:
    def at(steps: int, rows: int) -> GradientPlan:
        fewer = replace(plan, rows=rows)
        shorter = replace(fewer, schedule=replace(plan.schedule, steps=steps))
        # Batches are as large as in the whole run, whose many steps make them so.
        shorter.__dict__.update(capacity=fewer.capacity, uses=fewer.uses)
        return kept(plan, shorter, "field")

    axis = replace(in_rows(plan.rows, plan.size), place=lambda rows: float(replace(plan, rows=rows).capacity))
    return product([Axis(plan.schedule.steps, 4, 24), axis], at)


def noise(plan: GradientPlan) -> NoiseSummary:
    expected = float(plan.rows * plan.schedule.rate)
    deviation = math.sqrt(plan.dealt_noise.total_variance(plan.group)) / (4.0 * plan.gamma**3 * expected)
    return NoiseSummary(deviation, "an entry of each step's mean gradient")


def as_log_odds(weights: NDArray[np.float64], plan: GradientPlan) -> tuple[NDArray[np.float64], float]:
    """Rows are divided by √(m + 1), features by √m; the constant is the last of its holder's part."""
    coefficients, intercept, start = [], 0.0, 0
    for owner, width in plan.widths.items():
        features = plan.encoders[owner].width
        coefficients.append(weights[start : start + features])
        if width > features:
            intercept = float(weights[start + features]) * plan.constant / plan.gamma
        start += width
    scale = math.sqrt((plan.attributes - 1) / plan.attributes)
    return np.concatenate(coefficients) * scale, intercept


METHOD = Method(
    name="slr",
    title="SLR, noisy gradients",
    tasks=("classification",),
    options=SlrOptions,
    session=lambda _requested: gradient_session,
    model=model,
    checks=("rows",),
    scores="released weights",
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="products",
    paper=as_in_the_paper,
)
