"""Gradient descent under Paillier encryption, as a method: with a sound defence, the paper's, or none."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from colonnade.crypto.paillier_keys import KEY_BITS
from colonnade.data.documents import Form
from colonnade.data.encoding import Mode
from colonnade.errors import OnlyForPublicData
from colonnade.learn.federation import Federation
from colonnade.learn.frame import Frame
from colonnade.learn.method import Asked, Learnt, LearntLinear, Method
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.encrypted_gradient import encrypted_session
from colonnade.protocols.encrypted_plan import Defence, EncryptedPlan, Initialisation
from colonnade.protocols.encrypted_planning import EncryptedRequest
from colonnade.protocols.paillier_plan import PaillierKeys
from colonnade.protocols.sigmoid import Approximation

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
# A paper's formula takes steps of at most 1.
_RATES: dict[Defence, float] = {"sound": 2.0, "paper": 1.0, "none": 2.0}


class EncryptedOptions(Form):
    """How the descent goes. Left out, `batch` is 256 or all rows, and `learning_rate` 2, in paper mode 1."""

    approximation: Approximation = "taylor"
    initialisation: Initialisation = "zero"
    epochs: Annotated[int, Field(ge=1)] = 5
    batch: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | None = None
    radius: Positive = 2.0
    encoding: Literal["linear", "circle"] = "linear"
    key_bits: int = min(KEY_BITS)
    defence: Defence = "sound"


def train(federation: Federation, asked: Asked) -> Learnt:
    """A classifier of two classes whose weights stay with their parties."""
    run = federation.run(encrypted_session, request_of(federation, asked))
    plan = run.plan
    weights = np.concatenate([run.result(owner).weights for owner in plan.group.owners])
    defence = plan.request.defence
    return LearntLinear(
        weights[None, :],
        np.zeros(1),
        frame=frame_of(plan),
        privacy=run.privacy,
        run=run,
        split=True,
        notes=(NOTES[defence], SPLIT) if defence == "sound" else (NOTES[defence],),
        figures=plan.figures,
    )


def request_of(federation: Federation, asked: Asked) -> EncryptedRequest:
    """What the parties are asked to run here; without a sound defence only where all data is public."""
    public = federation.group.owners if federation.public else ()
    return _request(asked, federation.alignment, public)


def request(asked: Asked, alignment: Alignment) -> EncryptedRequest:
    """What the parties compare. Without a sound defence a run is of public data, in one process, and nowhere else."""
    options = encrypted_options(asked)
    if options.defence != "sound":
        raise OnlyForPublicData(
            f"defence = {options.defence!r} runs on public data in one process and promises nothing. "
            "Use defence = 'sound'."
        )
    return _request(asked, alignment, ())


def encrypted_options(asked: Asked) -> EncryptedOptions:
    """The options of this method, which other methods' are not."""
    if not isinstance(asked.options, EncryptedOptions):
        raise TypeError(f"the encrypted gradient takes EncryptedOptions, not {type(asked.options).__name__}")
    return asked.options


def _request(asked: Asked, alignment: Alignment, public: tuple[str, ...]) -> EncryptedRequest:
    options = encrypted_options(asked)
    encoding: Mode = options.encoding
    return EncryptedRequest(
        epsilon=asked.epsilon,
        delta=asked.delta,
        accepted_delta=asked.accepted_delta,
        approximation=options.approximation,
        initialisation=options.initialisation,
        epochs=options.epochs,
        batch=options.batch,
        learning_rate=options.learning_rate or _RATES[options.defence],
        defence=options.defence,
        radius=options.radius,
        encoding=encoding,
        gamma=asked.gamma,
        keys=PaillierKeys(options.key_bits),
        declared_public=public,
        alignment=alignment,
    )


def frame_of(plan: EncryptedPlan) -> Frame:
    """What the model reads people with."""
    return Frame(tuple(plan.encoders.items()), plan.label, plan.attributes)


METHOD = Method(
    "encrypted",
    "gradient descent under Paillier encryption",
    ("classification",),
    EncryptedOptions,
    train,
    request=request,
)
