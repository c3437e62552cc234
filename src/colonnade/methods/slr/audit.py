"""How observers of noisy gradients look for one record in the weights that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from colonnade.audits.experiments import Array, Claim, Experiment
from colonnade.audits.people import People, corner, either, mixed, together
from colonnade.audits.sessions import Session
from colonnade.methods.slr.plan import GradientPlan, SlrOptions
from colonnade.privacy.observers import PartyView, Reader
from colonnade.protocols.specs import TrainingSpec, options_of

ROWS = 8


def gradient_experiments(plan: GradientPlan, spec: TrainingSpec, rest: People) -> list[Experiment]:
    """The server and readers with a record there or left out, every party with two values of the others' part.

    Gradients are divided by the number of people who take part on average. Where the record is left out that is one
    person less, and steps are shorter by as much, so that only the record itself is missing.
    """
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    public = tuple(
        Claim.of(stated) for stated in plan.guarantees if not isinstance(stated.observer, PartyView)
    )
    shorter = _rescaled(spec, (plan.rows - 1) / plan.rows)
    experiments = [
        Experiment(
            "neighbours",
            public,
            1,
            lambda coins: together([rest, *([high] if coins[0] else [])]),
            _statistic(plan, gradient_of(plan, high)),
            lambda coins: spec if coins[0] else shorter,
            "how far the weights of every step moved along the record's own gradient",
        )
    ]
    for stated in plan.guarantees:
        if isinstance(stated.observer, PartyView):
            others = [owner for owner in plan.group.owners if owner != stated.observer.party]
            second = mixed(low, high, others)
            worlds = [together([rest, record]) for record in (low, second)]
            change = gradient_of(plan, second) - gradient_of(plan, low)
            experiments.append(
                Experiment(
                    "neighbours",
                    (Claim.of(stated),),
                    1,
                    either(worlds),
                    _statistic(plan, change),
                    lambda _coins: spec,
                    "how far the weights of every step moved along the change of the record's gradient",
                )
            )
    return experiments


def _rescaled(spec: TrainingSpec, factor: float) -> TrainingSpec:
    options = options_of(spec, SlrOptions)
    if options.optimiser == "adam":
        return spec  # it takes no notice of the size of gradients
    shorter = {"learning_rate": options.learning_rate * factor}
    return replace(spec, options=options.model_copy(update=shorter))


def gradient_of(plan: GradientPlan, people: People) -> Array:
    """One record's gradient where all weights are zero: x̃(2γ² − 4γỹ), up to a factor."""
    parts = []
    for owner in plan.group.owners:
        parts.append(plan.encoders[owner].encode(people[owner])[0] * (plan.gamma / plan.attributes**0.5))
        if owner == plan.label_holder:
            parts.append(np.array([float(plan.constant)]))
    label = people[plan.label_holder].label
    sign = 1.0 if label is None or label[0] == 0 else -1.0
    return np.concatenate(parts) * sign


def _statistic(plan: GradientPlan, way: Array) -> Callable[[Session, Claim], Array]:
    owner = plan.group.owners[0]

    def statistic(session: Session, claim: Claim) -> Array:
        final = session.result(owner).weights
        if claim.observer == Reader().name:
            return np.array([-float(final @ way)])
        # What the server names at each step it computed from what it opened; every member hears the same.
        weights = [said.arrays["weights"].astype(np.float64) for said in session.heard(owner, "weights")]
        moved = weights[-1] - weights[0] if len(weights) > 1 else np.zeros(plan.size)
        return np.array([-float((moved / plan.gamma + final) @ way)])

    return statistic
