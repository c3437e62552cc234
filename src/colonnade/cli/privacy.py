"""`colonnade privacy`: from a mechanism and its noise to ε for every observer, and back.

Each command makes a mechanism of its own options. What is asked of it, and how the answer is shown, is common to all.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from colonnade.cli.screen import Answer, answering

if TYPE_CHECKING:
    from colonnade.cli.privacy_answer import MechanismFamily
    from colonnade.privacy.events import Event
    from colonnade.privacy.guarantee import View
    from colonnade.privacy.paper import PaperFigure

    Views: TypeAlias = tuple[View, ...]
    Figures: TypeAlias = tuple[PaperFigure, ...]

app = typer.Typer(
    help="""From a mechanism and its noise to ε for every observer, and from ε to the least noise.

Give the noise to learn ε, or --epsilon to learn the least noise. Numbers may be written 0.1, 1e-5 or 1/3.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Make = TypeVar("Make", bound=Callable[..., Any])


Unit = StrEnum("Unit", {"RECORD": "record", "REPLACED": "record-replaced"})
CalibrateFor = StrEnum("CalibrateFor", ["SERVER", "READER", "PARTY", "COALITION", "EVERYONE"])
PlotAxis = StrEnum("PlotAxis", ["DELTA", "TIMES"])
Side = StrEnum("Side", ["PASSIVE", "ACTIVE"])


def _number(text: str, flag: str | None = None) -> Any:
    """An option whose number is taken exactly."""

    def exact(written: str) -> Fraction:
        try:
            return Fraction(written)
        except (ValueError, ZeroDivisionError):
            raise typer.BadParameter(f"{written!r} is no number; write 0.1, 1e-5 or 1/3") from None

    return typer.Option(*([flag] if flag else []), parser=exact, metavar="NUMBER", help=text)


# To replace is to zero out and to put in, so twice the sensitivity of zeroing out is always enough.
_TO_REPLACE = {Unit.RECORD: 2, Unit.REPLACED: 1}
Rate = Annotated[
    Fraction | None,
    _number("Each record is in a release with this probability, in secret. Unit record only."),
]
UnitGiven = Annotated[Unit, typer.Option(help="What the sensitivities are given for.")]
Owners = Annotated[int, typer.Option(help="How many owners deal the noise in parts.")]
Threshold = Annotated[
    int | None, typer.Option(help="t: how many owners may collude. Parts are 1/(owners − t) of the whole.")
]
Entries = Annotated[
    int | None, typer.Option(min=1, help="How many integers are released; any number if left out.")
]


FOR = "Whom --epsilon is meant for; the server (or whoever sees it) if left out."
PAPER = "Show beside it what the papers' formulas say, with what is wrong with it."


def _requested(  # the options of every command
    *,
    epsilon: Annotated[float | None, typer.Option(help="Find the least noise for this ε.")] = None,
    delta: Annotated[float, typer.Option(help="The δ of the guarantee.")] = 1e-5,
    times: Annotated[int, typer.Option(help="How often the release is made.")] = 1,
    to: Annotated[CalibrateFor | None, typer.Option("--for", help=FOR)] = None,
    paper: Annotated[bool, typer.Option("--paper", help=PAPER)] = False,
    plot: Annotated[Path | None, typer.Option(help="Save a curve of ε: a .svg file.")] = None,
    against: Annotated[PlotAxis, typer.Option(help="What the curve runs over.")] = PlotAxis.DELTA,
) -> None: ...


def _command(
    name: str, flag: str, noise: str, *, delta: float = 1e-5, times: Any = None
) -> Callable[[Make], Make]:
    """A command of a function that makes a mechanism; `times` is its own option for how often there is a release."""
    requested = dict(inspect.signature(_requested, eval_str=True).parameters)
    requested["delta"] = requested["delta"].replace(default=delta)
    if times is not None:
        own = Annotated[int, times]
        requested["times"] = requested["times"].replace(default=inspect.Parameter.empty, annotation=own)
    noisy = Annotated[Fraction | None, _number(f"{noise} Or give --epsilon.", flag)]
    first = requested["delta"].replace(name="noise", default=None, annotation=noisy)
    requested = {"noise": first, **requested}

    def register(make: Make) -> Make:
        own = inspect.signature(make, eval_str=True, locals={"MechanismFamily": None}).parameters

        @wraps(make)
        def command(**values: Any) -> Answer:
            from colonnade.cli.privacy_answer import PrivacyQuery, respond

            query = PrivacyQuery(**{name: values.pop(name) for name in requested})
            return respond(make(**values), query, values)

        options = [*own.values(), *requested.values()]
        command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        app.command(name)(answering(command))
        return make

    return register


