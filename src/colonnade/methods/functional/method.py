"""The functional mechanism as a method: open a noisy quadratic objective, then minimise it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from colonnade.data.labels import LabelBlock
from colonnade.errors import DrownedByNoise, LabelMismatch, PlanError
from colonnade.methods.baselines.gathering import encoded_rows, gather
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.functional.protocol import OpenedObjective, functional_session
from colonnade.methods.method import Array, LinearModel, Method, NoiseSummary, TrainedModel, in_label_units
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.models.moments import Spectrum, decompose, floor_of
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise
from colonnade.planning.cost import in_blocks
from colonnade.privacy import paper
from colonnade.privacy.guarantee import epsilon_text
from colonnade.protocols.plans import Task, TrainingSpec, options_of
from colonnade.randomness import Randomness

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation


_GRID = 1 << 20  # steps of the discrete Laplace noise in one scale of the continuous one that it stands for


@dataclass(frozen=True, eq=False)
class Objective:
    """f(w) = wᵀMw + λᵀw; with an intercept the last coordinate is its. `noise` is the deviation of an entry of M."""

    quadratic: Array
    linear: Array
    noise: float
    border_noise: float = 0.0
    intercept: bool = False


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where f is smallest, w and intercept; `dropped` directions could not be told from noise and are left out."""

    weights: Array
    intercept: float
    dropped: int = 0

    def in_units_of(self, label: LabelBlock, scale: float) -> tuple[Array, Array]:
        return in_label_units(label, scale * self.weights[None, :], np.array([self.intercept]))


def minimise(objective: Objective, *, ridge: float | None = None) -> Minimum:
    """The minimum of a noisy objective, with its intercept free.

    Without `ridge` eigenvalues are raised to min(2√d, 12) standard deviations of the noise. With it, so many are added
    to each, and directions still not positive are left out: 4 is what Zhang et al. propose.

    For given w the intercept is b = −(λ₀/2 + aᵀw)/m, where a is its row of M and m its square. a is in λ − aλ₀/m and in
    aᵀw, so noise of deviation s shifts aᵀw by λ₀ s² tr(T⁻¹)/2m on average, which is taken off again.
    """
    matrix, linear = objective.quadratic, objective.linear
    if not objective.intercept:
        spectrum = _spectrum(matrix, objective.noise, ridge)
        return Minimum(-0.5 * spectrum.solve(linear), 0.0, int(np.count_nonzero(spectrum.inverse == 0)))
    inner, row, square = matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1])
    first, last = linear[:-1], float(linear[-1])
    spectrum = _spectrum(inner - np.outer(row, row) / square, objective.noise, ridge)
    weights = -0.5 * spectrum.solve(first - row * (last / square))
    shared = 0.5 * (last / square) * objective.border_noise**2 * spectrum.inverse_trace
    intercept = -(last / 2.0 + float(row @ weights) - shared) / square
    return Minimum(weights, intercept, int(np.count_nonzero(spectrum.inverse == 0)))


def _spectrum(matrix: Array, noise: float, ridge: float | None) -> Spectrum:
    if ridge is None:
        return decompose(matrix, floor=floor_of(None, noise, len(matrix)))
    return decompose(matrix + ridge * noise * np.eye(len(matrix)), floor=0.0)


def opened_objective(opened: OpenedObjective) -> Objective:
    """In the ball a feature is x/√m, as everywhere in a release; in the box it is x itself."""
    plan, parts = opened.plan, opened.plan.dissection
    matrix = parts.matrix(opened.coefficients).astype(np.float64)
    gamma, g, c = float(plan.gamma), float(plan.label_size), float(plan.constant_size)
    at = parts.features
    deviation = math.sqrt(max(noise.variance(plan.group) for noise in plan.noises))
    second, first = (0.125, -0.5) if plan.spec.task == "classification" else (1.0, -2.0)
    quadratic = second * matrix[np.ix_(at, at)] / gamma**2
    linear = first * matrix[at, parts.label] / (gamma * g)
    noise = second * deviation / gamma**2
    if parts.constant is None:
        return Objective(quadratic, linear, noise)
    row = second * matrix[at, parts.constant] / (gamma * c)
    total = float(matrix[parts.constant, parts.label]) / (c * g)
    bordered = np.block([[quadratic, row[:, None]], [row[None, :], np.array([[second * plan.rows]])]])
    border_noise = second * deviation / (gamma * c)
    return Objective(bordered, np.append(linear, first * total), noise, border_noise, intercept=True)


def check_classes(opened: OpenedObjective) -> None:
    plan, parts = opened.plan, opened.plan.dissection
    if plan.spec.task != "classification" or parts.constant is None:
        return
    size = float(plan.label_size * plan.constant_size)
    difference = float(parts.matrix(opened.coefficients)[parts.constant, parts.label]) / size
    deviation = math.sqrt(max(noise.variance(plan.group) for noise in plan.noises)) / size / 2.0
    for name, count in zip(
        plan.label.classes, ((plan.rows - difference) / 2, (plan.rows + difference) / 2), strict=True
    ):
        if not count > 0:
            raise DrownedByNoise(
                f"class {name!r} has a noisy count of {count:.1f} rows (standard deviation {deviation:.1f}), "
                "which is too few to tell it from the other. Use more rows of that class, or a larger ε."
            )


