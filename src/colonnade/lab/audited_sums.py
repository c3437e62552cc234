"""How observers look for one record in opened sums, and in rows that were perturbed one by one.

Of an opened sum, the server and readers compare a data set with one that lacks the record: a zero row adds nothing. A
party compares two values of the others' part of the record, after it took off the noise that it dealt itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from colonnade.lab import experiments as harness
from colonnade.lab.experiments import Array, AuditClaim, AuditSession, Bits, Drawn, Experiment, Statistic
from colonnade.lab.people import People, anybody, as_far_as, corner, together
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.methods.functional.protocol import integer_rows
from colonnade.methods.functional.protocol import noise_part as functional_noise
from colonnade.methods.glm.rows import GAMMA
from colonnade.methods.local.protocol import LocalPlan
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.moments.protocol import arranged, noise_by_class
from colonnade.methods.moments.protocol import noise_part as matrix_noise
from colonnade.methods.one_shot.protocol import NoisyColumnsPlan
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import Randomness, SeededRandomness
from colonnade.runtime.party import Party

OpenedPlan = MomentsPlan | FunctionalPlan
# Canaries of one session; more of them hide each other.
CANARIES = 8
MANY = 1000
"""Records of a session in which every record counts."""


def opened_experiments(plan: OpenedPlan, spec: TrainingSpec, rest: People | None = None) -> list[Experiment]:
    """Server and readers with one record and with several, then every party; `rest` are people everybody knows."""
    base = corner(plan.schemas, 0.0) if rest is None else rest

    def statistic(first: People, second: People) -> Statistic:
        return _opened_statistic(plan, first, [row_of(plan, second) - row_of(plan, first)])

    public, *parties = harness.by_observer(
        plan,
        spec,
        base,
        statistic,
        "what was opened, along the record's own products",
        "what was opened less its own noise, along the change of the others' part",
    )
    draws = SeededRandomness("canaries of an audit")
    canaries = [anybody(plan.schemas, draws) for _ in range(CANARIES)]

    def people(bits: Bits) -> People:
        return together([base, *(canary for canary, coin in zip(canaries, bits, strict=True) if coin)])

    several = replace(
        public,
        kind="canaries",
        canaries=CANARIES,
        people=people,
        statistic=_opened_statistic(plan, base, [row_of(plan, canary) for canary in canaries]),
        what="what was opened, along each record's own products",
    )
    return [public, several, *parties]


def _opened_statistic(plan: OpenedPlan, known: People, changes: list[Array]) -> Statistic:
    before, ways = row_of(plan, known), [direction(plan, change) for change in changes]

    def statistic(session: AuditSession, claim: AuditClaim) -> Array:
        owner = claim.owner(plan.group)
        # A reader sees what is published, which any owner also has.
        member = plan.group.server if claim.observer == Server().name else owner or plan.group.owners[0]
        opened = opened_vector(plan, session.result(member)) - before
        if owner is not None:
            opened = opened - noise_of(session.alone(owner), session.plan)
        return np.array([likelihood_along(plan, opened, *each) for each in zip(changes, ways, strict=True)])

    return statistic


def opened_vector(plan: OpenedPlan, result: Any) -> Array:
    if isinstance(plan, FunctionalPlan):
        return np.asarray(result.coefficients, dtype=np.float64)
    return np.asarray(result.matrix[np.triu_indices(plan.size)], dtype=np.float64)


def noise_of(party: Party, plan: OpenedPlan) -> Array:
    """What one owner deals of the noise, drawn from its coins by its own code."""
    if isinstance(plan, FunctionalPlan):
        return np.asarray(functional_noise(party, plan), dtype=np.float64)
    drawn = noise_by_class(party, plan) if plan.conditional else arranged(matrix_noise(party, plan), plan)
    return np.asarray(drawn[np.triu_indices(plan.size)], dtype=np.float64)


def row_of(plan: OpenedPlan, people: People) -> Array:
    """Up to how their rows are rounded."""
    owners = plan.group.owners
    if isinstance(plan, FunctionalPlan):
        dealt = np.concatenate([integer_rows(plan, owner, people[owner]) for owner in owners], axis=1)
        products = dealt.astype(np.float64).T @ dealt
        return np.asarray(products[np.triu_indices(plan.dissection.columns)][plan.dissection.opened])
    parts = [
        plan.encoders[owner].encode(people[owner]) * (plan.gamma / plan.attributes**0.5) for owner in owners
    ]
    holder = people[plan.label_holder]
    label = plan.labels.quantize(holder.labels, plan.gamma, rows=holder.rows)
    joint = np.concatenate([*parts, label], axis=1)
    if plan.conditional:
        one = plan.label.constant(plan.gamma)
        alone = np.column_stack([*parts, np.full(len(label), one)])
        joint = np.concatenate(
            [alone * (label[:, [kind]] // one) for kind in range(plan.label.width)], axis=1
        )
    return np.asarray((joint.T @ joint)[np.triu_indices(plan.size)])


def direction(plan: OpenedPlan, change: Array) -> Array:
    if isinstance(plan, FunctionalPlan):
        variances = [
            np.full(block.size, plan.noise_of(block).variance(plan.group)) for block in plan.dissection.blocks
        ]
        return np.asarray(change / np.concatenate(variances))
    first, second = np.triu_indices(plan.size)
    # Entries off the diagonal have half the variance.
    return change * np.where(first == second, 1.0, 2.0)


def likelihood_along(plan: OpenedPlan, opened: Array, change: Array, way: Array) -> float:
    if isinstance(plan, FunctionalPlan) and plan.noises[0].law == "laplace":
        scales = np.sqrt(change / np.where(way == 0, 1.0, way), where=way != 0, out=np.ones_like(change))
        return float(np.sum((np.abs(opened) - np.abs(opened - change)) / scales))
    return float(opened @ way)


def opened_draws(plan: OpenedPlan) -> list[Drawn]:
    draws = []
    for stated in plan.guarantees:
        if isinstance(stated.observer, PartyView):
            others = harness.others_of(plan.group, stated.observer.party)
            first, second = (row_of(plan, record) for record in harness.two_parts(plan.schemas, others))
            change = second - first
        else:
            others, change = list(plan.group.owners), row_of(plan, corner(plan.schemas, 1.0))
        draw = _draws(plan, len(others), change)
        draws.append(Drawn(AuditClaim.of(stated), draw, "draws of the noise that is unknown to it"))
    return draws


def _draws(plan: OpenedPlan, parts: int, change: Array) -> Callable[[bool, int, Randomness], Array]:
    way = direction(plan, change)

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        party = harness.alone(plan.group, plan.group.owners[0], randomness)
        values = np.empty(count)
        for number in range(count):
            noise = sum((noise_of(party, plan) for _ in range(parts)), np.zeros(len(change)))
            values[number] = likelihood_along(plan, noise + change if neighbour else noise, change, way)
        return values

    return draw


def local_experiments(plan: LocalPlan, spec: TrainingSpec) -> list[Experiment]:
    """No declared row is zero, so the server and readers compare two records as near as a row is to zero."""
    schemas = plan.columns.schemas
    low, high = corner(schemas, 0.0), corner(schemas, 1.0)

    def distance(first: People, second: People) -> float:
        return float(np.linalg.norm(local_row(plan, second) - local_row(plan, first)))

    near = as_far_as(distance, low, high, limit=math.sqrt(plan.bound_of_all_but(None)))
    experiments = []
    for stated in plan.guarantees:
        second = near
        if isinstance(stated.observer, PartyView):
            _, second = harness.two_parts(schemas, harness.others_of(plan.group, stated.observer.party))
        statistic = _local_statistic(plan, local_row(plan, second) - local_row(plan, low))
        if isinstance(stated.observer, Server):
            count, what = MANY, "each perturbed row, along the change of the record"
        else:
            count, what = 1, "the published sums of one record, along its change"
        trial = harness.many_records([AuditClaim.of(stated)], (low, second), count, statistic, spec, what)
        experiments.append(replace(trial, kind="canaries" if count > 1 else "neighbours"))
    return experiments


def _local_statistic(plan: LocalPlan, way: Array) -> Statistic:
    def statistic(session: AuditSession, claim: AuditClaim) -> Array:
        if claim.observer != Server().name:
            return np.array([float(session.result(plan.group.owners[0]).sums @ way)])
        sent = []
        for owner in plan.group.owners:
            messages = session.messages(plan.group.server, "rows", sender=owner)
            sent.append(np.concatenate([said.arrays["rows"] for said in messages if "rows" in said.arrays]))
        along = way
        if plan.columns.spec.task != "pca":
            # Rows are sent with the label beside its holder's features; sums are published with it last.
            along = np.empty(plan.size)
            along[np.diag(arranged(np.diag(np.arange(1, plan.size + 1)), plan.columns)) - 1] = way
        return np.asarray(np.concatenate(sent, axis=1) @ along)

    return statistic


def local_row(plan: LocalPlan, people: People) -> Array:
    """One record's integers in the order in which sums are published: features by owner, the label last."""
    columns = plan.columns
    parts = [columns.quantizers[owner].quantize(people[owner]) for owner in plan.group.owners]
    if columns.spec.task != "pca":
        parts.append(columns.label.quantize(people[columns.label_holder].label, columns.gamma))
    return np.asarray(np.concatenate(parts, axis=1)[0], dtype=np.float64)


def one_shot_experiments(plan: NoisyColumnsPlan, spec: TrainingSpec) -> list[Experiment]:
    """The active party, and with more owners than two all but one of them together, with every noisy row."""
    experiments = []
    for stated in plan.guarantees:
        claim = AuditClaim.of(stated)
        every = isinstance(stated.observer, PartyView)
        changed = [owner for owner in plan.passive if every or claim.unit == f"own-part:{owner}"]
        records = harness.two_parts(plan.schemas, changed)
        what = "each noisy row, along the change of the record"
        statistic = _one_shot_statistic(plan, *records)
        experiments.append(harness.many_records([claim], records, MANY, statistic, spec, what))
    return experiments


def _one_shot_statistic(plan: NoisyColumnsPlan, first: People, second: People) -> Statistic:
    ways = {
        owner: (plan.clipped.integers(owner, second[owner]) - plan.clipped.integers(owner, first[owner]))[0]
        / (GAMMA * plan.sigma(owner) ** 2)
        for owner in plan.passive
    }

    def statistic(session: AuditSession, _claim: AuditClaim) -> Array:
        columns = session.result(plan.active).columns
        return np.asarray(np.sum([columns[owner] @ way for owner, way in ways.items()], axis=0))

    return statistic