@_command("gaussian", "--sigma", "Standard deviation σ.")
def gaussian(
    *,
    sensitivity: Annotated[Fraction, _number("L2 sensitivity.")],
    rate: Rate = None,
    unit: UnitGiven = Unit.RECORD,
) -> MechanismFamily:
    """Normal noise on real numbers.

    \b
    Example:
      colonnade privacy gaussian --sensitivity 1 --epsilon 1 --delta 1e-5 --paper
    """
    from colonnade.cli.privacy_answer import AS_GIVEN, REAL_NOISE, MechanismFamily, added_noise
    from colonnade.privacy.events import Gaussian
    from colonnade.privacy.paper import PaperFigure, classical_sigma

    def paper(sigma: Fraction, times: int, delta: float) -> Figures:
        if times > 1 or rate is not None or delta == 0:
            return ()
        figure = classical_sigma(1.0, delta, sensitivity=float(sensitivity))
        claimed = figure.value / float(sigma)
        return (PaperFigure(claimed, "ε by Lemma 1 of HDP-VFL, classical Gaussian", figure.why_not),)

    views = added_noise(lambda sigma, *_, **__: Gaussian(sensitivity, sigma), unit=unit, rate=rate)
    return MechanismFamily("normal noise", "σ", views, (REAL_NOISE, AS_GIVEN), paper=paper)


@_command("discrete-gaussian", "--sigma-squared", "Variance parameter σ².")
def discrete_gaussian(
    *,
    sensitivity: Annotated[Fraction, _number("L2 sensitivity of the integers.")],
    rate: Rate = None,
    unit: UnitGiven = Unit.RECORD,
    entries: Entries = None,
) -> MechanismFamily:
    """Discrete Gaussian noise on integers.

    \b
    Example:
      colonnade privacy discrete-gaussian --sensitivity 16 --sigma-squared 3600 --entries 1
    """
    from colonnade.cli.privacy_answer import AS_GIVEN, NEAR_ITS_LAW, MechanismFamily, added_noise
    from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE, SMALLEST_VARIANCE, DiscreteGaussianNoise
    from colonnade.noise.sampler import LARGEST_DRAW

    def event(variance: Fraction, *_: bool, **__: int) -> Event:
        return DiscreteGaussianNoise(variance).event(sensitivity, entries=entries or LARGEST_DRAW)

    whole = "One whole noise; parts that several dealers add are accounted for alike."
    views, notes = added_noise(event, unit=unit, rate=rate), (NEAR_ITS_LAW, AS_GIVEN, whole)
    return MechanismFamily("discrete Gaussian noise", "σ²", views, notes, SMALLEST_VARIANCE, LARGEST_VARIANCE)


@_command("laplace", "--scale", "Scale of the noise.", delta=0.0)
def laplace(
    *,
    sensitivity: Annotated[Fraction, _number("L1 sensitivity.")],
    rate: Rate = None,
    unit: UnitGiven = Unit.RECORD,
) -> MechanismFamily:
    """Laplace noise on real numbers.

    \b
    Example:
      colonnade privacy laplace --sensitivity 1 --scale 20 --times 100 --delta 1e-6
    """
    from colonnade.cli.privacy_answer import AS_GIVEN, REAL_NOISE, MechanismFamily, added_noise
    from colonnade.privacy.events import Laplace

    views = added_noise(lambda scale, *_, **__: Laplace(sensitivity, scale), unit=unit, rate=rate)
    return MechanismFamily("Laplace noise", "scale", views, (REAL_NOISE, AS_GIVEN))


