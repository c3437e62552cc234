"""What a release says of known columns: one and two at a time, correlations, and what tells classes apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, cast

import numpy as np

from colonnade.data.labels import LabelBlock
from colonnade.data.levels import LevelKind
from colonnade.errors import DataError, DrownedByNoise
from colonnade.models.inputs import Array, Encoders, ReleaseUnit, units
from colonnade.models.moments import decompose, floor_of


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

    `noise` is the standard deviation of an entry of a Gram matrix between two columns, `sum_noise` that of an entry
    of a sum, `count_noise` that of a count.
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
    kinds = [cast(LevelKind, unit.columns[0]) for unit in all_units]
    return tuple(
        LevelColumn(unit.name, unit.party, kind, unit.span)
        for unit, kind in zip(all_units, kinds, strict=True)
    )


def is_levelled(unit: ReleaseUnit) -> bool:
    return not unit.mapped and bool(unit.columns[0].levels)


def description(margins: Margins) -> dict[str, Any]:
    columns = [
        {**_column(margins, place), "variance_inflation": factor}
        for place, factor in enumerate(variance_inflation(margins))
    ]
    pairs = [_pair(margins, *pair) for pair in combinations(range(len(margins.columns)), 2)]
    return {
        "people": margins.people,
        "people_noise": margins.count_noise * math.sqrt(len(margins.counts)),
        "label": [
            {"level": name, "count": float(count), "noise": margins.count_noise}
            for name, count in zip(margins.label.classes, margins.counts, strict=False)
        ],
        "columns": columns,
        "pairs": sorted(pairs, key=lambda pair: -pair["association"]),
    }


def values_of(column: LevelColumn) -> Array | None:
    """A number for each level, where there is one: the middle of a bin, 0 and 1 of a binary column."""
    if column.column.middles is not None:
        return column.column.middles
    return np.array([0.0, 1.0]) if len(column.levels) == 2 else None


def _column(margins: Margins, place: int) -> dict[str, Any]:
    column = margins.columns[place]
    shares, spread = margins.level_shares(place)
    facts: dict[str, Any] = {
        "column": column.name,
        "party": column.party,
        "ordered": column.column.ordered,
        "levels": [
            {"level": level, "share": float(share), "noise": float(noise)}
            for level, share, noise in zip(column.levels, shares, spread, strict=True)
        ],
    }
    values = values_of(column)
    if values is not None and column.column.middles is not None:
        facts["mean"] = float(shares @ values)
        # The total is known far better than a share, so that only the features' noise counts.
        pull = values @ column.inverse[:, :-1]
        facts["mean_noise"] = float(
            np.linalg.norm(pull) * margins.sum_noise * math.sqrt(len(margins.counts)) / margins.people
        )
    if len(margins.counts) == 2:
        facts.update(_evidence(margins, place))
    return facts


def _evidence(margins: Margins, place: int) -> dict[str, Any]:
    """Weight of evidence by level, ln of the classes' shares, and the information value of the column.

    A level that does not stand out of the noise in both classes counts 0: the information value is then too small.
    """
    counts, spread = margins.level_counts(place)
    whole = margins.counts[:, None]
    seen = np.all(counts > 2.0 * spread, axis=0)
    shares = np.where(seen, counts, 1.0) / whole
    weights = np.where(seen, np.log(shares[1] / shares[0]), np.nan)
    noise = np.sqrt(((spread / np.where(seen, counts, 1.0)) ** 2).sum(axis=0))
    terms = np.where(seen, (shares[1] - shares[0]) * np.nan_to_num(weights), 0.0)
    # To first order: d/dp₁ = WOE + 1 − p₀/p₁, and d/dp₀ = −WOE + 1 − p₁/p₀.
    slopes = np.where(
        seen, np.array([-weights + 1.0 - shares[1] / shares[0], weights + 1.0 - shares[0] / shares[1]]), 0.0
    )
    # Counts of one column share the noise of its features.
    pulls = (slopes / whole) @ margins.columns[place].inverse
    noises = np.append(np.full(pulls.shape[1] - 1, margins.sum_noise), margins.count_noise)
    error = math.sqrt(float(((pulls * noises) ** 2).sum()))
    return {
        "weight_of_evidence": [
            {"level": level, "weight": _or_none(weight), "noise": _or_none(one if visible else math.nan)}
            for level, weight, one, visible in zip(
                margins.columns[place].levels, weights, noise, seen, strict=True
            )
        ],
        "information_value": float(terms.sum()),
        "information_value_noise": error,
        "hidden_levels": int((~seen).sum()),
    }


def _pair(margins: Margins, first: int, second: int) -> dict[str, Any]:
    a, b = margins.columns[first], margins.columns[second]
    counts, spread = margins.pair_counts(first, second)
    people = margins.people
    expected = np.outer(margins.level_shares(first)[0], margins.level_shares(second)[0]) * people
    floor = np.maximum(expected, 1.0)
    # χ² of the table, less what its noise adds on average; Cramér's V is the root of its share of the most it can be.
    square = float((((counts - expected) ** 2 - spread**2) / floor).sum())
    most = people * (min(counts.shape) - 1)
    facts: dict[str, Any] = {
        "columns": [a.name, b.name],
        "levels": [list(a.levels), list(b.levels)],
        "counts": counts.tolist(),
        "noise": spread.tolist(),
        "association": math.sqrt(min(max(square / most, 0.0), 1.0)),
    }
    one, two = values_of(a), values_of(b)
    if one is not None and two is not None:
        correlation = _correlation(margins, (first, second), (one, two))
        if correlation is not None:
            facts["correlation"], facts["correlation_noise"] = correlation
    return facts


def _correlation(
    margins: Margins, pair: tuple[int, int], values: tuple[Array, Array]
) -> tuple[float, float] | None:
    """Pearson's correlation of two columns of numbers, and its noise to first order in the covariance."""
    means, spreads, pulls = [], [], []
    for place, given in zip(pair, values, strict=True):
        shares = margins.level_shares(place)[0]
        mean = float(shares @ given)
        square = float(shares @ (given - mean) ** 2)
        if square <= 0.0:
            return None
        means.append(mean)
        spreads.append(math.sqrt(square))
        pulls.append((given - mean) @ margins.columns[place].inverse[:, :-1])
    counts, _ = margins.pair_counts(*pair)
    centred = [given - mean for given, mean in zip(values, means, strict=True)]
    product = float(centred[0] @ counts @ centred[1]) / margins.people
    noise = float(np.linalg.norm(pulls[0]) * np.linalg.norm(pulls[1])) * margins.noise
    noise *= math.sqrt(len(margins.grams)) / margins.people
    scale = spreads[0] * spreads[1]
    return min(max(product / scale, -1.0), 1.0), noise / scale


def variance_inflation(margins: Margins) -> list[float]:
    """How much of a column the others foretell: the variance inflation factor, generalised to columns of many features.

    (det(S_j) det(S_rest)/det(S))^(1/features of the column) (Fox and Monette 1992), eigenvalues of the scatter S raised
    to the noise where they are below it, which makes it a bound from below.
    """
    gram, total = margins.grams.sum(axis=0), margins.sums.sum(axis=0)
    mean = total / margins.people
    scatter = gram - margins.people * np.outer(mean, mean)
    noise = margins.noise * math.sqrt(len(margins.grams))
    spectrum = decompose((scatter + scatter.T) / 2.0, floor=max(floor_of(None, noise, len(mean)), 1e-9))
    whole = (spectrum.vectors / spectrum.inverse) @ spectrum.vectors.T
    inverse = (spectrum.vectors * spectrum.inverse) @ spectrum.vectors.T
    inflation = []
    for column in margins.columns:
        # det(S)/det(S_rest) is 1/det of the column's block of the inverse.
        own, other = (np.linalg.slogdet(part[column.span, column.span])[1] for part in (whole, inverse))
        width = column.span.stop - column.span.start
        inflation.append(float(math.exp((own + other) / width)))
    return inflation


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
