"""How observers of perturbed rows look for one record: local perturbation, and columns sent once.

The noise of one record has nothing to do with another's, so every row of a session is a canary of its own and all of
them count. Where only sums are published, one record alone is a session.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from colonnade.audits.experiments import Array, Bits, Claim, Experiment
from colonnade.audits.people import People, as_far_as, chosen, corner, mixed
from colonnade.audits.sessions import Session
from colonnade.methods.glm.rows import GAMMA
from colonnade.methods.local.plan import LocalPlan
from colonnade.methods.moments.protocol import arranged
from colonnade.methods.one_shot.protocol import NoisyColumnsPlan
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.specs import Spec

MANY = 1000
"""Records of a session in which every record counts."""


def local_experiments(plan: LocalPlan, request: Spec) -> list[Experiment]:
    """The server with every perturbed row; readers and parties with the sums that are published.

    No row of a declared record is zero, so the server and readers compare two records whose rows are as far apart as a
    row is from zero, or nearer: the same noise hides both.
    """
    low, high = corner(plan.columns.schemas, 0.0), corner(plan.columns.schemas, 1.0)
    limit = math.sqrt(plan.bound_of_all_but(None))

    def distance(first: People, second: People) -> float:
        return float(np.linalg.norm(local_row(plan, second) - local_row(plan, first)))

    near = as_far_as(distance, low, high, limit=limit)
    experiments = []
    for stated in plan.guarantees:
        claim = Claim.of(stated)
        if isinstance(stated.observer, PartyView):
            others = [owner for owner in plan.group.owners if owner != stated.observer.party]
            second = mixed(low, high, others)
        else:
            second = near
        server = claim.observer == Server().name
        experiments.append(
            Experiment(
                "canaries" if server else "neighbours",
                (claim,),
                MANY if server else 1,
                _of_coins(low, second),
                _local_statistic(plan, low, second),
                lambda _coins: request,
                "each perturbed row, along the change of the record"
                if server
                else "the published sums of one record, along its change",
                independent=True,
            )
        )
    return experiments


def _of_coins(first: People, second: People) -> Callable[[Bits], People]:
    return lambda coins: chosen(first, second, coins)


def _local_statistic(plan: LocalPlan, first: People, second: People) -> Callable[[Session, Claim], Array]:
    way = local_row(plan, second) - local_row(plan, first)

    def statistic(session: Session, claim: Claim) -> Array:
        if claim.observer == Server().name:
            heard = [
                np.concatenate(
                    [
                        said.arrays["rows"]
                        for said in session.heard(plan.group.server, "rows", sender=owner)
                        if "rows" in said.arrays
                    ]
                )
                for owner in plan.group.owners
            ]
            return np.asarray(np.concatenate(heard, axis=1) @ _dealt_order(plan, way))
        return np.array([float(session.result(plan.group.owners[0]).sums @ way)])

    return statistic


def local_row(plan: LocalPlan, people: People) -> Array:
    """One record's integers in the order in which sums are published: features by owner, the label last."""
    columns = plan.columns
    parts = [columns.quantizers[owner].quantize(people[owner]) for owner in plan.group.owners]
    if columns.spec.task != "pca":
        parts.append(columns.label.quantize(people[columns.label_holder].label, columns.gamma))
    return np.asarray(np.concatenate(parts, axis=1)[0], dtype=np.float64)


def _dealt_order(plan: LocalPlan, published: Array) -> Array:
    """A vector in published order, as rows are sent: the label beside its holder's features."""
    if plan.columns.spec.task == "pca":
        return published
    places = np.diag(arranged(np.diag(np.arange(1, plan.size + 1)), plan.columns)) - 1
    sent = np.empty(plan.size)
    sent[places] = published
    return sent


def one_shot_experiments(plan: NoisyColumnsPlan, request: Spec) -> list[Experiment]:
    """The active party, and with more owners than two all but one of them together, with every noisy row."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    experiments = []
    for stated in plan.guarantees:
        claim = Claim.of(stated)
        changed = (
            list(plan.passive)
            if isinstance(stated.observer, PartyView)
            else [owner for owner in plan.passive if claim.unit == f"own-part:{owner}"]
        )
        second = mixed(low, high, changed)
        experiments.append(
            Experiment(
                "canaries",
                (claim,),
                MANY,
                _of_coins(low, second),
                _one_shot_statistic(plan, low, second),
                lambda _coins: request,
                "each noisy row, along the change of the record",
                independent=True,
            )
        )
    return experiments


def _one_shot_statistic(
    plan: NoisyColumnsPlan, first: People, second: People
) -> Callable[[Session, Claim], Array]:
    ways = {
        owner: (plan.clipped.integers(owner, second[owner]) - plan.clipped.integers(owner, first[owner]))[0]
        / (GAMMA * plan.sigma(owner) ** 2)
        for owner in plan.passive
    }

    def statistic(session: Session, _claim: Claim) -> Array:
        columns = session.result(plan.active).columns
        return np.asarray(np.sum([columns[owner] @ way for owner, way in ways.items()], axis=0))

    return statistic
