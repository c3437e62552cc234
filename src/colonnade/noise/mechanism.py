"""What every noise mechanism offers, and the arithmetic of its parts.

A mechanism is dealt in parts: each of several parties adds one, and an observer who dealt some of them
knows those. What hides the data from that observer is the rest, and `event` describes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError, PrivacyError
from colonnade.privacy.events import Event
from colonnade.randomness import Randomness

Change = TypeVar("Change", contravariant=True)


class Noise(Protocol):
    """Integer noise that can be drawn, whole or in parts."""

    def part(self, parts: int) -> Noise:
        """One of `parts` equal shares; that many independent draws of it sum to a draw of the whole."""
        ...

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """Independent draws in an array of this shape."""
        ...


class Mechanism(Noise, Protocol[Change]):
    """Noise that also knows what a release with it costs; `Change` is how it measures a change of the data."""

    def event(self, change: Change, /, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        """For an observer who knows `known` of `parts` parts, each 1/of of this noise."""
        ...


def exact_positive(name: str, value: object) -> Fraction:
    """The parameter as an exact fraction above 0; a float is refused, because its digits were rounded."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise TypeError(f"{name} is an exact number, an int or a Fraction, not {type(value).__name__}")
    if value <= 0:
        raise PlanError(f"{name} must be above 0, not {value}: without noise nothing is hidden")
    return Fraction(value)


def share(value: Fraction, parts: int) -> Fraction:
    """value/parts, exactly."""
    if parts < 1:
        raise PlanError(f"noise is dealt in at least one part, not {parts}")
    return value / parts


def unknown_fraction(*, known: int, parts: int, of: int) -> Fraction:
    """Which multiple of the whole the observer does not know: (parts − known)/of."""
    if of < 1 or parts < 1 or not 0 <= known <= parts:
        raise PlanError(
            f"{parts} parts, each 1/{of} of the whole, {known} of them known, make no sense together"
        )
    if known == parts:
        raise PrivacyError(f"an observer who knows all {parts} parts of the noise can take it off again")
    return Fraction(parts - known, of)


def whole_unknown(law: str, *, known: int, parts: int, of: int) -> None:
    """Refuses an observer who knows so much that less than one whole is left."""
    left = unknown_fraction(known=known, parts=parts, of=of)
    if left < 1:
        raise PrivacyError(
            f"{left} of the {law} noise is left to hide the data from an observer who knows {known} of {parts} "
            f"parts, and a fraction of it is another law. Deal parts of 1/{parts - known}."
        )
