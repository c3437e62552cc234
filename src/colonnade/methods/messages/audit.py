"""How parties that train by noisy messages look for one record in them.

Given everything that was sent, a party's weights follow from its own rows. Whoever knows all rows but one can therefore
follow them on either of two data sets, and compare what was sent with what each of them would have sent: the likelihood
ratio. A passive party does not see what other passive parties send; it reckons with what they would have sent without
noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from colonnade.audits.experiments import Array, Claim, Experiment
from colonnade.audits.people import People, chosen, corner, either, mixed, together
from colonnade.audits.sessions import Session, alone
from colonnade.methods.glm.rows import CONSTANT
from colonnade.methods.messages.plan import GRID, IntermediatePlan
from colonnade.methods.messages.protocol import Descent, step_weights
from colonnade.privacy.observers import PartyView
from colonnade.protocols.specs import TrainingSpec
from colonnade.randomness import SeededRandomness, public_permutation

ROWS = 4
"""Records of a session with one canary: few, so that noise moves weights far and the record counts for much."""
MANY = 200


def message_experiments(
    plan: IntermediatePlan, spec: TrainingSpec, claims: Sequence[Claim], rest: People
) -> list[Experiment]:
    """Every claim with one record among few; what the active party sends, also with every record of many."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    experiments = []
    for claim in claims:
        sees = [owner for owner in plan.group.owners if f"party:{owner}" == claim.observer]
        if sees:
            changed = [owner for owner in plan.group.owners if owner not in sees]
        else:
            changed = [owner for owner in plan.group.owners if claim.unit == f"own-part:{owner}"]
        worlds = [together([record, rest]) for record in (low, mixed(low, high, changed))]
        experiments.append(
            Experiment(
                "neighbours",
                (claim,),
                1,
                either(worlds),
                _ratio(plan, changed, worlds, sees),
                lambda _coins: spec,
                "the likelihood ratio of every message, the senders' weights followed on either data set",
            )
        )
    return experiments


def canary_message_experiments(
    plan: IntermediatePlan, spec: TrainingSpec, claims: Sequence[Claim]
) -> list[Experiment]:
    """Many records in one session, each with a coin, to whoever reads the active party's residuals."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    second = mixed(low, high, [plan.active])
    order = np.argsort(public_permutation(plan.rows, plan.options.seed))
    target = plan.loss.targets(plan.label, _labels(together([low, high]), plan.active))
    sign = float(np.sign(np.diff(plan.loss.residual(np.zeros(2), target))[0]))

    def statistic(session: Session, _claim: Claim) -> Array:
        reader = plan.passive[0]
        values = [said.arrays["values"] for said in session.heard(reader, "residuals")]
        steps = plan.schedule.steps_per_epoch
        epochs = [np.concatenate(values[i : i + steps]) for i in range(0, len(values), steps)]
        return np.asarray(sign * np.asarray(np.sum(epochs, axis=0, dtype=np.float64))[order])

    seen = tuple(
        claim
        for claim in claims
        if claim.observer in {PartyView(owner).name for owner in plan.passive}
        or claim.unit == f"own-part:{plan.active}"
    )
    if not seen or not sign:
        return []
    return [
        Experiment(
            "canaries",
            seen,
            plan.rows,
            lambda coins: chosen(low, second, coins),
            statistic,
            lambda _coins: spec,
            "the sum of each record's noisy residuals over the epochs",
        )
    ]


def _labels(people: People, active: str) -> Array:
    label = people[active].label
    if label is None:
        raise ValueError("the active party has no label")
    return label


def _ratio(
    plan: IntermediatePlan, changed: Sequence[str], worlds: Sequence[People], sees: Sequence[str]
) -> Callable[[Session, Claim], Array]:
    def statistic(session: Session, _claim: Claim) -> Array:
        ratio = 0.0
        for owner in changed:
            if owner == plan.active or plan.active in sees or not sees:
                sent = messages_of(plan, session, owner)
                first, second = (expected(plan, session, owner, people, sees=sees) for people in worlds)
                variance = plan.sigma(owner) ** 2
                ratio += sum(
                    float(np.sum((values - a) ** 2) - np.sum((values - b) ** 2)) / (2 * variance)
                    for values, a, b in zip(sent, first, second, strict=True)
                )
        return np.array([ratio])

    return statistic


def messages_of(plan: IntermediatePlan, session: Session, owner: str) -> list[Array]:
    """What an owner sent at each step, as numbers."""
    if owner == plan.active:
        said = session.heard(plan.passive[0], "residuals")
    else:
        said = session.heard(plan.active, "scores", sender=owner)
    return [message.arrays["values"] * float(GRID) for message in said]


def expected(
    plan: IntermediatePlan, session: Session, owner: str, people: People, *, sees: Sequence[str] = ()
) -> list[Array]:
    """What an owner would have sent, noise aside, if these were its rows and everybody else had sent what they did.

    `sees` is whose eyes it is followed with, nobody's for all of them together. Scores go to the active party alone: of
    those that a passive party neither sent nor received it knows what these people would have made them, noise aside.
    """
    features, targets = _in_order(plan, owner, people)
    party = alone(plan.group, owner, SeededRandomness(0))
    state = Descent(np.zeros(features.shape[1]), rate=plan.rate(owner))
    if owner == plan.active:
        received = {
            passive: messages_of(plan, session, passive)
            if not sees or passive in sees
            else expected(plan, session, passive, people)
            for passive in plan.passive
        }
    else:
        received = {plan.active: messages_of(plan, session, plan.active)}
    sent = []
    for step, rows in plan.batches():
        batch = features[rows]
        scores = batch @ state.weights
        if targets is None:
            residuals = received[plan.active][step]
            if plan.clip is not None:
                residuals = np.clip(residuals, -plan.clip, plan.clip)
            sent.append(scores)
        else:
            for passive in plan.passive:
                told = received[passive][step]
                if plan.options.calibration == "sound":
                    limit = plan.radius * plan.cap(passive)
                    told = np.clip(plan.weight(passive) * told, -limit, limit)
                scores = scores + told
            residuals = plan.loss.residual(scores, targets[rows])
            sent.append(residuals)
        step_weights(party, plan, state, batch=batch, residuals=residuals)
    return sent


def _in_order(plan: IntermediatePlan, owner: str, people: People) -> tuple[Array, Array | None]:
    """An owner's rows in the public order of the batches, and at the active party the constant and its targets."""
    order = public_permutation(plan.rows, plan.options.seed)
    features = plan.clipped.of(owner, people[owner])[order]
    if owner != plan.active:
        return features, None
    targets = plan.loss.targets(plan.label, _labels(people, owner))[order]
    return np.column_stack([features, np.full(plan.rows, CONSTANT)]), targets
