"""Training by private intermediate results, as a method: HDP-VFL made sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from colonnade.methods.glm.models import linear_model
from colonnade.methods.messages.plan import PrivateMessagesOptions, PrivateMessagesPlan
from colonnade.methods.messages.protocol import TrainedPart, private_messages_session
from colonnade.methods.method import Method, NoiseSummary, TrainedModel
from colonnade.models.files.document import Privacy
from colonnade.planning.cost import Axis, Pilot, in_rows, kept, product
from colonnade.protocols.plans import TrainingSpec

SPLIT = (
    "Each party keeps its own weights. The guarantees are about the messages of the training run: publishing the "
    "active party's weights, or predictions made with them, is not covered."
)
PAPER = "HDP-VFL's own noise, without clipping: paper formula, not a guarantee. Public data only."


def model(_requested: TrainingSpec, results: Mapping[str, TrainedPart]) -> TrainedModel:
    """The weights of those owners who are here; beside each other only a simulation in one process sees them."""
    first = next(iter(results.values()))
    plan = first.plan
    weights = {owner: part.weights for owner, part in results.items() if part.weights is not None}
    notes = (SPLIT,) if plan.options.calibration == "sound" else (PAPER, SPLIT)
    privacy = Privacy(plan.guarantees, reproducible=first.reproducible)
    trained = linear_model(plan.clipped, plan.loss, plan.label, weights, privacy=privacy, notes=notes)
    return replace(trained, figures=plan.figures)


def pilots(plan: PrivateMessagesPlan) -> tuple[Pilot, ...]:
    """Fewer epochs of fewer batches, or of fewer rows where all are one batch."""
    whole = plan.batch == plan.rows

    def at(epochs: int, number: int) -> PrivateMessagesPlan:
        rows = number if whole else number * plan.batch + plan.rows % plan.batch
        batch = rows if whole else plan.batch
        return kept(plan, replace(plan, spec=plan.spec.with_options(epochs=epochs), rows=rows, batch=batch))

    cells = sum(encoder.width for encoder in plan.clipped.encoders.values())
    rows = in_rows(plan.rows, cells) if whole else Axis(plan.rows // plan.batch, 2, 8)
    # Epochs are short here: two lines through few of them would magnify whatever disturbs the clock.
    return product([Axis(plan.options.epochs, 2, 10), rows], at)


METHOD = Method(
    name="private-messages",
    title="noisy scores and residuals, step by step",
    tasks=("classification", "regression"),
    options=PrivateMessagesOptions,
    session=lambda _requested: private_messages_session,
    model=model,
    checks=(),
    scores=None,
    resumable=True,
    pilots=pilots,
    noise=lambda plan: NoiseSummary(
        max(map(plan.sigma, plan.senders)), "every person's score or residual, each time"
    ),
    kernel="draws",
)
