"""From a mechanism and its numbers to what each observer is left with: families in one noise parameter.

A family gives, for a noise parameter and a number of repetitions, one `View` per observer. Everything `colonnade
privacy` answers, forward, backward or as a curve, is accounting of these views.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from colonnade.errors import PlanError
from colonnade.noise import discrete_gaussian, discrete_laplace, skellam
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise
from colonnade.noise.mechanism import VectorChange
from colonnade.noise.sampler import LARGEST_DRAW
from colonnade.noise.skellam import SkellamNoise
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Event, Gaussian, Laplace, PoissonSampled, Repeated
from colonnade.privacy.guarantee import View, account
from colonnade.privacy.neighbours import REPLACE, ZERO_OUT, OthersPart, Unit, ZeroOut
from colonnade.privacy.observers import Reader, Server
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.paper.hdp_vfl import classical_sigma

Views: TypeAlias = Callable[[Fraction, int], tuple[View, ...]]
Papers: TypeAlias = Callable[[Fraction, int, float], tuple[PaperFigure, ...]]

NEAR_ITS_LAW = "The sampler is within 2⁻¹⁰⁰ of its law per draw; the distance of all draws is taken out of δ."
REAL_NOISE = (
    "This is the law of real numbers. Floating-point draws of it leak low bits; Colonnade draws integers "
    "(discrete-gaussian, discrete-laplace, skellam)."
)
AS_GIVEN = "Sensitivities are taken as you give them: round them up."


@dataclass(frozen=True)
class AnyOwners:
    """Some owners of columns, whichever they are, who pool what they know."""

    count: int

    @property
    def name(self) -> str:
        return "party:any" if self.count == 1 else f"coalition:any {self.count} owners"

    @property
    def sentence(self) -> str:
        return "Any one owner" if self.count == 1 else f"Any group of {self.count} owners"

    @property
    def knows_batches(self) -> bool:
        return True

    def parts_known(self, owners: Collection[str]) -> int:
        return min(self.count, len(owners))


@dataclass(frozen=True)
class Family:
    """A mechanism with everything fixed but its noise.

    `views(parameter, times)` says what each observer is left with. Parameters between `least` and `greatest` can be
    drawn. `search`, for a parameter that is no amount of noise, replaces the usual calibration.
    """

    mechanism: str
    parameter: str
    views: Views
    notes: tuple[str, ...]
    least: Fraction = Fraction(1, 10**12)
    greatest: Fraction = Fraction(10**60)
    search: Callable[[str, float, float, int], Fraction] | None = None
    paper: Papers | None = None
    repeats: str = "releases"

    def least_noise(self, whom: str, *, epsilon: float, delta: float, times: int) -> Fraction:
        """The parameter with the least noise that keeps the observers called `whom` within ε at δ."""
        if self.search is not None:
            return self.search(whom, epsilon, delta, times)

        def parameter_for(place: int) -> Fraction:
            return calibrate(
                lambda noise: selected(self.views(self._drawable(noise), times), whom)[place].event,
                epsilon=epsilon,
                delta=delta,
            )

        places = len(selected(self.views(self._drawable(Fraction(1)), times), whom))
        least = self._drawable(max(parameter_for(place) for place in range(places)))
        # A target that even the largest drawable noise misses looks met nowhere; one met by the least is met there.
        for view in selected(self.views(least, times), whom):
            if account(view.event, delta).epsilon > epsilon:
                raise PlanError(f"no {self.parameter} that can be drawn keeps this within ε = {epsilon:g}.")
        return least

    def _drawable(self, parameter: Fraction) -> Fraction:
        return min(max(parameter, self.least), self.greatest)


def selected(views: tuple[View, ...], whom: str) -> tuple[View, ...]:
    """The views of the observers of one kind: server, reader, party, coalition, or everyone."""
    chosen = tuple(view for view in views if whom == "everyone" or view.observer.name.split(":")[0] == whom)
    if not chosen:
        kinds = list(dict.fromkeys(view.observer.name.split(":")[0] for view in views))
        raise PlanError(
            f"--for {whom}: this release has no such observer. It has {', '.join(kinds)}; or say everyone."
        )
    return chosen


@dataclass(frozen=True)
class Dealing:
    """Noise dealt by `owners` in parts of 1/(K − t), so that t of them may tell theirs; one owner deals it whole."""

    owners: int = 1
    threshold: int = 0

    def __post_init__(self) -> None:
        if self.owners < 1 or not 0 <= self.threshold < self.owners:
            raise PlanError(
                f"of {self.owners} owners at most {max(self.owners - 1, 0)} can collude and leave noise; "
                f"--threshold {self.threshold} was asked."
            )

    @classmethod
    def asked(cls, owners: int, threshold: int | None) -> Dealing:
        """As many owners as asked, and t as in a committee of owners unless it is given."""
        if threshold is None:
            threshold = 0 if owners == 1 else max(1, (owners - 1) // 2)
        return cls(owners, threshold)

    @property
    def of(self) -> int:
        return self.owners - self.threshold


def unit_asked(name: str) -> Unit:
    units: dict[str, Unit] = {unit.name: unit for unit in (ZERO_OUT, REPLACE)}
    if name not in units:
        raise PlanError(f"--unit {name}: sensitivities are given for {' or '.join(units)}.")
    return units[name]


def gaussian(sensitivity: Fraction, *, unit: Unit, rate: Fraction | None) -> Family:
    """Normal noise σ on a real vector of this L2 sensitivity."""

    def views(sigma: Fraction, times: int) -> tuple[View, ...]:
        return _undealt(Gaussian(sensitivity, sigma), unit=unit, rate=rate, times=times)

    def paper(sigma: Fraction, times: int, delta: float) -> tuple[PaperFigure, ...]:
        if times > 1 or rate is not None or delta == 0:
            return ()
        figure = classical_sigma(1.0, delta, sensitivity=float(sensitivity))
        claimed = figure.value / float(sigma)
        return (PaperFigure(claimed, "ε by Lemma 1 of HDP-VFL, classical Gaussian", figure.why_not),)

    return Family("normal noise", "σ", views, (REAL_NOISE, AS_GIVEN), paper=paper)


def laplace(sensitivity: Fraction, *, unit: Unit, rate: Fraction | None) -> Family:
    """Laplace noise on a real vector of this L1 sensitivity."""

    def views(scale: Fraction, times: int) -> tuple[View, ...]:
        return _undealt(Laplace(sensitivity, scale), unit=unit, rate=rate, times=times)

    return Family("Laplace noise", "scale", views, (REAL_NOISE, AS_GIVEN))


def gaussian_on_integers(
    sensitivity: Fraction, *, entries: int | None, unit: Unit, rate: Fraction | None
) -> Family:
    """Discrete Gaussian noise σ² on an integer vector of this L2 sensitivity."""

    def views(sigma_squared: Fraction, times: int) -> tuple[View, ...]:
        event = DiscreteGaussianNoise(sigma_squared).event(sensitivity, entries=entries or LARGEST_DRAW)
        return _undealt(event, unit=unit, rate=rate, times=times)

    return Family(
        "discrete Gaussian noise",
        "σ²",
        views,
        (
            NEAR_ITS_LAW,
            AS_GIVEN,
            "One whole noise; parts that several dealers add are accounted for alike.",
        ),
        least=discrete_gaussian.SMALLEST_VARIANCE,
        greatest=discrete_gaussian.LARGEST_VARIANCE,
    )


def laplace_on_integers(
    sensitivity: Fraction,
    *,
    others: Fraction | None,
    entries: int | None,
    dealing: Dealing,
    unit: Unit,
    rate: Fraction | None,
) -> Family:
    """Discrete Laplace noise on an integer vector of this L1 sensitivity, whole or dealt as Pólya parts."""

    def views(scale: Fraction, times: int) -> tuple[View, ...]:
        def event(change: Fraction, known: int) -> Event:
            return DiscreteLaplaceNoise(scale).event(
                change, known=known, parts=dealing.owners, of=dealing.of, entries=entries or LARGEST_DRAW
            )

        against = _against_owners(sensitivity, others, unit)
        return _views(
            lambda party, known: event(against if party else sensitivity, known),
            dealing=dealing,
            unit=unit,
            rate=rate,
            times=times,
        )

    whole = "Whole noises are exact and cost no δ; dealt parts are truncated, so they need δ > 0."
    return Family(
        "discrete Laplace noise",
        "scale",
        views,
        (whole, AS_GIVEN),
        least=discrete_laplace.SMALLEST_SCALE,
        greatest=discrete_laplace.LARGEST_SCALE if dealing.of == 1 else Fraction(1 << 40),
    )


def skellam_on_integers(
    change: VectorChange,
    *,
    others: VectorChange | None,
    entries: int | None,
    dealing: Dealing,
    unit: Unit,
    rate: Fraction | None,
) -> Family:
    """Skellam noise Sk(μ), variance 2μ, on an integer vector, whole or dealt in parts."""

    def views(mu: Fraction, times: int) -> tuple[View, ...]:
        twice = others or VectorChange(
            _against_owners(Fraction(change.l1), None, unit), _against_owners(Fraction(change.l2), None, unit)
        )

        def event(party: bool, known: int) -> Event:
            return SkellamNoise(mu).event(
                twice if party else change,
                known=known,
                parts=dealing.owners,
                of=dealing.of,
                entries=entries or LARGEST_DRAW,
            )

        return _views(event, dealing=dealing, unit=unit, rate=rate, times=times)

    return Family(
        "Skellam noise",
        "μ",
        views,
        (NEAR_ITS_LAW, AS_GIVEN),
        least=skellam.SMALLEST_MU,
        greatest=skellam.LARGEST_MU,
    )


def _undealt(event: Event, *, unit: Unit, rate: Fraction | None, times: int) -> tuple[View, ...]:
    return _views(lambda _party, _known: event, dealing=Dealing(), unit=unit, rate=rate, times=times)


def _views(
    event: Callable[[bool, int], Event], *, dealing: Dealing, unit: Unit, rate: Fraction | None, times: int
) -> tuple[View, ...]:
    """One view per observer. `event(party, known)` is one release to one who knows so many parts of its noise."""
    known = dealing.threshold
    blind = Repeated(_sampled(event(False, known), rate), times)
    hidden = "" if rate is None else ", and it learns neither who is in a batch nor how many"
    if dealing.owners == 1:
        return (View(Reader(), unit, blind, f"whoever draws the noise keeps it secret{hidden}"),)
    told = f"at most {_owners(known)} disclose{'s' if known == 1 else ''} noise parts to it{hidden}"
    views = [View(observer, unit, blind, told) for observer in (Server(), Reader())]
    for together in sorted({1, max(known, 1)}):
        # Owners know the batches, so a sample hides nothing from them and every release may use the record.
        seen: Event = Repeated(event(True, together), times)
        assumption = "it sees only the noisy sums besides its own columns and noise parts"
        views.append(View(AnyOwners(together), OthersPart(), seen, assumption))
    return tuple(views)


def _owners(count: int) -> str:
    return {0: "no owner", 1: "one owner"}.get(count, f"{count} owners")


def _sampled(event: Event, rate: Fraction | None) -> Event:
    return event if rate is None else PoissonSampled(rate, event)  # type: ignore[arg-type]


def _against_owners(sensitivity: Fraction, others: Fraction | None, unit: Unit) -> Fraction:
    """How far the others' part of a record moves the release when it is replaced.

    To replace is to zero out and to put in, so twice the sensitivity of zeroing out is always enough.
    """
    if others is not None:
        return others
    return 2 * sensitivity if isinstance(unit, ZeroOut) else sensitivity
