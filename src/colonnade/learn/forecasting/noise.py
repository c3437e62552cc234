"""How much noise a plan adds, to what, in words that can be compared with what one person does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

from colonnade.learn.planning import noise_of
from colonnade.protocols.embeddings_plan import EmbeddingsPlan
from colonnade.protocols.encrypted_plan import EncryptedPlan
from colonnade.protocols.functional_plan import FunctionalPlan
from colonnade.protocols.intermediate_plan import IntermediatePlan
from colonnade.protocols.local_plan import LocalPlan
from colonnade.protocols.moments_plan import MomentsPlan
from colonnade.protocols.noisy_columns import NoisyColumnsPlan
from colonnade.protocols.noisy_gradient_plan import GradientPlan
from colonnade.protocols.plans import Plan


@dataclass(frozen=True)
class Noise:
    """The standard deviation of what is added, and to what; of several kinds, the largest."""

    deviation: float
    on: str

    def __str__(self) -> str:
        return f"{self.deviation:.3g} on {self.on}"


@singledispatch
def noise_in(plan: Plan) -> Noise | None:
    """The noise of a plan, in the units of what carries it; None where nobody has said."""
    return None


@noise_in.register
def _moments(plan: MomentsPlan) -> Noise:
    return Noise(noise_of(plan), "a sum of products of two columns")


@noise_in.register
def _functional(plan: FunctionalPlan) -> Noise:
    return Noise(max(line.deviation for line in plan.bill), "a coefficient, a sum over all people")


@noise_in.register
def _gradient(plan: GradientPlan) -> Noise:
    share = plan.group.honest_owners / len(plan.group.owners)
    expected = float(plan.rows * plan.schedule.rate)
    deviation = math.sqrt(2 * float(plan.mu) / share) / (4.0 * plan.gamma**3 * expected)
    return Noise(deviation, "an entry of each step's mean gradient")


@noise_in.register
def _local(plan: LocalPlan) -> Noise:
    return Noise(math.sqrt(plan.sigma_squared) / plan.columns.gamma, "every value of every person")


@noise_in.register
def _one_shot(plan: NoisyColumnsPlan) -> Noise:
    return Noise(max(plan.sigma(owner) for owner in plan.passive), "every value of every person")


@noise_in.register
def _intermediate(plan: IntermediatePlan) -> Noise:
    return Noise(
        max(plan.sigma(owner) for owner in plan.senders), "every person's score or residual, each time"
    )


@noise_in.register
def _encrypted(plan: EncryptedPlan) -> Noise | None:
    if not plan.noise:
        return None
    largest = max(float(variance) for _, variance in plan.noise)
    return Noise(math.sqrt(largest) / 2**plan.fraction_bits, "every person's score, each time")


@noise_in.register
def _embeddings(plan: EmbeddingsPlan) -> Noise:
    return Noise(math.sqrt(plan.sum_variance), "a coordinate of every person's summed embedding")
