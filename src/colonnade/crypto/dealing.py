"""What a dealer sends, and the integer weights that tie the shares of one polynomial together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.field import Field
from colonnade.randomness import KeyedRandomness


class InconsistentShares(ValueError):
    """The shares do not lie on one polynomial of the stated degree: a keeper erred or lied."""


@dataclass(frozen=True)
class Seed:
    """A share that is uniform, sent as the 32 bytes it is expanded from.

    The key is drawn for this one share. Expansion is AES-256 in counter mode, so a party without the key
    cannot tell the share from a uniform one.
    """

    key: bytes = field(repr=False)
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"a seed has 32 bytes, this one has {len(self.key)}")
        if any(length < 0 for length in self.shape):
            raise ValueError(f"a share cannot have shape {self.shape}")

    def expand(self, field: Field) -> FieldArray:
        return field.uniform(self.shape, KeyedRandomness(self.key))


Dealt = FieldArray | Seed


def keeper_points(keepers: int) -> tuple[int, ...]:
    """Where the keepers stand: 0, 1, −1, 2, −2, …

    Every first few of these are consecutive integers, which makes the weights between them integers.
    """
    return tuple((j + 1) // 2 * (1 if j % 2 else -1) for j in range(keepers))


def spread(points: Sequence[int], at: int) -> int:
    """∏ (x_at − x_m) over all other points: 1/spread is the weight of this share in the leading coefficient."""
    return prod(points[at] - other for m, other in enumerate(points) if m != at)


def value_weights(points: Sequence[int], at: int, field: Field) -> tuple[int, ...]:
    """Weights that give f(at) from the values of f at `points`, for a degree below their number."""
    weights = []
    for i in range(len(points)):
        top = prod(at - other for m, other in enumerate(points) if m != i)
        bottom = spread(points, i)
        whole, rest = divmod(top, bottom)
        weights.append(whole if rest == 0 else top * field.inverse(bottom) % field.modulus)
    return tuple(weights)


def combine(terms: Iterable[tuple[int, FieldArray]]) -> FieldArray:
    """Σ weight · array, in an array of its own; weights of 1 and −1 cost one addition."""
    total: FieldArray | None = None
    for weight, array in terms:
        if total is None:
            total = array.times(weight)
        else:
            total.add_times(weight, array)
    if total is None:
        raise ValueError("a sum needs at least one term")
    return total
