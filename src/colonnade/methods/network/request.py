"""From what the parties want to a plan: parameters are checked, and noise is calibrated to ε."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, get_args

from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.terms import EMBEDDING_GRID, Mechanism, Regime
from colonnade.methods.network.views import cost_of, embedding_event, update_event
from colonnade.privacy.calibrate import calibrate, calibrate_poisson_binomial
from colonnade.privacy.events import Composed
from colonnade.privacy.neighbours import OthersPart
from colonnade.privacy.paper.pbm_vfl import local_variance
from colonnade.protocols.plans import Request, Task, check_parties, checked_delta
from colonnade.runtime.group import Group

# A step's counts, words and gradients are held at once by every party, and a gradient travels in one frame.
MOST_VALUES = 1 << 24
LARGEST_TRIALS = 1 << 12
LARGEST_PAPER_BETA = 0.25


@dataclass(frozen=True, kw_only=True)
class NetworkChoices:
    """What users choose of a network and parties compare.

    `beta` is given in the paper's regime, which calibrates nothing, and nowhere else. `label_epsilon` is what fellow
    parties may learn about a label: if it is not given, ε in the private-local regime and no bound in the paper's.
    `local_share` is the part of ε that embeddings get before local learning gets the rest. `held_out` is the share of
    records that only early stopping looks at, charged like the others.
    """

    regime: Regime = "frozen"
    mechanism: Mechanism = "poisson-binomial"
    embedding: int = 16
    trials: int = 16
    beta: float | None = None
    label_epsilon: float | None = None
    local_share: float = 0.5
    batch: int = 100
    epochs: int = 10
    held_out: float = 0.0
    clip: float = 1.0
    gradient_bits: int = 32
    coalitions: tuple[tuple[str, ...], ...] = ()

    @property
    def choices(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(NetworkChoices)}


@dataclass(frozen=True)
class EmbeddingsRequest(NetworkChoices, Request[EmbeddingsPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are.

    ε and δ are for what the label holder learns about one party's part of one record. `parameters` bounds the size of a
    local network.
    """

    task: Task
    epsilon: float | None
    bound: int = 1
    parameters: int = 1 << 16
    order_seed: int = 0

    method = "embeddings"

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> EmbeddingsPlan:
        """The plan with the least noise that keeps ε for what the label holder learns of one part of one record.

        The paper's regime takes b and β as given and promises nothing.
        """
        _check(self, group, schemas)
        paper = self.regime == "paper"
        if paper or self.mechanism == "none":
            delta = checked_delta(1.0, self.delta, self.accepted_delta, rows)
        else:
            delta = checked_delta(self.epsilon or 0.0, self.delta, self.accepted_delta, rows)
        blank = _blank(self, group, schemas, rows, delta)
        hiding = [party for party in blank.contributors if party != blank.receiver]
        if not hiding:
            raise PlanError(
                "an embedding is summed over at least one party beside the label holder; none declares a column."
            )
        if self.mechanism == "poisson-binomial" and len(blank.contributors) < 2:
            raise PlanError(
                f"{hiding[0]} alone declares columns, so that a sum of embeddings is its embedding. A secure sum needs "
                "two contributors or more; give the label holder columns too."
            )
        return blank if self.mechanism == "none" else _with_noise(blank, self, hiding)


def _blank(
    request: EmbeddingsRequest, group: Group, schemas: tuple[PublicSchema, ...], rows: int, delta: float
) -> EmbeddingsPlan:
    """The plan without its noise."""
    held_out = int(request.held_out * rows)
    if rows - held_out < 1:
        raise PlanError(
            f"held_out = {request.held_out:g} of {rows} records leaves none to learn from. Hold out fewer."
        )
    paper = request.regime == "paper"
    return EmbeddingsPlan(
        group=group,
        schemas=schemas,
        task=request.task,
        rows=rows,
        regime=request.regime,
        mechanism=request.mechanism,
        epsilon=math.inf if request.epsilon is None else float(request.epsilon),
        delta=delta,
        embedding=request.embedding,
        bound=request.bound,
        trials=request.trials,
        beta=Fraction(str(request.beta)) if paper and request.beta is not None else Fraction(0),
        local_variance=Fraction(0),
        update_variance=Fraction(0),
        label_trials=0,
        label_beta=Fraction(0),
        batch=min(request.batch, rows - held_out),
        epochs=request.epochs,
        held_out=held_out,
        clip=float(request.clip),
        parameters=request.parameters,
        gradient_bits=request.gradient_bits,
        order_seed=request.order_seed,
        coalitions=request.coalitions,
    )


