"""How much accuracy the noise of a plan will cost, by a law fitted to public sets: docs/plan.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.moments.method import noise_of
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.protocols.plans import Plan

HALF_A_POINT = 0.005
"""Below this the study could not tell what was lost from chance."""
A_POINT = 0.01
PAST_THE_LAW = 0.15
"""The study stops here: whoever would lose more has a model that says next to nothing."""


@dataclass(frozen=True)
class Law:
    """The share of people whose class a model no longer finds: constant · σ^noise_power · d^column_power.

    σ is the noise by person and d the number of columns once encoded. `factor` is how far four settings in five of the
    study were from it at most, half a point added to both.
    """

    constant: float
    noise_power: float
    column_power: float
    factor: float

    def lost(self, noise: float, columns: int) -> float:
        """What is lost at this noise by person."""
        return float(self.constant * noise**self.noise_power * columns**self.column_power)

    def people_for(self, lost: float, noise: float, columns: int) -> float:
        """How many people it takes to lose no more than this, at this noise in all: at the far end of the factor."""
        near = (lost + HALF_A_POINT) / self.factor - HALF_A_POINT
        by_person = (near / (self.constant * columns**self.column_power)) ** (1.0 / self.noise_power)
        return float(noise / by_person)


# As `python -m reproduction --only what_to_expect` found them; a test holds them to its results.
LAWS = {
    "moments": Law(0.00951, 0.539, 1.03, 1.75),
    "margin": Law(0.023, 0.749, 0.834, 1.7),
}


def expected_loss(plan: Plan) -> dict[str, Any] | None:
    """What noise will cost this plan in accuracy, from `low` to `high`, and with how many people it would be a point.

    None where the study says nothing: other methods, other tasks, more than two classes, matrices by class, and several
    labels, whose sums carry more noise than those of the study.
    """
    if isinstance(plan, MarginPlan):
        law, noise = LAWS["margin"], plan.deviation
    elif (
        isinstance(plan, MomentsPlan)
        and plan.spec.task == "classification"
        and not (plan.conditional or plan.several)
    ):
        law, noise = LAWS["moments"], noise_of(plan)
    else:
        return None
    if plan.label.width != 2:
        return None
    columns = sum(encoder.width for encoder in plan.encoders.values())
    lost = law.lost(noise / plan.rows, columns)
    return {
        "lost": lost,
        "low": max(0.0, (lost + HALF_A_POINT) / law.factor - HALF_A_POINT),
        "high": (lost + HALF_A_POINT) * law.factor - HALF_A_POINT,
        "people_for_a_point": round(law.people_for(A_POINT, noise, columns)),
    }
