"""What `colonnade privacy` answers: ε for every observer of a mechanism, or the least noise for an ε.

Everything but the noise of a `MechanismFamily` is fixed, and its `views` say what each observer is left with. Whatever
is asked, from noise to ε or from ε to noise, is accounting of these views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

import typer

from colonnade.cli.screen import Answer
from colonnade.errors import PlanError, PrivacyError
from colonnade.noise import discrete_gaussian, discrete_laplace, skellam
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise
from colonnade.noise.poisson_binomial import SMALLEST_BETA, PoissonBinomialNoise
from colonnade.noise.sampler import LARGEST_DRAW
from colonnade.noise.skellam import SkellamNoise
from colonnade.privacy import events, observers
from colonnade.privacy import paper as papers
from colonnade.privacy.calibrate import calibrate, calibrate_poisson_binomial
from colonnade.privacy.events import Approximated, Event, PerStep, PoissonBinomial, Repeated, event_to_data
from colonnade.privacy.guarantee import Guarantee, View, account, check_claim
from colonnade.privacy.observers import REPLACE, ZERO_OUT, OthersPart, PartOf, Reader, Server
from colonnade.privacy.paper import PaperFigure
from colonnade.privacy.sensitivity import messages as sensitivities
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.report.facts import guarantee_facts

ROUNDED = "ε is rounded up; a calibrated parameter is rounded to the safe side at six digits and accounted for again."
NEAR_ITS_LAW = "The sampler is within 2⁻¹⁰⁰ of its law per draw; the distance of all draws is taken out of δ."
REAL_NOISE = (
    "This is the law of real numbers. Floating-point draws of it leak low bits; Colonnade draws integers "
    "(discrete-gaussian, discrete-laplace, skellam)."
)
AS_GIVEN = "Sensitivities are taken as you give them: round them up."
WHOLE = "One whole noise; parts that several dealers add are accounted for alike."
TRUNCATED = "Whole noises are exact and cost no δ; dealt parts are truncated, so they need δ > 0."
CLASSICAL = "ε by Lemma 1 of HDP-VFL, classical Gaussian"
FIXED = "the parties' embeddings are fixed or public maps, so that a record acts through its own rows only"

# Of messages: the norm of a party's rows, and what they are rounded to multiples of.
CAP, GRID = 0.5**0.5, Fraction(1, 1 << 16)

Views: TypeAlias = tuple[View, ...]
Figures: TypeAlias = tuple[PaperFigure, ...]


@dataclass(frozen=True)
class MechanismFamily:
    """A mechanism with everything fixed but its noise, which can be drawn from `least` to `greatest`.

    `views(noise, times)` has what each observer is left with. `search(event, epsilon, delta)` replaces the usual
    calibration where less of a parameter hides more.
    """

    name: str
    parameter: str
    notes: tuple[str, ...]
    least: Fraction
    greatest: Fraction
    views: Callable[[Fraction, int], Views]
    search: Callable[[Any, float, float], Fraction] | None = None
    paper: Callable[[Fraction, int, float], Figures] = lambda *_: ()
    repeats: str = "releases"


@dataclass(frozen=True)
class AnyOwners:
    """Some owners of columns, whichever they are, who pool what they know."""

    name: str
    sentence: str
    knows_batches = True

    @classmethod
    def of(cls, count: int) -> AnyOwners:
        if count == 1:
            return cls("party:any", "Any one owner")
        return cls(f"coalition:any {count} owners", f"Any group of {count} owners")


ANY_AMOUNT = Fraction(1, 10**12), Fraction(10**60)
VARIANCES = discrete_gaussian.SMALLEST_VARIANCE, discrete_gaussian.LARGEST_VARIANCE
SCALES = discrete_laplace.SMALLEST_SCALE, discrete_laplace.LARGEST_SCALE
LARGEST_DEALT_SCALE = Fraction(1 << 40)
# What it is called, its parameter, what is to be said of it, and the least and the greatest that can be drawn.
NOISES: Mapping[str, tuple[str, str, tuple[str, ...], Fraction, Fraction]] = {
    "gaussian": ("normal noise", "σ", (REAL_NOISE, AS_GIVEN), *ANY_AMOUNT),
    "discrete-gaussian": ("discrete Gaussian noise", "σ²", (NEAR_ITS_LAW, AS_GIVEN, WHOLE), *VARIANCES),
    "laplace": ("Laplace noise", "scale", (REAL_NOISE, AS_GIVEN), *ANY_AMOUNT),
    "discrete-laplace": ("discrete Laplace noise", "scale", (TRUNCATED, AS_GIVEN), *SCALES),
    "skellam": ("Skellam noise", "μ", (NEAR_ITS_LAW, AS_GIVEN), skellam.SMALLEST_MU, skellam.LARGEST_MU),
}
# One release, by the noise, the sensitivities, and how many parts of it an observer knows.
EVENTS: Mapping[str, Callable[..., Event]] = {
    "gaussian": lambda noise, change, **_: events.Gaussian(change, noise),
    "discrete-gaussian": lambda noise, change, **dealt: DiscreteGaussianNoise(noise).event(change, **dealt),
    "laplace": lambda noise, change, **_: events.Laplace(change, noise),
    "discrete-laplace": lambda noise, change, **dealt: DiscreteLaplaceNoise(noise).event(change, **dealt),
    "skellam": lambda noise, l1, l2, **dealt: SkellamNoise(noise).event(VectorChange(l1, l2), **dealt),
}


def added_noise(
    law: str,
    *,
    rate: Fraction | None,
    unit: str,
    owners: int = 1,
    threshold: int | None = None,
    entries: int | None = None,
    **norms: Fraction,
) -> MechanismFamily:
    """Noise that so many owners deal in parts of 1/(owners − t), of whom t may collude.

    `norms` are the sensitivities, by the names that the law has for them.
    """
    t = threshold
    if t is None:
        t = 0 if owners == 1 else max(1, (owners - 1) // 2)
    if owners < 1 or not 0 <= t < owners:
        most = max(owners - 1, 0)
        raise PlanError(
            f"of {owners} owners at most {most} can collude and leave noise; --threshold {t} was asked."
        )
    if rate is not None and not 0 < rate <= 1:
        raise PlanError(f"--rate {rate}: a sampling rate is above 0 and at most 1.")
    about = ZERO_OUT if unit == ZERO_OUT.name else REPLACE
    own = tuple(norms[name] for name in sorted(norms))  # l1 before l2, however they were typed
    # To replace is to zero out and to put in, so twice the sensitivity of zeroing out is always enough.
    others = own if about == REPLACE else tuple(2 * norm for norm in own)
    hidden = "" if rate is None else ", and it learns neither who is in a batch nor how many"
    colluding = {0: "no owner disclose", 1: "one owner discloses"}.get(t, f"{t} owners disclose")
    dealt = {"entries": entries or LARGEST_DRAW, "parts": owners, "of": owners - t}

    def views(noise: Fraction, times: int) -> Views:
        blind: Any = EVENTS[law](noise, *own, known=t, **dealt)
        blind = Repeated(blind if rate is None else events.PoissonSampled(rate, blind), times)
        if owners == 1:
            return (View(Reader(), about, blind, f"whoever draws the noise keeps it secret{hidden}"),)
        provided = f"at most {colluding} noise parts to it{hidden}"
        items = [View(observer, about, blind, provided) for observer in (Server(), Reader())]
        for known in sorted({1, max(t, 1)}):
            # Owners know the batches, so a sample hides nothing from them and every release may use the record.
            provided = "it sees only the noisy sums besides its own columns and noise parts"
            seen = Repeated(EVENTS[law](noise, *others, known=known, **dealt), times)
            items.append(View(AnyOwners.of(known), OthersPart(), seen, provided))
        return tuple(items)

    def paper(sigma: Fraction, times: int, delta: float) -> Figures:
        """What the classical formula says of one release of normal noise."""
        if law != "gaussian" or times > 1 or rate is not None or delta == 0:
            return ()
        return (_claimed(delta, float(own[0]), sigma, CLASSICAL),)

    family = MechanismFamily(*NOISES[law], views, paper=paper)
    parts = law == "discrete-laplace" and owners - t > 1
    return replace(family, greatest=LARGEST_DEALT_SCALE) if parts else family


def _claimed(delta: float, change: float, sigma: Fraction, formula: str) -> PaperFigure:
    """The ε that the classical formula gives to this noise."""
    figure = papers.classical_sigma(1.0, delta, sensitivity=change)
    return PaperFigure(figure.value / float(sigma), formula, figure.why_not)


def moments(
    *, parties: Sequence[str], classes: int, regression: bool, gamma: int, threshold: int | None
) -> MechanismFamily:
    """The release that `MomentsPlan` plans for so many numeric columns of each party."""
    from colonnade.data.kinds import NumericColumn
    from colonnade.data.labels import ClassLabel, Label, RealLabel
    from colonnade.data.schema import PublicSchema
    from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
    from colonnade.protocols.assumptions import reader_assumption, server_assumption
    from colonnade.protocols.plans import Task, TrainingSpec
    from colonnade.runtime.party import Group

    counts = [text.partition("=") for text in parties]
    for (_, equals, count), text in zip(counts, parties, strict=True):
        if not equals or not count.isdigit():
            raise typer.BadParameter(f"--party {text}: write NAME=COLUMNS, for instance bank=12")
    task: Task = "regression" if regression else "classification" if classes else "pca"
    label: Label | None = RealLabel("label", low=-1, high=1) if regression else None
    if task == "classification":
        label = ClassLabel("label", classes=tuple(map(str, range(classes))))
    names = tuple(name for name, _, _ in counts)
    group = Group.of(names, active=names[0] if names and label is not None else None, threshold=threshold)
    schemas = tuple(
        PublicSchema(
            name,
            tuple(NumericColumn(f"{name}.{column}", low=-1, high=1) for column in range(int(count))),
            label if name == group.active else None,
        )
        for name, _, count in counts
    )
    spec = TrainingSpec(task, 1.0, options=MomentsOptions())
    plan = MomentsPlan(gamma, Fraction(1), spec=spec, group=group, rows=1, schemas=schemas, delta=0.5)
    # What it would cost if more noise became known depends on δ, which is asked later.
    provided = {"server": server_assumption(group), "reader": reader_assumption(group)}

    def views(mu: Fraction, times: int) -> Views:
        return tuple(
            replace(
                view,
                event=Repeated(view.event, times),
                assumption=provided.get(view.observer.name, view.assumption),
            )
            for view in replace(plan, mu=mu).views
        )

    def paper(mu: Fraction, times: int, delta: float) -> Figures:
        if times > 1:
            return ()
        # Lemma 2 for a row whose squared norm before rounding is that of ours: features and label block.
        square = gamma**2 + plan.label.norm_squared(gamma) + plan.size
        released = papers.Moments(square, min(square**2, math.sqrt(plan.size) * square))
        requested = released, float(mu), delta
        return (
            papers.server_epsilon(*requested),
            papers.client_epsilon(*requested, clients=len(names), columns=plan.size),
            papers.client_epsilon_of_tables(*requested),
        )

    parts = f"{', '.join(group.dealers)} each deal one part of 1/{group.whole}; t = {group.threshold}."
    grid = "Rows are rounded to nearest and their norms bounded in integers, upward."
    name = f"discrete Gaussian noise of variance 2μ on a {plan.size} × {plan.size} moment matrix"
    least = group.whole * discrete_gaussian.smallest_part(events.FINE_BITS)
    greatest, notes = discrete_gaussian.LARGEST_VARIANCE / 2, (NEAR_ITS_LAW, grid, parts)
    return MechanismFamily(name, "μ", notes, least, greatest, views, paper=paper)


def poisson_binomial(
    *, parties: int, trials: int, coordinates: int, colluding: int, rows: int | None
) -> MechanismFamily:
    """Sums of the parties' binomial counts, of which a smaller β hides more."""
    if parties < 2 or not 1 <= colluding < parties:
        raise PlanError(
            f"{parties} parties, {colluding} of them colluding: at least one other party must stay hidden."
        )

    def views(beta: Fraction, times: int) -> Views:
        PoissonBinomialNoise(trials, beta, Fraction(1))  # refuses what cannot be drawn

        def event(hidden: int, changed: int, releases: int = 1) -> Event:
            return Repeated(PoissonBinomial(hidden, trials, beta, changed), times * coordinates * releases)

        items = [
            View(Server(), PartOf("any one party"), event(parties, 1), FIXED),
            View(Server(), REPLACE, event(parties, parties), FIXED),
        ]
        if rows is not None:
            # Every row differs between the neighbours, so the losses of all rows add up.
            items.append(View(Server(), observers.ColumnsOf("any one party"), event(parties, 1, rows), FIXED))
        seen = f"it sees the sums only, and {FIXED}"
        for known in sorted({1, colluding}):
            hidden = parties - known
            items.append(View(AnyOwners.of(known), PartOf("any other party"), event(hidden, 1), seen))
            if hidden > 1:
                items.append(View(AnyOwners.of(known), OthersPart(), event(hidden, hidden), seen))
        return tuple(items)

    def search(event: Any, epsilon: float, delta: float) -> Fraction:
        leaf, release = event.event, {"trials": (trials,), "times": event.times}
        calibration = calibrate_poisson_binomial(
            leaf.contributors, **release, changed=leaf.changed, epsilon=epsilon, delta=delta
        )
        return Fraction(calibration.beta)

    def paper(beta: Fraction, times: int, delta: float) -> Figures:
        size = {"contributors": parties, "trials": trials, "coordinates": coordinates}
        return (papers.feature_epsilon(delta, beta=float(beta), uses=times, **size),) if delta else ()

    name = f"sums of {parties} binomial counts of {trials} trials, {coordinates} at a time"
    notes = (
        "Counts are drawn exactly, with every p inside [1/2 − β, 1/2 + β]; nothing is added to δ.",
        "A calibrated β is rounded down: a smaller β hides more. --for server means one party's part.",
    )
    bounds, repeats = (SMALLEST_BETA, Fraction(1, 2)), "uses of a record"
    return MechanismFamily(name, "β", notes, *bounds, views, search, paper, repeats)