def paper_objective(
    features: Array, labels: Array, *, task: Task, epsilon: float, randomness: Randomness
) -> Objective:
    """The objective as the paper perturbs it, from rows in the clear: for data that is public, and no guarantee.

    Features and labels lie in [−1, 1], or labels are 0 and 1. Lap(Δ_f/ε), on a grid of 2⁻²⁰ of its scale, is added to
    every first-order and every ordered second-order coefficient; there is no intercept.
    """
    width = features.shape[1]
    if task == "classification":
        sensitivity = paper.logistic_sensitivity(width)
        quadratic, linear = features.T @ features / 8.0, features.T @ (0.5 - labels)
    else:
        sensitivity = paper.linear_sensitivity(width)
        quadratic, linear = features.T @ features, -2.0 * features.T @ labels
    scale = sensitivity.value / epsilon
    drawn = DiscreteLaplaceNoise(Fraction(_GRID)).draw((width + 1, width), randomness) * (scale / _GRID)
    # f holds w_a w_b and w_b w_a: their noise is the mean of two draws.
    noisy = quadratic + (drawn[1:] + drawn[1:].T) / 2.0
    return Objective(noisy, linear + drawn[0], noise=scale)


def model(_spec: TrainingSpec, results: Mapping[str, OpenedObjective]) -> TrainedModel | None:
    opened = next((opened for opened in results.values() if opened.coefficients.size), None)
    if opened is None:
        return None
    check_classes(opened)
    plan = opened.plan
    minimum = minimise(opened_objective(opened), ridge=plan.options.ridge)
    # `frame.features` are divided by √m, as in the ball; the box has them as they are.
    scale = math.sqrt(plan.attributes) if plan.options.domain == "box" else 1.0
    coefficients, intercepts = minimum.in_units_of(plan.label, scale)
    return LinearModel(
        coefficients,
        intercepts,
        frame=InputSpec(tuple(plan.encoders.items()), plan.label),
        privacy=Privacy(plan.guarantees, reproducible=opened.reproducible),
        notes=notes_on(plan, minimum),
    )


def notes_on(plan: FunctionalPlan, minimum: Minimum | None = None) -> tuple[str, ...]:
    lines = [f"Block {line}." for line in plan.bill]
    for stated in plan.part_guarantees:
        lines.append(f"{stated.unit.sentence}: ε = {epsilon_text(stated.epsilon)} to the server.")
    if plan.options.budget == "bottom-up":
        total = sum(epsilon for _, epsilon in plan.epsilons)
        lines.append(f"Bottom-up: the blocks' ε sum to {total:.6g}, by plain composition.")
    if minimum is not None and minimum.dropped:
        lines.append(f"{minimum.dropped} directions were lost in noise and left out.")
    return tuple(lines)


def as_in_the_paper(federation: Federation, spec: TrainingSpec) -> TrainedModel:
    options = options_of(spec, FunctionalOptions)
    rows = gather(federation, spec)
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
    objective = paper_objective(features, labels, task=spec.task, epsilon=spec.epsilon, randomness=randomness)
    minimum = minimise(objective, ridge=options.ridge)
    coefficients, intercepts = minimum.in_units_of(rows.plan.label, scale)
    widths = {party: encoder.width for party, encoder in encoders}
    holder = rows.plan.label_holder
    figures = paper_figures(spec, widths, holder, dict(options.epsilons))
    return LinearModel(
        coefficients,
        intercepts,
        frame=InputSpec(encoders, rows.plan.label),
        privacy=Privacy(()),
        notes=(f"Calibrated as the paper says: {paper.LABEL}.",),
        figures=figures,
    )


def paper_figures(
    spec: TrainingSpec, widths: dict[str, int], holder: str, epsilons: dict[str, float]
) -> tuple[paper.PaperFigure, ...]:
    """Δ_f, every party's Δ_f^k and ε^(k), and bottom-up the ε of Corollary 1, as the paper's formulas have them."""
    logistic = spec.task == "classification"
    features = sum(widths.values())
    whole = paper.logistic_sensitivity(features) if logistic else paper.linear_sensitivity(features)
    figures = [whole]
    for party, own in widths.items():
        of_party = paper.logistic_party_sensitivity if logistic else paper.linear_party_sensitivity
        part = of_party(features, own=own, holds_label=party == holder)
        figures += [part, paper.party_epsilon(spec.epsilon, party_sensitivity=part, sensitivity=whole)]
    if epsilons:
        chosen = {frozenset(name.replace(" ", "").split("+")): value for name, value in epsilons.items()}
        of_block = paper.logistic_block_sensitivity if logistic else paper.linear_block_sensitivity

        def cost(*block: str) -> tuple[float, float]:
            if frozenset(block) not in chosen:
                raise PlanError(
                    f"bottom-up, every block needs an ε, and epsilons has none for {'+'.join(block)}."
                )
            other = widths[block[1]] if len(block) > 1 else 0
            label = block.index(holder) if holder in block else None
            return of_block(widths[block[0]], other=other, label=label).value, chosen[frozenset(block)]

        single, cross = [cost(party) for party in widths], [cost(*pair) for pair in combinations(widths, 2)]
        figures.append(paper.bottom_up_epsilon(whole.value, single=single, cross=cross))
    return tuple(figures)


METHOD = Method(
    name="functional",
    title="functional mechanism",
    tasks=("classification", "regression"),
    options=FunctionalOptions,
    session=lambda _requested: functional_session,
    model=model,
    checks=("rows",),
    scores="released weights",
    resumable=False,
    pilots=lambda plan: in_blocks(plan, plan.block, "field"),
    noise=lambda plan: NoiseSummary(
        max(line.deviation for line in plan.bill), "a coefficient, a sum over all people"
    ),
    kernel="products",
    paper=as_in_the_paper,
)