@_command("discrete-laplace", "--scale", "Scale of the noise.", delta=0.0)
def discrete_laplace(
    *,
    sensitivity: Annotated[Fraction, _number("L1 sensitivity of the integers.")],
    others: Annotated[
        Fraction | None,
        _number("L1 sensitivity of the other owners' part of a record, replaced; safe if left out."),
    ] = None,
    rate: Rate = None,
    unit: UnitGiven = Unit.RECORD,
    owners: Owners = 1,
    threshold: Threshold = None,
    entries: Entries = None,
) -> MechanismFamily:
    """Discrete Laplace noise on integers, whole or dealt by several owners as Pólya parts.

    \b
    Example:
      colonnade privacy discrete-laplace --sensitivity 4 --epsilon 1 --owners 3 --threshold 1 --delta 1e-9
    """
    from colonnade.cli.privacy_answer import AS_GIVEN, MechanismFamily, added_noise, threshold_of
    from colonnade.noise.discrete_laplace import LARGEST_SCALE, SMALLEST_SCALE, DiscreteLaplaceNoise
    from colonnade.noise.sampler import LARGEST_DRAW

    t = threshold_of(owners, threshold)
    theirs = _TO_REPLACE[unit] * sensitivity if others is None else others

    def event(scale: Fraction, party: bool, **parts: int) -> Event:
        change = theirs if party else sensitivity
        return DiscreteLaplaceNoise(scale).event(change, entries=entries or LARGEST_DRAW, **parts)

    return MechanismFamily(
        "discrete Laplace noise",
        "scale",
        added_noise(event, unit=unit, rate=rate, owners=owners, threshold=t),
        ("Whole noises are exact and cost no δ; dealt parts are truncated, so they need δ > 0.", AS_GIVEN),
        SMALLEST_SCALE,
        LARGEST_SCALE if owners - t == 1 else Fraction(1 << 40),
        needs_delta=owners - t > 1,
    )


@_command("skellam", "--mu", "μ, half the variance.")
def skellam(
    *,
    l1: Annotated[Fraction, _number("L1 sensitivity of the integers.")],
    l2: Annotated[Fraction, _number("L2 sensitivity of the integers.")],
    others_l1: Annotated[
        Fraction | None,
        _number("L1 sensitivity of the other owners' part, replaced; safe if left out."),
    ] = None,
    others_l2: Annotated[Fraction | None, _number("The same in L2.")] = None,
    rate: Rate = None,
    unit: UnitGiven = Unit.RECORD,
    owners: Owners = 1,
    threshold: Threshold = None,
    entries: Entries = None,
) -> MechanismFamily:
    """Skellam noise on integers, whole or dealt by several owners in parts.

    \b
    Example:
      colonnade privacy skellam --l1 100 --l2 20 --epsilon 1 --owners 5 --threshold 2
    """
    from colonnade.cli import privacy_answer as answers
    from colonnade.errors import PlanError
    from colonnade.noise.mechanism import VectorChange
    from colonnade.noise.sampler import LARGEST_DRAW
    from colonnade.noise.skellam import LARGEST_MU, SMALLEST_MU, SkellamNoise

    theirs = VectorChange(_TO_REPLACE[unit] * l1, _TO_REPLACE[unit] * l2)
    if others_l1 is not None and others_l2 is not None:
        theirs = VectorChange(others_l1, others_l2)
    elif others_l1 is not None or others_l2 is not None:
        raise PlanError("give both --others-l1 and --others-l2, or neither.")
    t = answers.threshold_of(owners, threshold)

    def event(mu: Fraction, party: bool, **parts: int) -> Event:
        change = theirs if party else VectorChange(l1, l2)
        return SkellamNoise(mu).event(change, entries=entries or LARGEST_DRAW, **parts)

    views = answers.added_noise(event, unit=unit, rate=rate, owners=owners, threshold=t)
    notes = answers.NEAR_ITS_LAW, answers.AS_GIVEN
    return answers.MechanismFamily("Skellam noise", "μ", views, notes, SMALLEST_MU, LARGEST_MU)