def messages(*, rows: int, batch: int, sender: str, clip: float, **descent: float) -> MechanismFamily:
    """What the passive or the active party sends; `descent` has its `radius` and `step_size`."""
    rounded, passive = descent | {"grid": float(GRID)}, sender == "passive"

    @cache
    def steps(epochs: int) -> tuple[Fraction, ...]:
        schedule = sensitivities.Schedule(rows, batch, epochs)
        if passive:
            moved = sensitivities.passive_messages(schedule, cap=CAP, clip=clip, **rounded)
        else:
            bounds = sensitivities.logistic_bounds(radius=descent["radius"], active_cap=CAP)
            moved = sensitivities.active_messages(schedule, bounds, cap=CAP, **rounded)
        # Fractions keep Δ/grid exact: a float quotient could round down. Equal steps share one.
        exact = {step: Fraction(step) / GRID for step in set(moved.per_step)}
        return tuple(exact[step] for step in moved.per_step)

    def views(sigma: Fraction, epochs: int) -> Views:
        variance = (sigma / GRID) ** 2
        DiscreteGaussianNoise(variance)  # refuses what cannot be drawn
        event = Approximated(PerStep(steps(epochs), variance), draws=epochs * rows)
        clips = f", {sender} clips what it receives to ±{clip:g}" if passive else ""
        provided = f"batches are public, every record is used once an epoch{clips}"
        receiver = observers.PartyView("active" if passive else "passive")
        return (View(receiver, PartOf(str(sender)), event, provided),)

    def paper(sigma: Fraction, epochs: int, delta: float) -> Figures:
        if delta == 0:
            return ()
        count = sensitivities.Schedule(rows, batch, epochs).steps
        schedule: dict[str, Any] = {"batch": batch, "epochs": epochs, "steps": count, **descent}
        if passive:
            claimed = papers.passive_sensitivity(**schedule, lipschitz=papers.LOGISTIC.lipschitz)
        else:
            claimed = papers.active_sensitivity(**schedule, **vars(papers.LOGISTIC))
        return claimed, _claimed(delta, claimed.value, sigma, f"{CLASSICAL}, at that sensitivity")

    notes = (
        NEAR_ITS_LAW,
        f"Messages are rounded to a grid of {GRID}, which adds √b grid steps to every sensitivity.",
        "Every passive party must receive the same noisy message: fresh noise for each could be averaged.",
    )
    least, greatest = (Fraction(float(variance * GRID**2) ** 0.5) for variance in VARIANCES)
    bounds = least * Fraction(1001, 1000), greatest * Fraction(999, 1000)
    name = f"discrete Gaussian noise on the {sender} party's messages"
    return MechanismFamily(name, "σ", notes, *bounds, views, paper=paper, repeats="epochs")


