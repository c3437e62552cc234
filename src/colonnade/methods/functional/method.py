"""The functional mechanism as a method: open a noisy quadratic objective once, minimise it for free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.data.labels import LabelBlock
from colonnade.errors import LabelMismatch, PlanError
from colonnade.forecast.pilots import Pilot, in_blocks, kept
from colonnade.methods.baselines.gathering import encoded_rows, gather
from colonnade.methods.functional.minimise import (
    Minimum,
    check_classes,
    minimise,
    opened_objective,
    paper_objective,
)
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.functional.protocol import OpenedObjective, functional_session
from colonnade.methods.method import (
    LinearModel,
    Method,
    Noise,
    TrainedModel,
    in_label_units,
    plan_views,
)
from colonnade.models.input_spec import InputSpec
from colonnade.models.privacy import Privacy
from colonnade.privacy.guarantee import epsilon_text
from colonnade.privacy.paper.figure import LABEL, PaperFigure
from colonnade.privacy.paper.functional_mechanism import (
    bottom_up_epsilon,
    linear_block_sensitivity,
    linear_party_sensitivity,
    linear_sensitivity,
    logistic_block_sensitivity,
    logistic_party_sensitivity,
    logistic_sensitivity,
    party_epsilon,
)
from colonnade.protocols.specs import TrainingSpec, options_of

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation

Array = NDArray[np.float64]
Positive = Annotated[float, Field(gt=0)]


def model(asked: TrainingSpec, results: Mapping[str, OpenedObjective]) -> TrainedModel | None:
    """The model at the minimum of the objective, which every owner and the server have."""
    opened = next((opened for opened in results.values() if opened.coefficients.size), None)
    return None if opened is None else objective_model(opened, options_of(asked, FunctionalOptions))


def objective_model(opened: OpenedObjective, options: FunctionalOptions) -> LinearModel:
    """The model at the minimum of an objective that was opened, for whoever has it."""
    check_classes(opened)
    plan, minimum = opened.plan, minimise(opened_objective(opened), ridge=options.ridge)
    # `frame.features` are divided by √m, as in the ball; the box has them as they are.
    scale = math.sqrt(plan.attributes) if plan.options.domain == "box" else 1.0
    coefficients, intercepts = _in_label_units(minimum, plan.label, scale)
    return LinearModel(
        coefficients,
        intercepts,
        frame=InputSpec(tuple(plan.encoders.items()), plan.label),
        privacy=Privacy(plan.guarantees, reproducible=opened.reproducible),
        notes=notes_on(plan, minimum),
    )


def notes_on(plan: FunctionalPlan, minimum: Minimum | None = None) -> tuple[str, ...]:
    """The bill, block by block, each party's own ε, and what the minimum left out."""
    lines = [f"Block {line}." for line in plan.bill]
    for stated in plan.part_guarantees:
        lines.append(f"{stated.unit.sentence}: ε = {epsilon_text(stated.epsilon)} to the server.")
    if plan.options.budget == "bottom-up":
        total = sum(epsilon for _, epsilon in plan.epsilons)
        lines.append(f"Bottom-up: the blocks' ε sum to {total:.6g}, by plain composition.")
    if minimum is not None and minimum.dropped:
        lines.append(f"{minimum.dropped} directions were lost in noise and left out.")
    return tuple(lines)


def pilots(plan: FunctionalPlan) -> tuple[Pilot, ...]:
    return in_blocks(plan, plan.block, lambda rows: kept(plan, replace(plan, rows=rows), "field"))


def noise(plan: FunctionalPlan) -> Noise:
    return Noise(max(line.deviation for line in plan.bill), "a coefficient, a sum over all people")


def _in_label_units(minimum: Minimum, label: LabelBlock, scale: float) -> tuple[Array, Array]:
    """Log-odds as they are; numbers back from [−1, 1] to the label's own units."""
    weights, intercept = scale * minimum.weights[None, :], np.array([minimum.intercept])
    return (weights, intercept) if label.one_hot else in_label_units(label, weights, intercept)


def as_in_the_paper(federation: Federation, asked: TrainingSpec) -> TrainedModel:
    """Laplace noise of the paper's scale on coefficients in the clear, for data that everybody declared public."""
    options = options_of(asked, FunctionalOptions)
    rows = gather(federation, asked)
    if rows.plan.label.one_hot and rows.plan.label.width != 2:
        raise LabelMismatch(
            f"the logistic objective tells two classes apart; {rows.plan.label.width} are declared."
        )
    schemas = rows.plan.schemas
    encoders = tuple((schema.party, schema.encoder("linear")) for schema in schemas)
    scale = math.sqrt(sum(encoder.attributes for _, encoder in encoders))
    features = encoded_rows(rows.tables, encoders) * scale
    labels = rows.labels if rows.plan.label.one_hot else rows.plan.label.to_unit(rows.labels)
    randomness = federation.randomness("trusted party")
    objective = paper_objective(
        features, labels, task=asked.task, epsilon=asked.epsilon, randomness=randomness
    )
    minimum = minimise(objective, ridge=options.ridge)
    coefficients, intercepts = _in_label_units(minimum, rows.plan.label, scale)
    widths = {party: encoder.width for party, encoder in encoders}
    holder = rows.plan.label_holder
    figures = paper_figures(asked, widths, holder, dict(options.epsilons))
    return LinearModel(
        coefficients,
        intercepts,
        frame=InputSpec(encoders, rows.plan.label),
        privacy=Privacy(()),
        notes=(f"Calibrated as the paper says: {LABEL}.",),
        figures=figures,
    )


def paper_figures(
    asked: TrainingSpec, widths: dict[str, int], holder: str, epsilons: dict[str, float]
) -> tuple[PaperFigure, ...]:
    """Δ_f, every party's Δ_f^k and ε^(k), and bottom-up the ε of Corollary 1, as the paper's formulas have them."""
    logistic = asked.task == "classification"
    features = sum(widths.values())
    whole = logistic_sensitivity(features) if logistic else linear_sensitivity(features)
    figures = [whole]
    for party, own in widths.items():
        of_party = logistic_party_sensitivity if logistic else linear_party_sensitivity
        part = of_party(features, own=own, holds_label=party == holder)
        figures += [part, party_epsilon(asked.epsilon, party_sensitivity=part, sensitivity=whole)]
    if epsilons:
        of_block = logistic_block_sensitivity if logistic else linear_block_sensitivity
        single = [
            (of_block(own, label=0 if party == holder else None).value, _named(epsilons, party))
            for party, own in widths.items()
        ]
        cross = [
            (
                of_block(
                    widths[first],
                    other=widths[second],
                    label=(first, second).index(holder) if holder in (first, second) else None,
                ).value,
                _named(epsilons, f"{first}+{second}"),
            )
            for first, second in combinations(widths, 2)
        ]
        figures.append(bottom_up_epsilon(whole.value, single=single, cross=cross))
    return tuple(figures)


def _named(epsilons: dict[str, float], name: str) -> float:
    """The ε of a block, whichever way round two parties are named."""
    for given, value in epsilons.items():
        if set(given.replace(" ", "").split("+")) == set(name.split("+")):
            return value
    raise PlanError(f"bottom-up, every block needs an ε, and epsilons has none for {name}.")


METHOD = Method(
    name="functional",
    title="functional mechanism",
    tasks=("classification", "regression"),
    options=FunctionalOptions,
    session=lambda _asked: functional_session,
    model=model,
    views=plan_views,
    checks=("rows",),
    scores="released weights",
    resumable=False,
    pilots=pilots,
    noise=noise,
    kernel="products",
    paper=as_in_the_paper,
)