@_command("moments", "--mu", "μ of the matrix's noise.")
def moments(
    *,
    parties: Annotated[
        list[str],
        typer.Option("--party", help="NAME=COLUMNS, numeric columns; repeat. The first holds the label."),
    ],
    classes: Annotated[int, typer.Option(help="Classes of the label; 0 for no label.")] = 2,
    regression: Annotated[bool, typer.Option("--regression", help="The label is a number.")] = False,
    gamma: Annotated[int, typer.Option(min=2, help="Steps of the integer grid.")] = 1 << 12,
    threshold: Threshold = None,
) -> MechanismFamily:
    """The noisy moment matrix that `colonnade train` releases, from column counts alone.

    \b
    Example:
      colonnade privacy moments --party clinic=10 --party laboratory=20 --classes 2 --epsilon 1
    """
    from colonnade.cli.privacy_answer import NEAR_ITS_LAW, MechanismFamily
    from colonnade.data.kinds import NumericColumn
    from colonnade.data.labels import ClassLabel, Label, RealLabel
    from colonnade.data.schema import PublicSchema
    from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
    from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE, smallest_part
    from colonnade.privacy import paper as skellam_moments
    from colonnade.privacy.events import FINE_BITS, Repeated
    from colonnade.protocols.assumptions import reader_assumption, server_assumption
    from colonnade.protocols.plans import Task, TrainingSpec
    from colonnade.runtime.party import Group

    columns = [_party(text) for text in parties]
    task: Task = "regression" if regression else "classification" if classes else "pca"
    label: Label | None = RealLabel("label", low=-1, high=1) if regression else None
    if task == "classification":
        label = ClassLabel("label", classes=tuple(map(str, range(classes))))
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
    spec = TrainingSpec(task, 1.0, options=MomentsOptions())
    plan = MomentsPlan(gamma, Fraction(1), spec=spec, group=group, rows=1, schemas=schemas, delta=0.5)
    # What it would cost if more noise became known depends on δ, which is asked later.
    provided = {"server": server_assumption(group), "reader": reader_assumption(group)}

    def views(mu: Fraction, times: int) -> Views:
        found = []
        for view in replace(plan, mu=mu).views:
            assumption = provided.get(view.observer.name, view.assumption)
            found.append(replace(view, event=Repeated(view.event, times), assumption=assumption))
        return tuple(found)

    def paper(mu: Fraction, times: int, delta: float) -> Figures:
        if times > 1:
            return ()
        # Lemma 2 for a row whose squared norm before rounding is that of ours: features and label block.
        square = gamma**2 + plan.label.norm_squared(gamma) + plan.size
        released = skellam_moments.Moments(square, min(square**2, math.sqrt(plan.size) * square))
        requested = released, float(mu), delta
        return (
            skellam_moments.server_epsilon(*requested),
            skellam_moments.client_epsilon(*requested, clients=len(names), columns=plan.size),
            skellam_moments.client_epsilon_of_tables(*requested),
        )

    parts = f"{', '.join(group.dealers)} each deal one part of 1/{group.whole}; t = {group.threshold}."
    grid = "Rows are rounded to nearest and their norms bounded in integers, upward."
    name = f"discrete Gaussian noise of variance 2μ on a {plan.size} × {plan.size} moment matrix"
    least, greatest = group.whole * smallest_part(FINE_BITS), LARGEST_VARIANCE / 2
    return MechanismFamily(name, "μ", views, (NEAR_ITS_LAW, grid, parts), least, greatest, paper=paper)