FAMILIES: Mapping[str, Callable[..., MechanismFamily]] = {
    **{law: partial(added_noise, law) for law in NOISES},
    "moments": moments,
    "poisson-binomial": poisson_binomial,
    "messages": messages,
}


def work_out(
    mechanism: MechanismFamily,
    *,
    noise: Fraction | None,
    epsilon: float | None,
    delta: float,
    times: int,
    to: str | None = None,
) -> tuple[Fraction, str | None, list[tuple[View, Guarantee]]]:
    """The noise, whom it was calibrated for if ε was asked, and what each observer sees with its guarantee.

    There is no bound where accounting refuses one observer only.
    """
    if (noise is None) == (epsilon is None):
        raise PlanError(
            "give either the noise or --epsilon: from the noise to ε, or from ε to the least noise."
        )
    if not 0 <= delta < 1:
        raise PlanError(f"--delta {delta:g}: δ is a probability, at least 0 and less than 1.")
    if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError(f"--epsilon {epsilon:g}: privacy loss is a positive number. Try 1.")
    if times < 1:
        raise PlanError(f"--times {times}: a release is made at least once.")
    if to is not None and epsilon is None:
        raise PlanError("--for says whom --epsilon is meant for; without --epsilon it has no use.")
    if epsilon is not None:
        noise, to = _calibrated(mechanism, epsilon, delta, times, to)
    if noise is None or noise <= 0:
        raise PlanError(f"{mechanism.parameter} = {noise}: without noise nothing is hidden.")
    seen = []
    for view in mechanism.views(noise, times):
        check_claim(view.event, observer=view.observer, unit=view.unit)
        bound, method = math.inf, "no bound"
        with suppress(PrivacyError):  # the others are still told
            cost = account(view.event, delta)
            bound, method = cost.epsilon, cost.method
        seen.append((view, Guarantee(view.observer, view.unit, bound, delta, view.assumption, method)))
    if all(math.isinf(guarantee.epsilon) for _, guarantee in seen):
        account(seen[0][0].event, delta)  # says why
    return noise, to, seen


