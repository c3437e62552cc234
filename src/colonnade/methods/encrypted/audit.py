"""How owners that descend a gradient under encryption look for one record of the others in what they decrypted.

An owner has, for every batch, one sum for each of its columns. As far as these determine the others' noisy scores it
solves for them; the label of a record then shows as the sign of its score, and another party's columns as how the
record's score goes with those of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from colonnade.attacks.views import PartyView as Sight
from colonnade.audits.experiments import Array, Claim, Experiment
from colonnade.audits.people import People, corner, either, mixed, together
from colonnade.audits.sessions import Session
from colonnade.methods.encrypted.plan import EncryptedPlan
from colonnade.privacy.observers import PartyView
from colonnade.protocols.specs import TrainingSpec

ROWS = 2


def encrypted_experiments(
    plan: EncryptedPlan, spec: TrainingSpec, claims: Sequence[Claim], rest: People
) -> list[Experiment]:
    """Every owner with two values of the others' part of the first record."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    experiments = []
    for claim in claims:
        owner = next(name for name in plan.group.owners if PartyView(name).name == claim.observer)
        others = [other for other in plan.group.owners if other != owner]
        # The observer's own part of the canary differs from the rest, so that it can tell their scores apart.
        record = mixed(low, high, [owner])
        worlds = [together([first, rest]) for first in (record, mixed(record, high, others))]
        experiments.append(
            Experiment(
                "neighbours",
                (claim,),
                1,
                either(worlds),
                _statistic(plan, owner),
                lambda _coins: spec,
                "the others' noisy scores of the record, solved for from the sums that it decrypted",
            )
        )
    return experiments


def _statistic(plan: EncryptedPlan, owner: str) -> Callable[[Session, Claim], Array]:
    def statistic(session: Session, _claim: Claim) -> Array:
        diary = session.result(owner).diary
        block = session.people[owner]
        features = plan.quantizers[owner].quantize(block) / plan.spec.gamma
        labels = None if block.label is None else 2.0 * block.label - 1.0
        score = 0.0
        for look in Sight(plan, owner, diary, features, labels).looks:
            own = look.own_scores if labels is None else look.own_scores - 2.0 * labels[look.rows]
            others = look.coefficients - own
            here = look.rows == 0
            if not here.any():
                continue
            if owner != plan.active:
                # −2y of the record, y going from −1 to 1.
                score -= float(others[here][0])
            elif (~here).any():
                score -= float(others[here][0] * others[~here].mean())
        return np.array([score])

    return statistic
