"""The noise of a protocol whose dealers each add a part: which law, how much, and how near to its law it is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeVar

from colonnade.errors import PlanError
from colonnade.noise.discrete_gaussian import (
    DiscreteGaussianNoise,
    MatrixGaussianNoise,
    matrix_gaussian_event,
)
from colonnade.noise.mechanism import unknown_fraction
from colonnade.noise.skellam import MatrixSkellamNoise, SkellamNoise
from colonnade.privacy import events
from colonnade.privacy.calibrate import calibrate, epsilon_or_infinity
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Group

Law = Literal["gaussian", "skellam"]
DISTRIBUTIONS: tuple[Law, ...] = ("gaussian", "skellam")

_UNBEATEN = Fraction(1 << 20)


@dataclass(frozen=True)
class DealtNoise:
    """A law and the variance of its whole: of every entry of a vector, or of a diagonal entry of a symmetric matrix.

    Off the diagonal the variance is half. Events are made for any variance, because calibration looks where no sampler
    goes; `vector` and `matrix` refuse.
    """

    law: Law
    variance: Fraction
    bits: int = events.COARSE_BITS

    @property
    def vector(self) -> DiscreteGaussianNoise | SkellamNoise:
        if self.law == "skellam":
            return SkellamNoise(self.variance / 2)
        return DiscreteGaussianNoise(self.variance, self.bits)

    @property
    def matrix(self) -> MatrixGaussianNoise | MatrixSkellamNoise:
        if self.law == "skellam":
            return MatrixSkellamNoise(self.variance / 2)
        return MatrixGaussianNoise(self.variance, self.bits)

    def total_variance(self, group: Group) -> Fraction:
        """Of an opened entry: every dealer's part is in it."""
        return self.variance * Fraction(len(group.dealers), group.whole)

    def vector_event(
        self, change: VectorChange, group: Group, *, entries: int, known: int | None = None
    ) -> events.Approximated:
        """What an opened vector is to who knows so many parts; left out, as many as the group tolerates."""
        left, parts = self._left(group, known)
        if self.law == "gaussian":
            leaf = events.DiscreteGaussian(change.l2, left, coordinates=entries)
            return events.Approximated(leaf, draws=parts * entries, bits=self.bits)
        skellam = events.Skellam(change.l1, change.l2, left / 2, coordinates=1 if entries == 1 else None)
        return events.Approximated(skellam, draws=parts * entries)

    def matrix_event(
        self, change: events.MatrixChange, group: Group, *, size: int, known: int | None = None
    ) -> events.Event:
        """What an opened symmetric matrix of this side is to who knows so many parts."""
        left, parts = self._left(group, known)
        if self.law == "gaussian":
            return matrix_gaussian_event(change, left, size=size, parts=parts, bits=self.bits)
        return events.Approximated(
            events.MatrixSkellam(change, left / 2), draws=parts * size * (size + 1) // 2
        )

    def _left(self, group: Group, known: int | None) -> tuple[Fraction, int]:
        known = group.tolerated if known is None else known
        left = unknown_fraction(known=known, parts=len(group.dealers), of=group.whole)
        return self.variance * left, len(group.dealers) - known

    def to_data(self) -> dict[str, Any]:
        return {"law": self.law, "variance": str(self.variance), "bits": self.bits}


def least_noise(
    event: Callable[[DealtNoise], events.Event],
    *,
    epsilon: float,
    delta: float,
    drawn: Callable[[DealtNoise], object],
    distributions: tuple[Law, ...] = DISTRIBUTIONS,
    bits: int = events.COARSE_BITS,
    digits: int = 6,
) -> DealtNoise:
    """Whichever law keeps the event within ε at δ with less variance; `drawn` refuses what no table can draw.

    Skellam noise is tried only where the discrete Gaussian needs less than 2²⁰: its Rényi bound is at least that of
    normal noise, which costs more than the few units that rounding takes from a larger one.
    """
    noises: list[DealtNoise] = []
    refused = PlanError("no law of noise was named")
    for law in distributions:
        if noises and noises[0].variance >= _UNBEATEN:
            break
        blank = DealtNoise(law, Fraction(1), bits if law == "gaussian" else events.COARSE_BITS)

        def halved(mu: Fraction, blank: DealtNoise = blank) -> events.Event:
            return event(replace(blank, variance=2 * mu))

        try:
            noise = replace(
                blank, variance=2 * calibrate(halved, epsilon=epsilon, delta=delta, digits=digits)
            )
            drawn(noise)
        except PlanError as error:
            refused = error
        else:
            noises.append(noise)
    if not noises:
        raise refused
    return min(noises, key=lambda noise: noise.variance)


LARGEST_COARSE_EPSILON = 8.0
"""Above it draws are fine, so that a ledger can add up many such runs before e^ε times their distance is felt in δ."""
LARGEST_FINE_EPSILON = 600.0
"""Above it they are finer still."""

PlanT = TypeVar("PlanT", bound=Plan)


def bits_for(epsilon: float) -> int:
    """How near their law draws must be where nobody's ε is larger: within 2 to the minus so many."""
    if epsilon <= LARGEST_COARSE_EPSILON:
        return events.COARSE_BITS
    return events.FINE_BITS if epsilon <= LARGEST_FINE_EPSILON else events.FINEST_BITS


def near_enough(
    plan: PlanT, accounted: Callable[[PlanT], Iterable[events.Event]], finer: Callable[[PlanT, int], PlanT]
) -> PlanT:
    """The plan, or, where something costs so much that it asks for them, the same with finer draws. No ε grows.

    `accounted` are all events that are stated to anybody; a plan that cannot be drawn `finer` is left as it is.
    """
    plan.check_drawable()
    for bits in (events.FINE_BITS, events.FINEST_BITS):
        largest = max((epsilon_or_infinity(event, plan.delta) for event in accounted(plan)), default=0.0)
        # Of what cannot be stated yet nobody knows how large it is: it takes one after the other.
        if bits_for(largest) < bits:
            break
        try:
            closer = finer(plan, bits)
            closer.check_drawable()
        except PlanError:
            if math.isinf(largest):
                raise
            break
        plan = closer
    return plan


def in_views(plan: Plan) -> Iterator[events.Event]:
    """What the plan is to its observers, where ledgers hold nothing beside that."""
    return (view.event for view in plan.views)