def _calibrated(
    mechanism: MechanismFamily, epsilon: float, delta: float, times: int, to: str | None
) -> tuple[Fraction, str]:
    """The least noise that keeps the observers whom ε is meant for within it, and who they are."""

    def drawable(noise: Fraction) -> Fraction:
        return min(max(noise, mechanism.least), mechanism.greatest)

    def event(place: int, noise: Fraction) -> Event:
        return mechanism.views(drawable(noise), times)[place].event

    some = drawable(Fraction(1, 4))
    kinds = [view.observer.name.split(":")[0] for view in mechanism.views(some, times)]
    to = to or ("server" if "server" in kinds else kinds[0])
    places = [place for place, kind in enumerate(kinds) if to in ("everyone", kind)]
    if not places:
        there = ", ".join(dict.fromkeys(kinds))
        raise PlanError(f"--for {to}: this release has no such observer. It has {there}; or say everyone.")
    if mechanism.search is not None:
        targets = places[:1] if to == "server" else places
        return min(mechanism.search(event(place, some), epsilon, delta) for place in targets), to
    noises = (calibrate(partial(event, place), epsilon=epsilon, delta=delta) for place in places)
    noise = drawable(max(noises))
    # A target that even the largest drawable noise misses looks met nowhere; one met by the least is met there.
    if any(account(event(place, noise), delta).epsilon > epsilon for place in places):
        raise PlanError(f"no {mechanism.parameter} that can be drawn keeps this within ε = {epsilon:g}.")
    return noise, to


