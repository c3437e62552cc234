"""SPCA: principal components from one Skellam release, sound and as its paper has it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.data.encoder import Rounding
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.gathering import Gathered, gather, release_of
from colonnade.methods.moments.method import METHOD as MOMENTS
from colonnade.methods.moments.plan import MomentsPlan, plan_moments
from colonnade.models.release import MomentRelease
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.rounding import stochastic
from colonnade.privacy.paper import gram_moments, server_mu
from colonnade.protocols import plans
from colonnade.randomness import Randomness
from colonnade.runtime.party import Group

Integers = NDArray[np.int64]


def as_in_the_paper(federation: Federation, spec: plans.TrainingSpec) -> MomentRelease:
    """What Algorithm 1 would publish by Lemma 2, without any guarantee; the border says mean zero."""
    plans.check_job_gamma(spec, "of a job; for spca write it under [options].")
    gamma = plans.options_of(spec, SpcaOptions).gamma
    rows = gather(federation, spec)
    plan, randomness = rows.plan, federation.randomness("trusted party")
    mu = Fraction(round(server_mu(gram_moments(rows.frame.columns, gamma), spec.epsilon, rows.delta).value))
    widths = list(plan.widths.values())
    noisy = paper_gram(rows, gamma, randomness) + paper_noise(widths, mu, randomness)
    size = rows.frame.columns
    matrix = np.zeros((size + 1, size + 1), dtype=np.int64)
    matrix[:size, :size] = noisy
    matrix[size, size] = plan.rows * plan.label.constant(gamma) ** 2
    # Every entry has variance 2μ, and a release states the variance off the diagonal.
    return release_of(plan, matrix, mu=2 * mu, gamma=gamma, reproducible=randomness.reproducible)


def paper_gram(rows: Gathered, gamma: int, randomness: Randomness) -> Integers:
    """Σ x̄x̄ᵀ of rows rounded once, exactly."""
    size = rows.frame.columns
    total = np.zeros((size, size), dtype=np.int64)
    # Products of integers up to γ + 1, summed over this many rows, are exact in doubles.
    block = max(1, min(1 << 14, (1 << 53) // (gamma + 1) ** 2))
    for start in range(0, plan_rows := rows.plan.rows, block):
        rounded = stochastic(gamma * rows.features[start : min(start + block, plan_rows)], randomness)
        doubles = rounded.astype(np.float64)
        total += (doubles.T @ doubles).astype(np.int64)
    return total


def paper_noise(widths: list[int], mu: Fraction, randomness: Randomness) -> Integers:
    """Symmetric noise: every client's own Sk(μ) inside its block, a part Sk(μ/N) of every client elsewhere."""
    size, clients = sum(widths), len(widths)
    own, part = SkellamNoise(mu), SkellamNoise(mu).part(clients)
    between = np.zeros((size, size), dtype=np.int64)
    for _ in range(clients):
        between += part.draw((size, size), randomness)
    start = 0
    for width in widths:
        mine = slice(start, start + width)
        between[mine, mine] = own.draw((width, width), randomness)
        start += width
    return np.triu(between) + np.triu(between, 1).T


class SpcaOptions(plans.Options):
    """The grid γ and how rows come onto it.

    `retry` draws a row's rounding again until its norm keeps the bound γ²c² + n that sensitivity is computed from, so
    the grid may be coarse. `calibration = "paper"` simulates the paper's own algorithm on public data.
    """

    method = "spca"
    takes_labels = True
    in_shares = True

    gamma: Annotated[int, Field(ge=4)] = plans.DEFAULT_GAMMA
    rounding: Rounding = "retry"
    calibration: Literal["sound", "paper"] = "sound"

    def check(self, spec: plans.TrainingSpec) -> None:
        plans.check_job_gamma(spec, "of a job; for spca write it under [options].")
        plans.refuse_paper_plan(self.calibration)

    def plan(self, spec: plans.TrainingSpec, group: Group, schemas: plans.Schemas, rows: int) -> MomentsPlan:
        return plan_moments(spec, group, schemas, rows, gamma=self.gamma, rounding=self.rounding)


METHOD = replace(
    MOMENTS,
    name="spca",
    title="SPCA, Skellam moments",
    tasks=("pca",),
    options=SpcaOptions,
    scores=None,
    paper=as_in_the_paper,
)