def _party(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals or not count.isdigit():
        raise typer.BadParameter(f"--party {text}: write NAME=COLUMNS, for instance bank=12")
    return name, int(count)


@_command("poisson-binomial", "--beta", "β: counts have p in [1/2 − β, 1/2 + β].")
def poisson_binomial(
    *,
    parties: Annotated[int, typer.Option(help="How many parties add a count.")],
    trials: Annotated[int, typer.Option(help="b: trials of each binomial.")],
    coordinates: Annotated[int, typer.Option(min=1, help="Coordinates of an embedding.")] = 1,
    colluding: Annotated[int, typer.Option(help="How many parties pool what they know.")] = 1,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Also state the cost of one party's columns in all rows.")
    ] = None,
) -> MechanismFamily:
    """Sums of binomial counts (PBM-VFL); --times is how often a record is used, one use an epoch.

    \b
    Example:
      colonnade privacy poisson-binomial --parties 5 --trials 4 --beta 0.1 --coordinates 16 --times 10 --paper
    """
    from colonnade.cli.privacy_answer import AnyOwners, MechanismFamily
    from colonnade.errors import PlanError
    from colonnade.noise.poisson_binomial import SMALLEST_BETA, PoissonBinomialNoise
    from colonnade.privacy.calibrate import calibrate_poisson_binomial
    from colonnade.privacy.events import PoissonBinomial, Repeated
    from colonnade.privacy.guarantee import View
    from colonnade.privacy.observers import REPLACE, ColumnsOf, OthersPart, PartOf, Server
    from colonnade.privacy.paper import feature_epsilon

    if parties < 2 or not 1 <= colluding < parties:
        raise PlanError(
            f"{parties} parties, {colluding} of them colluding: at least one other party must stay hidden."
        )
    fixed = (
        "the parties' embeddings are fixed or public maps, so that a record acts through its own rows only"
    )

    def views(beta: Fraction, times: int) -> Views:
        PoissonBinomialNoise(trials, beta, Fraction(1))  # refuses what cannot be drawn

        def event(hidden: int, changed: int, releases: int = 1) -> Event:
            return Repeated(PoissonBinomial(hidden, trials, beta, changed), times * coordinates * releases)

        found = [
            View(Server(), PartOf("any one party"), event(parties, 1), fixed),
            View(Server(), REPLACE, event(parties, parties), fixed),
        ]
        if rows is not None:
            # Every row differs between the neighbours, so the losses of all rows add up.
            found.append(View(Server(), ColumnsOf("any one party"), event(parties, 1, rows), fixed))
        seen = f"it sees the sums only, and {fixed}"
        for known in sorted({1, colluding}):
            hidden = parties - known
            found.append(View(AnyOwners(known), PartOf("any other party"), event(hidden, 1), seen))
            if hidden > 1:
                found.append(View(AnyOwners(known), OthersPart(), event(hidden, hidden), seen))
        return tuple(found)

    def search(event: Event, epsilon: float, delta: float) -> Fraction:
        if not (isinstance(event, Repeated) and isinstance(event.event, PoissonBinomial)):
            raise TypeError("a Poisson binomial release is a repeated leaf")
        leaf = event.event
        release: dict[str, Any] = {"trials": (trials,), "times": event.times, "changed": leaf.changed}
        found = calibrate_poisson_binomial(leaf.contributors, **release, epsilon=epsilon, delta=delta)
        return Fraction(found.beta)

    def paper(beta: Fraction, times: int, delta: float) -> Figures:
        size = {"contributors": parties, "trials": trials, "coordinates": coordinates}
        return (feature_epsilon(delta, beta=float(beta), uses=times, **size),) if delta else ()

    name = f"sums of {parties} binomial counts of {trials} trials, {coordinates} at a time"
    notes = (
        "Counts are drawn exactly, with every p inside [1/2 − β, 1/2 + β]; nothing is added to δ.",
        "A calibrated β is rounded down: a smaller β hides more. --for server means one party's part.",
    )
    bounds, repeats = (SMALLEST_BETA, Fraction(1, 2)), "uses of a record"
    return MechanismFamily(name, "β", views, notes, *bounds, search=search, paper=paper, repeats=repeats)


