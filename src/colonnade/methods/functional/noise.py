"""The noise of one block of coefficients: discrete Laplace for pure ε, or Skellam for (ε, δ).

Every owner deals one part of 1/(K − t). Of discrete Laplace noise those are Pólya parts, whose truncation is the δ that
is printed; only where K − t = 1 is the whole drawn, untruncated, and δ is 0 (docs/proofs/polya-parts.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from colonnade.errors import PlanError
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise
from colonnade.noise.polya import PolyaNoise
from colonnade.noise.skellam import SkellamNoise
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.composition import itemise
from colonnade.privacy.events import Approximated, DiscreteLaplace, Event, Skellam
from colonnade.privacy.pure import pure_epsilon
from colonnade.privacy.sensitivity.functional import CoefficientChange
from colonnade.runtime.group import Group

Law = Literal["laplace", "skellam"]
LAWS: tuple[Law, ...] = ("laplace", "skellam")

# A whole discrete Laplace is past so many scales with probability e^-75: then a coefficient may wrap around in the
# field, which spoils the model and, being a function of what is opened, no guarantee.
_FAR_IN_SCALES = 75


@dataclass(frozen=True)
class BlockNoise:
    """The whole noise that ε was computed for; `parameter` is the scale of a Laplace or the μ of a Skellam law."""

    law: Law
    parameter: Fraction

    @cached_property
    def whole(self) -> DiscreteLaplaceNoise | SkellamNoise:
        """The law that any K − t owners' parts add up to."""
        return DiscreteLaplaceNoise(self.parameter) if self.law == "laplace" else SkellamNoise(self.parameter)

    def part(self, group: Group) -> DiscreteLaplaceNoise | PolyaNoise | SkellamNoise:
        """What one owner draws."""
        return self.whole.part(group.honest_owners)

    def reach(self, group: Group) -> int:
        """What all parts together do not pass."""
        part = self.part(group)
        each = (
            math.ceil(_FAR_IN_SCALES * part.scale) if isinstance(part, DiscreteLaplaceNoise) else part.support
        )
        return len(group.owners) * each

    def event(
        self, change: CoefficientChange, group: Group, *, entries: int, known: int | None = None
    ) -> Event:
        """What the opened block is to an observer who knows t owners' parts, or so many."""
        owners, honest = len(group.owners), group.honest_owners
        known = group.threshold if known is None else known
        whole = self.whole
        if isinstance(whole, DiscreteLaplaceNoise):
            return whole.event(change.l1, known=known, parts=owners, of=honest, entries=entries)
        return whole.event(change, known=known, parts=owners, of=honest, entries=entries)

    def variance(self, group: Group) -> float:
        """Of an opened coefficient, every owner's part included: K/(K − t) times the whole's."""
        if self.law == "skellam":
            whole = 2.0 * float(self.parameter)
        else:
            rate = float(1 / self.parameter)
            whole = 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2
        return whole * len(group.owners) / group.honest_owners

    def __str__(self) -> str:
        if self.law == "laplace":
            return f"discrete Laplace of scale {float(self.parameter):.6g}"
        return f"Skellam of μ = {float(self.parameter):.6g}"

    def to_data(self) -> dict[str, Any]:
        """The noise as plain values."""
        return {"law": self.law, "parameter": str(self.parameter)}


def calibrated(
    law: Law, change: CoefficientChange, group: Group, *, entries: int, epsilon: float, delta: float
) -> BlockNoise:
    """The least noise of this law that keeps a block within ε, at δ = 0 or at this δ.

    Laplace noise is calibrated to its pure ε whatever δ is.
    """
    if law == "laplace":
        scale = calibrate(lambda scale: DiscreteLaplace(change.l1, scale), epsilon=epsilon, delta=0.0)
        found = BlockNoise(law, scale)
    else:
        draws = group.honest_owners * entries

        def event(mu: Fraction) -> Event:
            return Approximated(Skellam(change.l1, change.l2, mu), draws=draws)

        found = BlockNoise(law, calibrate(event, epsilon=epsilon, delta=delta))
    found.part(group)  # refuses what no table can draw
    return found


def least_noise(
    laws: tuple[Law, ...],
    change: CoefficientChange,
    group: Group,
    *,
    entries: int,
    epsilon: float,
    delta: float,
) -> BlockNoise:
    """Whichever law adds less variance to an opened coefficient; one that cannot be drawn on this grid is no choice."""
    found, refused = [], PlanError("no law of noise was named")
    for law in laws:
        try:
            found.append(calibrated(law, change, group, entries=entries, epsilon=epsilon, delta=delta))
        except PlanError as error:
            refused = error
    if not found:
        raise refused
    return min(found, key=lambda noise: noise.variance(group))


def truncation_delta(events: tuple[Event, ...], delta: float) -> float:
    """The δ at which the pure ε of these Laplace events is stated: 0, or what their truncated draws cost.

    At most the δ given; four times (1 + e^ε) per draw leaves `account` the room it sets aside.
    """
    needed = 0.0
    for event in events:
        items = itemise(event)
        if items.draws:
            growth = 1.0 + math.exp(min(pure_epsilon(items), 700.0))
            needed = max(needed, 4.0 * float(items.total_variation) * growth)
    return min(needed, delta)
