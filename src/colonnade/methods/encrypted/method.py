"""Gradient descent under Paillier encryption, as a method: with a sound defence, the paper's, or none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from colonnade.data.table import Table
from colonnade.methods.encrypted.plan import Defence, EncryptedOptions, EncryptedPlan
from colonnade.methods.encrypted.protocol import Descended, encrypted_session, ideal_descent
from colonnade.methods.method import LinearModel, Method, NoiseSummary, TrainedModel
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.planning.cost import Pilot, kept
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import Randomness

SPLIT = (
    "Each party keeps its own weights. The guarantees are about the messages of the training run: publishing weights, "
    "or predictions made with them, is not covered."
)
NOTES: dict[Defence, str] = {
    "sound": "Noise is on every message before it is encrypted; ε does not rest on the encryption.",
    "paper": "Noise of the size of equations (71) and (72): paper formula, not a guarantee. Public data only.",
    "none": "No defence, no ε: labels and columns can be read from the gradients. Public data only.",
}


def model(_requested: TrainingSpec, results: Mapping[str, Descended]) -> TrainedModel:
    """A classifier of two classes: the weights of those owners who are here, each of whom has its own and no others."""
    first = next(iter(results.values()))
    plan, defence = first.plan, first.plan.options.defence
    parts = {owner: results[owner].weights for owner in plan.group.owners if owner in results}
    return LinearModel(
        np.concatenate([np.zeros(0), *parts.values()])[None, :],
        np.zeros(1),
        frame=frame_of(plan, parts),
        privacy=Privacy(plan.guarantees, reproducible=first.reproducible),
        split=True,
        notes=(NOTES[defence], SPLIT) if defence == "sound" else (NOTES[defence],),
        figures=plan.figures,
    )


def frame_of(plan: EncryptedPlan, owners: Iterable[str]) -> InputSpec:
    here = tuple((owner, plan.encoders[owner]) for owner in owners)
    return InputSpec(here, plan.label, plan.attributes)


def pilots(plan: EncryptedPlan) -> tuple[Pilot, ...]:
    batch, epochs = plan.schedule.batch, plan.options.epochs
    batches, rest = divmod(plan.rows, batch)

    def at(epochs: int, batches: int) -> EncryptedPlan:
        shorter = replace(
            plan, spec=plan.spec.with_options(epochs=epochs, batch=batch), rows=batches * batch + rest
        )
        return kept(plan, shorter)

    if epochs * batches <= 6:
        return (Pilot(plan, 1.0, 1.0),)
    # Nothing but batches costs anything here, so three pilots do: cost = F + epochs · (A · batches + R).
    share, listed = 1.0 / (epochs * batches), []
    if epochs > 1:
        listed.append(Pilot(at(2, 1), epochs - 1.0, 2 * share))
    if batches > 1:
        some = min(batches, 3)
        listed.append(Pilot(at(1, some), epochs * (batches - 1) / (some - 1), some * share))
    return (Pilot(at(1, 1), 1.0 - sum(pilot.weight for pilot in listed), share), *listed)


def noise(plan: EncryptedPlan) -> NoiseSummary | None:
    if not plan.noise:
        return None
    largest = max(float(variance) for _, variance in plan.noise)
    return NoiseSummary(math.sqrt(largest) / 2**plan.fraction_bits, "every person's score, each time")


def twin(plan: EncryptedPlan, tables: Mapping[str, Table], randomness: Randomness) -> TrainedModel:
    """What the descent without encryption learns: the same noise in the same places, far quicker."""
    weights = ideal_descent(plan, tables, dict.fromkeys(plan.group.owners, randomness)).weights
    together = np.concatenate([weights[owner] for owner in plan.group.owners])
    return LinearModel(
        frame=frame_of(plan, plan.group.owners),
        coefficients=together[None, :],
        intercepts=np.zeros(1),
        privacy=Privacy(()),
    )


METHOD = Method(
    name="encrypted",
    title="gradient descent under Paillier encryption",
    tasks=("classification",),
    options=EncryptedOptions,
    session=lambda _requested: encrypted_session,
    model=model,
    checks=(),
    scores=None,
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="powers",
    twin=twin,
)