def respond(
    mechanism: MechanismFamily,
    given: dict[str, Any],
    *,
    epsilon: float | None,
    delta: float,
    times: int,
    paper: bool,
    **query: Any,
) -> Answer:
    """The answer to what is asked of a mechanism, whose own options were `given`."""
    try:
        noise, to, seen = work_out(mechanism, epsilon=epsilon, delta=delta, times=times, **query)
    except (ValueError, TypeError) as error:
        # Pure functions speak of their own arguments, which are what the user gave.
        raise PlanError(f"{error}.") from None
    # The rate is said apart, and classes are not used where the label is a number.
    apart = {"rate", "classes"} if given.get("regression") else {"rate"}
    shown = {name: str(value) if isinstance(value, Fraction) else value for name, value in given.items()}
    figures = mechanism.paper(noise, times, delta) if paper else ()
    said = [{"label": papers.LABEL, **asdict(figure), "sentence": str(figure)} for figure in figures]
    target = {"epsilon": epsilon, "delta": delta, "for": to} if to else None
    exact = {"name": mechanism.parameter, "value": float(noise), "exact": str(noise), "calibrated": target}
    data = {
        "mechanism": mechanism.name,
        "given": {name: value for name, value in shown.items() if value is not None and name not in apart},
        "noise": exact,
        "delta": delta,
        "times": times,
        "times_of": mechanism.repeats,
        "rate": shown.get("rate"),
        "guarantees": [
            {**guarantee_facts(item).to_data(), "event": event_to_data(view.event)} for view, item in seen
        ],
        "notes": [ROUNDED, *mechanism.notes],
        "paper": said if paper else None,
    }
    return Answer(data, "\n".join(_lines(data)))


def _lines(data: dict[str, Any]) -> list[str]:
    noise, exact = data["noise"], data["noise"]["exact"]
    # For people six digits, or the fraction itself where it is short.
    amount = f"{noise['value']:.6g}"
    if Fraction(amount) != Fraction(exact) and len(exact) <= 12:
        amount = exact
    first = f"{data['mechanism']}, {noise['name']} = {amount}"
    if target := noise["calibrated"]:
        aim = f"ε = {target['epsilon']:g} at δ = {target['delta']:g}"
        first += f", the least for {aim} for the observer {target['for']}"
    if data["times"] > 1:
        first += f", {data['times']} {data['times_of']}"
    if data["rate"]:
        first += f", each record in a release with probability {data['rate']}"
    lines = [first, "", *(f"  {item['sentence']}" for item in data["guarantees"])]
    if data["paper"] is not None:
        lines += ["", "What the papers' own formulas say:"]
        figures = [f"  {figure['sentence']}" for figure in data["paper"]]
        lines += figures or ["  No paper has a formula for this release."]
    return [*lines, "", *(f"  {note}" for note in data["notes"])]
