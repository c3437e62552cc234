"""Gradient descent under Paillier encryption, as a method: with a sound defence, the paper's, or none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from colonnade.crypto.paillier_keys import KEY_BITS
from colonnade.data.documents import Form
from colonnade.data.number_codes import Mode
from colonnade.data.table import Table
from colonnade.errors import OnlyForPublicData
from colonnade.forecast.pilots import Pilot, kept
from colonnade.methods.encrypted.ideal import ideal_descent
from colonnade.methods.encrypted.plan import Defence, EncryptedPlan, Initialisation
from colonnade.methods.encrypted.protocol import Descended, encrypted_session
from colonnade.methods.encrypted.request import EncryptedRequest
from colonnade.methods.encrypted.sigmoid import Approximation
from colonnade.methods.method import (
    LinearModel,
    Method,
    Noise,
    TrainedModel,
    TrainingSpec,
    options_of,
    plan_views,
)
from colonnade.models.input_spec import InputSpec
from colonnade.models.privacy import Privacy
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.paillier import PaillierKeys
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

Positive = Annotated[float, Field(gt=0)]


class EncryptedOptions(Form):
    """How the descent goes. Left out, `batch` is 256 or all rows, and `learning_rate` 2, or 1: see `_default_rate`."""

    approximation: Approximation = "taylor"
    initialisation: Initialisation = "zero"
    epochs: Annotated[int, Field(ge=1)] = 5
    batch: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | None = None
    radius: Positive = 2.0
    encoding: Literal["linear", "circle"] = "linear"
    key_bits: int = min(KEY_BITS)
    defence: Defence = "sound"


def _default_rate(options: EncryptedOptions) -> float:
    # A paper's formula takes steps of at most 1; piecewise ones grow apart from just below 2.
    return 1.0 if options.defence == "paper" or options.approximation == "piecewise" else 2.0


def request(asked: TrainingSpec, alignment: Alignment, public: tuple[str, ...] = ()) -> EncryptedRequest:
    """What the parties compare. Without a sound defence a run is of public data, in one process, and nowhere else."""
    options = options_of(asked, EncryptedOptions)
    if options.defence != "sound" and not public:
        raise OnlyForPublicData(
            f"defence = {options.defence!r} runs on public data in one process and promises nothing. "
            "Use defence = 'sound'."
        )
    encoding: Mode = options.encoding
    return EncryptedRequest(
        approximation=options.approximation,
        initialisation=options.initialisation,
        epochs=options.epochs,
        batch=options.batch,
        learning_rate=options.learning_rate or _default_rate(options),
        defence=options.defence,
        radius=options.radius,
        encoding=encoding,
        gamma=asked.gamma,
        keys=PaillierKeys(options.key_bits),
        declared_public=public,
        **asked.target(alignment),
    )


def model(_asked: TrainingSpec, results: Mapping[str, Descended]) -> TrainedModel:
    """A classifier of two classes: the weights of those owners who are here, each of whom has its own and no others."""
    first = next(iter(results.values()))
    plan, defence = first.plan, first.plan.request.defence
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
    batch, epochs = plan.schedule.batch, plan.request.epochs
    batches, rest = divmod(plan.rows, batch)

    def at(epochs: int, batches: int) -> EncryptedPlan:
        request = replace(plan.request, epochs=epochs, batch=batch)
        return kept(plan, replace(plan, request=request, rows=batches * batch + rest))

    if epochs * batches <= 6:
        return (Pilot(plan, 1.0, 1.0),)
    # Nothing but batches costs anything here, so three pilots do: cost = F + epochs · (A · batches + R).
    share = 1.0 / (epochs * batches)
    first, listed = 1.0, []
    if epochs > 1:
        passes = min(epochs, 2)
        weight = (epochs - 1) / (passes - 1)
        listed.append(Pilot(at(passes, 1), weight, passes * share))
        first -= weight
    if batches > 1:
        some = min(batches, 3)
        weight = epochs * (batches - 1) / (some - 1)
        listed.append(Pilot(at(1, some), weight, some * share))
        first -= weight
    return (Pilot(at(1, 1), first, share), *listed)


def noise(plan: EncryptedPlan) -> Noise | None:
    """What every message carries; nothing without a defence."""
    if not plan.noise:
        return None
    largest = max(float(variance) for _, variance in plan.noise)
    return Noise(math.sqrt(largest) / 2**plan.fraction_bits, "every person's score, each time")


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
    request=request,
    session=lambda _asked: encrypted_session,
    model=model,
    views=plan_views,
    checks=(),
    scores=None,
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="powers",
    twin=twin,
)
