"""The families of whole protocols: moment matrices, Poisson binomial sums, and messages step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Literal

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, Label, RealLabel
from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.noise import discrete_gaussian
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.poisson_binomial import SMALLEST_BETA, PoissonBinomialNoise
from colonnade.privacy.calibrate import calibrate_poisson_binomial
from colonnade.privacy.events import FINE_BITS, Approximated, Event, PerStep, PoissonBinomial, Repeated
from colonnade.privacy.guarantee import View
from colonnade.privacy.neighbours import REPLACE, ColumnsOf, OthersPart, PartOf, Unit
from colonnade.privacy.observers import Observer, PartyView, Reader, Server
from colonnade.privacy.paper import hdp_vfl, pbm_vfl, skellam_moments
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.sensitivity.losses import logistic_bounds
from colonnade.privacy.sensitivity.messages import Schedule, active_messages, passive_messages
from colonnade.protocols.assumptions import reader_assumption, server_assumption
from colonnade.protocols.noise_families import NEAR_ITS_LAW, AnyOwners, Family, selected
from colonnade.protocols.plans import Task
from colonnade.runtime.group import Group

FIXED_MAPS = (
    "the parties' embeddings are fixed or public maps, so that a record acts through its own rows only"
)


def moments(
    columns: Sequence[tuple[str, int]], *, classes: int, regression: bool, gamma: int, threshold: int | None
) -> Family:
    """The matrix of second moments of numeric columns, as `colonnade train` releases it."""
    label: Label | None = None
    task: Task = "pca"
    if regression:
        task, label = "regression", RealLabel("label", low=-1, high=1)
    elif classes:
        task, label = "classification", ClassLabel("label", classes=tuple(map(str, range(classes))))
    names = tuple(name for name, _ in columns)
    group = Group.of(names, active=names[0] if names and label is not None else None, threshold=threshold)
    schemas = tuple(
        PublicSchema(
            name,
            tuple(NumericColumn(f"{name}.{column}", low=-1, high=1) for column in range(count)),
            label if name == group.active else None,
        )
        for name, count in columns
    )
    plan = MomentsPlan(task, 1.0, gamma, Fraction(1), group=group, rows=1, schemas=schemas, delta=0.5)

    # What it would cost if more noise became known depends on δ, which is asked later.
    provided = {Server().name: server_assumption(group), Reader().name: reader_assumption(group)}

    def views(mu: Fraction, times: int) -> tuple[View, ...]:
        return tuple(
            replace(
                view,
                event=Repeated(view.event, times),
                assumption=provided.get(view.observer.name, view.assumption),
            )
            for view in replace(plan, mu=mu).views
        )

    def paper(mu: Fraction, times: int, delta: float) -> tuple[PaperFigure, ...]:
        if times > 1:
            return ()
        size, noise = plan.size, float(mu)
        # Lemma 2 for a row whose squared norm before rounding is that of ours: features and label block.
        square = gamma**2 + plan.label.norm_squared(gamma) + size
        released = skellam_moments.Moments(square, min(square**2, math.sqrt(size) * square))
        return (
            skellam_moments.server_epsilon(released, noise, delta),
            skellam_moments.client_epsilon(released, noise, delta, clients=len(names), columns=size),
            skellam_moments.client_epsilon_of_tables(released, noise, delta),
        )

    parts = f"{', '.join(group.dealers)} each deal one part of 1/{group.whole}; t = {group.threshold}."
    grid = "Rows are rounded to nearest and their norms bounded in integers, upward."
    return Family(
        f"discrete Gaussian noise of variance 2μ on a {plan.size} × {plan.size} moment matrix",
        "μ",
        views,
        (NEAR_ITS_LAW, grid, parts),
        least=group.whole * discrete_gaussian.smallest_part(FINE_BITS),
        greatest=discrete_gaussian.LARGEST_VARIANCE / 2,
        paper=paper,
    )


@dataclass(frozen=True)
class _Sum:
    """One observer of the sums: who, of what, with how many contributors hidden and how many changed."""

    observer: Observer
    unit: Unit
    contributors: int
    changed: int
    releases: int
    assumption: str


def poisson_binomial(
    parties: int, *, trials: int, coordinates: int, colluding: int, rows: int | None
) -> Family:
    """Sums of binomial counts, as PBM-VFL releases them: so many coordinates, each use of a record."""
    if parties < 2 or not 1 <= colluding < parties:
        raise PlanError(
            f"{parties} parties, {colluding} of them colluding: at least one other party must stay hidden."
        )

    def sums() -> list[_Sum]:
        one = PartOf("any one party")
        sums = [
            _Sum(Server(), one, parties, 1, 1, FIXED_MAPS),
            _Sum(Server(), REPLACE, parties, parties, 1, FIXED_MAPS),
        ]
        if rows is not None:
            # Every row differs between the neighbours, so the losses of all rows add up.
            sums.append(_Sum(Server(), ColumnsOf("any one party"), parties, 1, rows, FIXED_MAPS))
        for known in sorted({1, colluding}):
            hidden = parties - known
            seen = f"it sees the sums only, and {FIXED_MAPS}"
            sums.append(_Sum(AnyOwners(known), PartOf("any other party"), hidden, 1, 1, seen))
            if hidden > 1:
                sums.append(_Sum(AnyOwners(known), OthersPart(), hidden, hidden, 1, seen))
        return sums

    def views(beta: Fraction, times: int) -> tuple[View, ...]:
        PoissonBinomialNoise(trials, beta, Fraction(1))
        return tuple(
            View(
                item.observer,
                item.unit,
                Repeated(
                    PoissonBinomial(item.contributors, trials, beta, item.changed),
                    times * coordinates * item.releases,
                ),
                item.assumption,
            )
            for item in sums()
        )

    def search(whom: str, epsilon: float, delta: float, times: int) -> Fraction:
        chosen = selected(views(Fraction(1, 4), times), whom)
        if whom == "server":
            chosen = chosen[:1]
        events = []
        for view in chosen:
            leaf, count = _leaf(view.event)
            events.append(
                calibrate_poisson_binomial(
                    leaf.contributors,
                    trials=(trials,),
                    times=count,
                    epsilon=epsilon,
                    delta=delta,
                    changed=leaf.changed,
                )
            )
        return min(Fraction(event.beta) for event in events)

    def paper(beta: Fraction, times: int, delta: float) -> tuple[PaperFigure, ...]:
        if delta == 0:
            return ()
        return (
            pbm_vfl.feature_epsilon(
                delta,
                contributors=parties,
                trials=trials,
                beta=float(beta),
                coordinates=coordinates,
                uses=times,
            ),
        )

    return Family(
        f"sums of {parties} binomial counts of {trials} trials, {coordinates} at a time",
        "β",
        views,
        (
            "Counts are drawn exactly, with every p inside [1/2 − β, 1/2 + β]; nothing is added to δ.",
            "A calibrated β is rounded down: a smaller β hides more. --for server means one party's part.",
        ),
        least=SMALLEST_BETA,
        greatest=Fraction(1, 2),
        search=search,
        paper=paper,
        repeats="uses of a record",
    )


Sender = Literal["passive", "active"]


@dataclass(frozen=True)
class Descent:
    """Logistic regression by clipped, projected gradient descent on public batches."""

    rows: int
    batch: int
    radius: float
    step_size: float
    clip: float
    active_cap: float
    passive_cap: float
    grid: Fraction


def messages(sender: Sender, descent: Descent) -> Family:
    """The messages of one side of HDP-VFL with clipping, discrete Gaussian noise σ on a grid in every entry."""
    grid = float(descent.grid)

    @cache
    def in_grid_steps(epochs: int) -> tuple[Fraction, ...]:
        # Fractions keep Δ/grid exact: a float quotient could round down. Equal steps share one.
        steps = per_step(Schedule(descent.rows, descent.batch, epochs))
        exact = {step: Fraction(step) / descent.grid for step in set(steps)}
        return tuple(exact[step] for step in steps)

    def per_step(schedule: Schedule) -> tuple[float, ...]:
        if sender == "passive":
            return passive_messages(
                schedule,
                radius=descent.radius,
                cap=descent.passive_cap,
                step_size=descent.step_size,
                clip=descent.clip,
                grid=grid,
            ).per_step
        bounds = logistic_bounds(radius=descent.radius, active_cap=descent.active_cap)
        return active_messages(
            schedule,
            bounds,
            radius=descent.radius,
            cap=descent.active_cap,
            step_size=descent.step_size,
            grid=grid,
        ).per_step

    observer = "active" if sender == "passive" else "passive"

    def views(sigma: Fraction, epochs: int) -> tuple[View, ...]:
        DiscreteGaussianNoise((sigma / descent.grid) ** 2)  # refuses what cannot be drawn
        event = Approximated(
            PerStep(in_grid_steps(epochs), (sigma / descent.grid) ** 2), draws=epochs * descent.rows
        )
        clips = "" if sender == "active" else f", {sender} clips what it receives to ±{descent.clip:g}"
        assumption = f"batches are public, every record is used once an epoch{clips}"
        return (View(PartyView(observer), PartOf(sender), event, assumption),)

    def paper(sigma: Fraction, epochs: int, delta: float) -> tuple[PaperFigure, ...]:
        if delta == 0:
            return ()
        steps = Schedule(descent.rows, descent.batch, epochs).steps
        if sender == "passive":
            claimed = hdp_vfl.passive_sensitivity(
                batch=descent.batch,
                epochs=epochs,
                steps=steps,
                radius=descent.radius,
                step_size=descent.step_size,
                lipschitz=1,
            )
        else:
            claimed = hdp_vfl.active_sensitivity(
                batch=descent.batch,
                epochs=epochs,
                steps=steps,
                radius=descent.radius,
                step_size=descent.step_size,
                lipschitz=1,
                slope=0.25,
                label_slope=1.1,
                label_bound=1,
            )
        classical = hdp_vfl.classical_sigma(1.0, delta, sensitivity=claimed.value)
        epsilon = PaperFigure(
            classical.value / float(sigma),
            "ε by Lemma 1 of HDP-VFL, classical Gaussian, at that sensitivity",
            classical.why_not,
        )
        return (claimed, epsilon)

    finest = descent.grid**2
    return Family(
        f"discrete Gaussian noise on the {sender} party's messages",
        "σ",
        views,
        (
            NEAR_ITS_LAW,
            f"Messages are rounded to a grid of {descent.grid}, which adds √b grid steps to every sensitivity.",
            "Every passive party must receive the same noisy message: fresh noise for each could be averaged.",
        ),
        least=_root_above(discrete_gaussian.SMALLEST_VARIANCE * finest),
        greatest=_root_below(discrete_gaussian.LARGEST_VARIANCE * finest),
        paper=paper,
        repeats="epochs",
    )


def _leaf(event: Event) -> tuple[PoissonBinomial, int]:
    if not (isinstance(event, Repeated) and isinstance(event.event, PoissonBinomial)):
        raise TypeError("a Poisson binomial release is a repeated leaf")
    return event.event, event.times


def _root_above(value: Fraction) -> Fraction:
    return Fraction(float(value) ** 0.5) * Fraction(1001, 1000)


def _root_below(value: Fraction) -> Fraction:
    return Fraction(float(value) ** 0.5) * Fraction(999, 1000)
