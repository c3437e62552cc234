"""What a release says of columns one and two at a time, where their coding tells every level apart.

A column of k levels has k codes E, affinely independent, so the counts of its levels follow from the sum of its
features and the number of people, and the counts of two columns' levels together from a block of the Gram matrix, two
sums and that number: all of it is linear in what was released, and so is its noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import LabelBlock
from colonnade.data.levels import LevelKind
from colonnade.errors import DataError, DrownedByNoise
from colonnade.models.columns import Encoders
from colonnade.models.selection import Unit, units

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LevelColumn:
    """A column whose levels a release tells apart: its name there, whose it is, its codes and its features' places."""

    name: str
    party: str
    column: LevelKind
    span: slice

    @cached_property
    def codes(self) -> Array:
        return self.column.codes

    @property
    def levels(self) -> tuple[str, ...]:
        return self.column.levels

    @cached_property
    def inverse(self) -> Array:
        square = np.vstack([self.codes.T, np.ones(len(self.codes))])
        return np.asarray(np.linalg.inv(square))


@dataclass(frozen=True, eq=False)
class Margins:
    """Counts and sums by class, Gram matrices together or by class, in units of the codes, with their noise.

    `grams` has one matrix, or one for each class of a class-conditional release; the rows of `sums` and the entries of
    `counts` are classes, one where there is no label. `noise` is the standard deviation of an entry of a Gram matrix
    between two columns, `sum_noise` that of an entry of a sum, `count_noise` that of a count.
    """

    columns: tuple[LevelColumn, ...]
    label: LabelBlock
    grams: Array
    sums: Array
    counts: Array
    noise: float
    sum_noise: float
    count_noise: float

    def __post_init__(self) -> None:
        if not self.people > 2.0 * self.count_noise * np.sqrt(len(self.counts)):
            raise DrownedByNoise(
                f"the noisy number of people is {self.people:.1f} (standard deviation "
                f"{self.count_noise * np.sqrt(len(self.counts)):.1f}), so all that is said of the columns is noise. "
                "Use more people, or a release with less noise (a larger ε)."
            )

    @property
    def people(self) -> float:
        return float(self.counts.sum())

    @property
    def conditional(self) -> bool:
        return len(self.grams) > 1

    def level_counts(self, place: int) -> tuple[Array, Array]:
        """Counts of the levels of a column by class, one row a class, and their standard deviations."""
        column = self.columns[place]
        known = np.column_stack([self.sums[:, column.span], self.counts])
        spread = np.full(known.shape, self.sum_noise)
        spread[:, -1] = self.count_noise
        return known @ column.inverse.T, np.sqrt(spread**2 @ (column.inverse.T**2))

    def level_shares(self, place: int) -> tuple[Array, Array]:
        """The share of each level among everybody, and its standard deviation, the noise of the total left aside."""
        counts, spread = self.level_counts(place)
        return counts.sum(axis=0) / self.people, np.sqrt((spread**2).sum(axis=0)) / self.people

    def pair_counts(self, first: int, second: int) -> tuple[Array, Array]:
        """How many people have each pair of levels of two columns, and the standard deviations."""
        a, b = self.columns[first], self.columns[second]
        known = np.zeros((a.codes.shape[1] + 1, b.codes.shape[1] + 1))
        spread = np.zeros_like(known)
        known[:-1, :-1] = self.grams[:, a.span, b.span].sum(axis=0)
        known[:-1, -1] = self.sums[:, a.span].sum(axis=0)
        known[-1, :-1] = self.sums[:, b.span].sum(axis=0)
        known[-1, -1] = self.counts.sum()
        spread[:-1, :-1] = len(self.grams) * self.noise**2
        spread[:-1, -1] = spread[-1, :-1] = len(self.counts) * self.sum_noise**2
        spread[-1, -1] = len(self.counts) * self.count_noise**2
        counts = a.inverse @ known @ b.inverse.T
        return counts, np.sqrt((a.inverse**2) @ spread @ (b.inverse.T**2))

    def drowned(self) -> tuple[str, ...]:
        """The columns whose shares are all within their noise of those that would be if everybody were alike."""
        names = []
        for place, column in enumerate(self.columns):
            shares, spread = self.level_shares(place)
            if np.all(np.abs(shares - 1.0 / len(shares)) <= 2.0 * spread) and np.median(spread) > 0.5 / len(
                shares
            ):
                names.append(column.name)
        return tuple(names)


def level_columns(encoders: Encoders) -> tuple[LevelColumn, ...]:
    """The columns of a release, if its coding tells their levels apart; else a `DataError` that names the others."""
    all_units = units(encoders)
    poor = [unit.name for unit in all_units if not is_levelled(unit)]
    if poor:
        named = ", ".join(poor[:6]) + (f" and {len(poor) - 6} more" if len(poor) > 6 else "")
        rest = [unit.name for unit in all_units if is_levelled(unit)]
        aside = f", or leave them out: {', '.join(rest[:3])}{', …' if len(rest) > 3 else ''}" if rest else ""
        raise DataError(
            f"no table can be made of {named}: {'it is' if len(poor) == 1 else 'they are'} coded as "
            "numbers, of which a release knows two averages and not how many people are where. Declare "
            f'kind = "bins" with ordered = true for the next release{aside}.'
        )
    return tuple(LevelColumn(unit.name, unit.party, _level(unit), unit.span) for unit in all_units)


def is_levelled(unit: Unit) -> bool:
    """Whether a release tells the levels of this column apart."""
    return not unit.mapped and bool(unit.columns[0].levels)


def _level(unit: Unit) -> LevelKind:
    column = unit.columns[0]
    if not isinstance(column, LevelKind):
        raise TypeError(f"{unit.name} has no levels")
    return column
