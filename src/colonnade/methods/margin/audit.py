"""How observers of noisy margin descent look for one record in its moments and gradients.

Weights are public, so whoever knows the other people can say at every step what a gradient would be without the record
and with it. The statistic is how much likelier what was opened is with it, as if its noise were normal: all steps and
the moments together.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from colonnade.audits.experiments import Array, Claim, Drawn, Experiment
from colonnade.audits.people import People, corner, either, mixed, together
from colonnade.audits.sessions import Session
from colonnade.methods.margin.curve import ANGLES, MILLION, PERIOD
from colonnade.methods.margin.optimiser import MarginDescent
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.request import MarginRequest
from colonnade.noise.discrete_gaussian import MatrixGaussianNoise
from colonnade.noise.skellam import MatrixSkellamNoise
from colonnade.privacy.neighbours import ZERO_OUT
from colonnade.privacy.observers import PartyView, Reader
from colonnade.randomness import Randomness

ROWS = 8


def margin_experiments(plan: MarginPlan, request: MarginRequest, rest: People) -> list[Experiment]:
    """The server and readers with a record there or left out, every party with two values of the others' part."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    public = tuple(
        Claim.of(stated) for stated in plan.guarantees if not isinstance(stated.observer, PartyView)
    )
    experiments = [
        Experiment(
            "neighbours",
            public,
            1,
            either([rest, together([rest, high])]),
            _statistic(plan, rest, together([rest, high])),
            lambda _coins: request,
            "how much likelier moments and gradients are with the record than without",
        )
    ]
    for stated in plan.guarantees:
        if isinstance(stated.observer, PartyView):
            others = [owner for owner in plan.group.owners if owner != stated.observer.party]
            worlds = [together([rest, record]) for record in (low, mixed(low, high, others))]
            experiments.append(
                Experiment(
                    "neighbours",
                    (Claim.of(stated),),
                    1,
                    either(worlds),
                    _statistic(plan, *worlds),
                    lambda _coins: request,
                    "how much likelier moments and gradients are with one of two values of the others' part",
                )
            )
    return experiments


def _statistic(plan: MarginPlan, first: People, second: People) -> Callable[[Session, Claim], Array]:
    before, after = joint_rows(plan, first), joint_rows(plan, second)

    def statistic(session: Session, claim: Claim) -> Array:
        if claim.observer == Reader().name:
            # A reader has the model alone: how far it lies along what the record adds at the start.
            model = session.result(plan.group.owners[0]).weights
            change = expected(plan, *after, np.zeros_like(model)) - expected(
                plan, *before, np.zeros_like(model)
            )
            return np.array([float(change @ model.T.reshape(-1))])
        descent = session.result(plan.group.server).descent
        return np.array([likelihood(plan, descent, before, after)])

    return statistic


def likelihood(
    plan: MarginPlan, descent: MarginDescent, before: tuple[Array, Array], after: tuple[Array, Array]
) -> float:
    """How much likelier all that was opened is with the second people, up to a constant."""
    overhead = Fraction(len(plan.group.dealers), plan.group.whole)
    change = after[0].T @ after[0] - before[0].T @ before[0]
    seen = descent.moments - (before[0].T @ before[0])
    # Every unordered entry was opened once, those off the diagonal with half the variance: together they count twice.
    ratio = float(np.sum((seen - change / 2) * change)) / float(plan.moments_variance * overhead)
    for weights, opened in zip(descent.path, descent.opened, strict=True):
        known = expected(plan, *before, weights)
        moved = expected(plan, *after, weights) - known
        ratio += float((opened - known - moved / 2) @ moved) / float(plan.variance * overhead)
    return ratio


def joint_rows(plan: MarginPlan, people: People) -> tuple[Array, Array]:
    """Everybody's part of these people's rows, up to how they are rounded, and for every head their labels as ±1."""
    parts = []
    for owner in plan.group.owners:
        parts.append(plan.encoders[owner].encode(people[owner]) * (plan.gamma / plan.attributes**0.5))
        if owner == plan.label_holder:
            parts.append(np.full((people[owner].rows, 1), float(plan.constant)))
    label = people[plan.label_holder].label
    if label is None:
        raise ValueError("people without labels cannot be audited")
    classes = np.array([1]) if plan.heads == 1 else np.arange(plan.heads)
    return np.concatenate(parts, axis=1), np.where(label[:, None] == classes, 1.0, -1.0)


def expected(plan: MarginPlan, rows: Array, signs: Array, weights: Array) -> Array:
    """Σ r̃x̃ of these people at these weights, up to rounding."""
    table = plan.waves.curve.at_angles / (MILLION * 2.0**40)
    margins = signs * (rows @ weights) / plan.gamma
    places = np.rint(np.remainder(margins, PERIOD) * (ANGLES / PERIOD)).astype(np.int64) % ANGLES
    slopes = plan.scale * signs * table[places]
    return np.asarray((rows.T @ slopes).T.reshape(-1))


def margin_draws(plan: MarginPlan) -> list[Drawn]:
    """Server and readers, with the noise that each owner's own code draws and a record that moves every step most."""
    return [
        Drawn(Claim.of(stated), _draws(plan), "draws of the noise of moments and gradients")
        for stated in plan.guarantees
        if not isinstance(stated.observer, PartyView) and stated.unit == ZERO_OUT
    ]


def _draws(plan: MarginPlan) -> Callable[[bool, int, Randomness], Array]:
    step = float(plan.gradient_zeroed.l2)
    row = float(plan.row.norm_squared)
    # Server and readers may know one part of the noise, and the server its own.
    unknown = len(plan.group.dealers) - plan.group.tolerated

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        ratios = np.zeros(count)
        for _ in range(unknown):
            # A record with one entry moves one entry of the moments and one of each gradient.
            first = _diagonals(plan.moments_noise.part(plan.group.whole), count, randomness)
            later = (
                plan.noise.part(plan.group.whole)
                .draw((count, plan.schedule.steps), randomness)
                .astype(np.float64)
            )
            ratios += first * row / float(plan.moments_variance) + later.sum(axis=1) * step / float(
                plan.variance
            )
        if neighbour:
            ratios += row**2 / float(plan.moments_variance) + plan.schedule.steps * step**2 / float(
                plan.variance
            )
        return ratios

    return draw


def _diagonals(noise: MatrixGaussianNoise | MatrixSkellamNoise, count: int, randomness: Randomness) -> Array:
    side = 64
    drawn = [np.diag(noise.draw_symmetric(side, randomness)) for _ in range(-(-count // side))]
    return np.concatenate(drawn)[:count].astype(np.float64)
