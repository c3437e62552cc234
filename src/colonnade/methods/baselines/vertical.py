"""What private messages are compared with: vertical training without noise, and one party alone.

`exactly` also solves any loss with all rows in one place; for two losses the method "non-private" does that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from colonnade.errors import LabelMismatch, OnlyForPublicData
from colonnade.federation.federation import Federation
from colonnade.methods.glm.interfaces import Loss
from colonnade.methods.glm.models import linear_model
from colonnade.methods.glm.options import GlmOptions, Positive, chosen_loss
from colonnade.methods.glm.rows import ClippedRows
from colonnade.methods.glm.solver import solve_parts
from colonnade.methods.messages.method import SPLIT
from colonnade.methods.messages.plan import IntermediateOptions
from colonnade.methods.messages.protocol import intermediate_session
from colonnade.methods.method import Baseline, TrainedModel
from colonnade.models.privacy import Privacy
from colonnade.protocols.plans import check_parties
from colonnade.protocols.specs import TrainingSpec, options_of

NO_NOISE = "Messages were sent without noise, for comparison: no privacy. Public data only."
ALONE = "The active party trained on its own columns alone. Nothing left it, and nothing reached it."
TOGETHER = "All rows lay in one place, without any privacy, for comparison. Public data only."
# Nothing pulls weights back in an ideal run, and rows that are not stretched need no clipping.
_FAR = 1e6
# 2/β for rows of norm 1, where the loss has a curvature β at most; a guess where it has none.
_RATES = {"logistic": 8.0, "svm": 1.0, "least_squares": 1.0, "poisson": 0.2, "gamma": 0.2}


class IdealOptions(GlmOptions):
    """How a descent without noise goes; there is nothing to protect, so there is no radius.

    `learning_rate` left out is 8 for the logistic loss and smaller for losses that bend more.
    """

    epochs: Annotated[int, Field(ge=1)] = 500
    batch: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | None = None
    seed: Annotated[int, Field(ge=0)] = 0


def ideal(federation: Federation, asked: TrainingSpec) -> TrainedModel:
    """The protocol of private messages with nothing added to them."""
    options = options_of(asked, IdealOptions)
    loss = chosen_loss(asked, options)
    return ideal_messages(federation, asked, loss, options)


def ideal_messages(
    federation: Federation, asked: TrainingSpec, loss: Loss, options: IdealOptions
) -> TrainedModel:
    """Vertical training without noise, of any loss."""
    _only_public(federation)
    messages = IntermediateOptions.model_validate(
        options.model_dump()
        | {
            "loss": loss.name,
            "learning_rate": options.learning_rate or _RATES[loss.name],
            "radius": _FAR,
            "stretch": 1.0,
        }
    )
    spec = replace(asked, options=messages, public=federation.group.owners, alignment=federation.alignment)
    spec = spec.with_options(calibration="none")
    run = federation.run(intermediate_session, spec)
    plan = run.plan
    weights = {owner: run.result(owner).weights for owner in plan.group.owners}
    notes = (NO_NOISE, SPLIT)
    trained = linear_model(plan.clipped, loss, plan.label, weights, privacy=Privacy(()), notes=notes)
    return replace(trained, run=run)


def alone(federation: Federation, asked: TrainingSpec) -> TrainedModel:
    """The active party without the others: its exact model on its own columns, 0 on everybody else's."""
    options = options_of(asked, GlmOptions)
    loss = chosen_loss(asked, options)
    return exactly(federation, asked, loss, options, alone=True)


def exactly(
    federation: Federation, asked: TrainingSpec, loss: Loss, options: GlmOptions, *, alone: bool
) -> TrainedModel:
    """The exact model of any loss, of the active party alone or of all rows, on the people in common."""
    if not alone:
        _only_public(federation)
    group = federation.group
    schemas = tuple(federation.tables[owner].schema.public(owner) for owner in group.owners)
    check_parties(group, schemas, asked.task)
    active = group.active or group.owners[0]
    clipped = ClippedRows(schemas, active, stretch=1.0)
    results = federation.align().results
    tables = {owner: results[owner] for owner in ((active,) if alone else group.owners)}
    label = federation.tables[active].schema.label
    if label is None:
        raise LabelMismatch(f"{active} declares no label.")
    loss.check(label)
    parts = {
        owner: np.concatenate([clipped.of(owner, block) for block in table.blocks()])
        for owner, table in tables.items()
    }
    labels = np.concatenate([block.label for block in tables[active].blocks() if block.label is not None])
    targets = loss.targets(label, labels)
    weights = solve_parts(parts, targets, active=active, loss=loss, penalty=options.penalties())
    for owner in group.owners:
        weights.setdefault(owner, np.zeros(clipped.encoders[owner].width))
    notes = (ALONE if alone else TOGETHER,)
    return linear_model(clipped, loss, label, weights, privacy=Privacy(()), notes=notes, split=alone)


def _only_public(federation: Federation) -> None:
    if not federation.public:
        raise OnlyForPublicData(
            "this baseline protects nobody, so it runs only on data that every party declared public "
            "(public = true in each party's file). Nothing was read or charged."
        )


IDEAL = Baseline(
    name="vfl-non-private",
    title="vertical training by messages without noise",
    tasks=("classification", "regression"),
    options=IdealOptions,
    simulate=ideal,
    private=False,
    everybodys_rows=True,
)
SINGLE = Baseline(
    name="single-party",
    title="the active party alone, exact",
    tasks=("classification", "regression"),
    options=GlmOptions,
    simulate=alone,
    private=False,
    everybodys_rows=False,
)