def _with_noise(blank: EmbeddingsPlan, request: EmbeddingsRequest, hiding: list[str]) -> EmbeddingsPlan:
    plan = blank
    if plan.regime == "paper":
        if request.label_epsilon is not None:
            plan = _with_label_noise(plan, request.label_epsilon)
        if plan.mechanism == "poisson-binomial":
            return plan
        figure = local_variance(
            contributors=len(plan.contributors), trials=plan.trials, beta=float(plan.beta)
        )
        grid = Fraction(EMBEDDING_GRID, plan.bound) ** 2
        return replace(plan, local_variance=Fraction(str(figure.value)).limit_denominator(10**9) * grid)
    local = plan.learns_locally
    target = plan.epsilon * request.local_share if local else plan.epsilon
    if plan.mechanism == "poisson-binomial":
        event = calibrate_poisson_binomial(
            len(hiding),
            trials=(plan.trials,),
            times=plan.passes * plan.embedding,
            epsilon=target,
            delta=plan.delta,
        )
        plan = replace(plan, beta=Fraction(event.beta))
    else:
        variance = calibrate(
            lambda value: embedding_event(replace(blank, local_variance=value), known={blank.receiver}),
            epsilon=target,
            delta=blank.delta,
        )
        plan = replace(blank, local_variance=variance)
    if not local:
        return plan
    embeddings = embedding_event(plan, known={plan.receiver})
    variance = calibrate(
        lambda value: Composed((embeddings, update_event(replace(blank, update_variance=value)))),
        epsilon=plan.epsilon,
        delta=plan.delta,
        digits=4,
    )
    labels = plan.epsilon if request.label_epsilon is None else request.label_epsilon
    plan = _with_label_noise(replace(plan, update_variance=variance), labels)
    for view in plan.views:
        if view.unit == OthersPart() and math.isinf(cost_of(view.event, plan.delta).epsilon):
            raise PlanError(
                f"at ε = {plan.epsilon:g} for one party's part, {view.observer.name} would learn so much about whole "
                "records that nothing can be stated about them. Choose a smaller ε, fewer coordinates or epochs, or "
                "a smaller local_share."
            )
    return plan


def _with_label_noise(plan: EmbeddingsPlan, epsilon: float) -> EmbeddingsPlan:
    beta = _coin_beta(epsilon / plan.label_coordinates)
    return replace(plan, label_trials=1, label_beta=beta)


def _coin_beta(epsilon: float) -> Fraction:
    """β of one coin whose faces differ by at most e^ε between any two values: tanh(ε/2)/2, rounded down.

    One coin is also the best count for one number at the ε that labels are given: more trials at the same ε have a
    smaller bβ².
    """
    grid = 10**6
    return Fraction(max(1, min(math.floor(grid * math.tanh(epsilon / 2) / 2), grid // 2 - 1)), grid)


def _check(request: EmbeddingsRequest, group: Group, schemas: tuple[PublicSchema, ...]) -> None:
    """Refuse what no plan can be made of, each with what would do."""
    if request.task not in ("classification", "regression"):
        raise PlanError(f"networks learn classification or regression, not {request.task!r}.")
    check_parties(group, schemas, request.task)
    for name, kind, options in (
        ("regime", request.regime, get_args(Regime)),
        ("mechanism", request.mechanism, get_args(Mechanism)),
    ):
        if kind not in options:
            raise PlanError(f"{name} = {kind!r} is not one of {', '.join(options)}.")
    for name in ("embedding", "bound", "trials", "batch", "epochs", "parameters"):
        value = getattr(request, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise PlanError(f"{name} = {value!r} is not a whole number from 1.")
    if request.trials > LARGEST_TRIALS:
        raise PlanError(f"trials = {request.trials}: b is from 1 to {LARGEST_TRIALS}. Try 16.")
    if request.gradient_bits not in (16, 32):
        raise PlanError(f"gradient_bits = {request.gradient_bits!r}: a gradient travels in 16 or 32 bits.")
    if not 0 <= request.held_out < 1:
        raise PlanError(f"held_out = {request.held_out!r} is a share of the records from 0 to below 1.")
    if not (math.isfinite(request.clip) and request.clip > 0):
        raise PlanError(f"clip = {request.clip!r} is not a positive number.")
    check_batch(request.batch, request.embedding)
    for members in request.coalitions:
        strangers = sorted(set(members) - set(group.owners))
        if len(set(members)) < 2 or strangers:
            raise PlanError(
                f"a coalition is two owners or more of {', '.join(group.owners)}, not {', '.join(members)}."
            )
    _check_noise(request)


def _check_noise(request: EmbeddingsRequest) -> None:
    paper = request.regime == "paper"
    labels = request.label_epsilon
    if labels is not None and not (math.isfinite(labels) and labels > 0):
        raise PlanError(f"label_epsilon = {labels!r} is not a positive number.")
    if request.mechanism == "none" and not paper:
        raise PlanError(
            "mechanism 'none' sends embeddings as they are. It is a baseline for public data: use regime 'paper'."
        )
    if paper:
        given = request.beta
        if request.mechanism != "none" and (given is None or not 0 < given <= LARGEST_PAPER_BETA):
            raise PlanError(
                f"beta = {given!r}: the paper's regime takes β from above 0 to 1/4, and b = trials, as given."
            )
        return
    if request.beta is not None:
        raise PlanError(
            f"beta = {request.beta!r}: regime {request.regime!r} calibrates β to ε. Leave it out, or use 'paper'."
        )
    if request.epsilon is None:
        raise PlanError(f"regime {request.regime!r} needs ε. Try 8.")
    if not 0 < request.local_share < 1:
        raise PlanError(f"local_share = {request.local_share!r} is a share of ε between 0 and 1.")


def check_batch(batch: int, embedding: int) -> None:
    """Refuse a step whose arrays would not fit; the error says what does."""
    if batch * embedding > MOST_VALUES:
        raise PlanError(
            f"batches of {batch} records with {embedding} coordinates are {batch * embedding} values a step; "
            f"{MOST_VALUES} fit. Use batches of at most {max(1, MOST_VALUES // embedding)}."
        )