@_command(
    "messages",
    "--sigma",
    "σ of the noise on every message.",
    times=typer.Option("--epochs", help="How often every record is used."),
)
def messages(
    *,
    rows: Annotated[int, typer.Option(help="How many records.")],
    batch: Annotated[int, typer.Option(help="Records in a batch.")],
    sender: Annotated[Side, typer.Option(help="Whose messages.")] = Side.PASSIVE,
    radius: Annotated[float, typer.Option(help="k: weights are projected to ‖w‖ ≤ k.")] = 1.0,
    step_size: Annotated[float, typer.Option(help="η of gradient descent.")] = 0.1,
    clip: Annotated[float, typer.Option(help="C: the passive party clips what it receives to ±C.")] = 1.0,
    active_cap: Annotated[float, typer.Option(help="Norm of the active party's rows.")] = 0.5**0.5,
    passive_cap: Annotated[float, typer.Option(help="Norm of the passive party's rows.")] = 0.5**0.5,
    grid: Annotated[Fraction, _number("Messages are rounded to multiples of it.")] = Fraction(1, 1 << 16),
) -> MechanismFamily:
    """Logistic regression step by step with noisy, clipped messages (HDP-VFL, made sound).

    \b
    Example:
      colonnade privacy messages --rows 30000 --batch 3200 --epochs 10 --epsilon 1 --paper
    """
    from colonnade.cli.privacy_answer import NEAR_ITS_LAW, MechanismFamily
    from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE, SMALLEST_VARIANCE, DiscreteGaussianNoise
    from colonnade.privacy import paper as hdp_vfl
    from colonnade.privacy.events import Approximated, PerStep
    from colonnade.privacy.guarantee import View
    from colonnade.privacy.observers import PartOf, PartyView
    from colonnade.privacy.sensitivity import messages as sensitivity

    descent: dict[str, Any] = {"radius": radius, "step_size": step_size}
    rounded = descent | {"grid": float(grid)}
    passive = sender == Side.PASSIVE

    @cache
    def steps(epochs: int) -> tuple[Fraction, ...]:
        schedule = sensitivity.Schedule(rows, batch, epochs)
        if passive:
            moved = sensitivity.passive_messages(schedule, cap=passive_cap, clip=clip, **rounded)
        else:
            bounds = sensitivity.logistic_bounds(radius=radius, active_cap=active_cap)
            moved = sensitivity.active_messages(schedule, bounds, cap=active_cap, **rounded)
        # Fractions keep Δ/grid exact: a float quotient could round down. Equal steps share one.
        exact = {step: Fraction(step) / grid for step in set(moved.per_step)}
        return tuple(exact[step] for step in moved.per_step)

    def views(sigma: Fraction, epochs: int) -> Views:
        variance = (sigma / grid) ** 2
        DiscreteGaussianNoise(variance)  # refuses what cannot be drawn
        event = Approximated(PerStep(steps(epochs), variance), draws=epochs * rows)
        clips = f", {sender} clips what it receives to ±{clip:g}" if passive else ""
        provided = f"batches are public, every record is used once an epoch{clips}"
        return (View(PartyView("active" if passive else "passive"), PartOf(sender.value), event, provided),)

    def paper(sigma: Fraction, epochs: int, delta: float) -> Figures:
        if delta == 0:
            return ()
        schedule = {
            "batch": batch,
            "epochs": epochs,
            "steps": sensitivity.Schedule(rows, batch, epochs).steps,
        }
        constants = vars(hdp_vfl.LOGISTIC)
        if passive:
            claimed = hdp_vfl.passive_sensitivity(**schedule, **descent, lipschitz=constants["lipschitz"])
        else:
            claimed = hdp_vfl.active_sensitivity(**schedule, **descent, **constants)
        classical = hdp_vfl.classical_sigma(1.0, delta, sensitivity=claimed.value)
        formula = "ε by Lemma 1 of HDP-VFL, classical Gaussian, at that sensitivity"
        return claimed, hdp_vfl.PaperFigure(classical.value / float(sigma), formula, classical.why_not)

    name = f"discrete Gaussian noise on the {sender} party's messages"
    notes = (
        NEAR_ITS_LAW,
        f"Messages are rounded to a grid of {grid}, which adds √b grid steps to every sensitivity.",
        "Every passive party must receive the same noisy message: fresh noise for each could be averaged.",
    )
    least = Fraction(float(SMALLEST_VARIANCE * grid**2) ** 0.5) * Fraction(1001, 1000)
    greatest = Fraction(float(LARGEST_VARIANCE * grid**2) ** 0.5) * Fraction(999, 1000)
    return MechanismFamily(name, "σ", views, notes, least, greatest, paper=paper, repeats="epochs")
