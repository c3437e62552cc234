"""What can be had from one release: rankings of columns, every ridge, every model that label and noise allow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc

from colonnade.errors import ColonnadeError, DataError, InputError
from colonnade.models.estimator import at_least
from colonnade.models.inputs import Array, units
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.moments import Scatter, floor_of
from colonnade.models.pca import PCA
from colonnade.models.release import MomentRelease

# A column stands out if noise alone would make any of the columns look as good once in twenty releases.
CHANCE = 0.05


@dataclass(frozen=True)
class Ranked:
    """A column, the share of the label's variance that it adds, and how often noise alone would look as good."""

    column: str
    owner: str
    gain: float
    chance: float

    @property
    def stands_out(self) -> bool:
        return self.chance < CHANCE


@dataclass(frozen=True)
class Ranking:
    """The columns of a release, the most telling first."""

    columns: tuple[Ranked, ...]

    def best(self, count: int | None = None) -> tuple[str, ...]:
        """The first so many columns, for `MomentRelease.select`; None: all that stand out, or the first one."""
        if count is None:
            count = max(1, sum(1 for ranked in self.columns if ranked.stands_out))
        if not 1 <= count <= len(self.columns):
            raise DataError(
                f"the best {count} columns were asked for, and there are {len(self.columns)} to choose from."
            )
        return tuple(ranked.column for ranked in self.columns[:count])

    def __str__(self) -> str:
        name = max(len("column"), *(len(ranked.column) for ranked in self.columns))
        owner = max(len("owner"), *(len(ranked.owner) for ranked in self.columns))
        lines = [f"{'column':<{name}}  {'owner':<{owner}}  adds   by chance"]
        for ranked in self.columns:
            remark = "" if ranked.stands_out else "  noise could explain it"
            lines.append(
                f"{ranked.column:<{name}}  {ranked.owner:<{owner}}  {100 * ranked.gain:4.1f}%  "
                f"{ranked.chance:.3f}{remark}"
            )
        return "\n".join(lines)


def rank_columns(release: MomentRelease) -> Ranking:
    """Forward selection over the columns of a release, for its label.

    With T the scatter of the features, floored as for a model, H the label's contrasts and V the label's scatter, a
    block b adds tr(H_bᵀT_bb⁻¹H_b)/V after what it shares with the blocks before it is taken out. What noise adds on
    average, ν²r·tr(M) with M = T_bb⁻¹NNᵀ for r contrasts of noise νN, is subtracted. The chance comes from the χ² law
    with the same mean and variance, times the number of columns that were to choose from.

    >>> from colonnade.models.release import EXAMPLE
    >>> print(rank_columns(EXAMPLE))
    column  owner  adds   by chance
    age     bank   70.3%  0.000
    """
    label = _contrasts(release)
    scatter, blocks = label.scatter, list(units(release.encoders))
    values, vectors = np.linalg.eigh(scatter.matrix)
    largest = float(np.abs(values).max(initial=0.0))
    # Without noise the floor only keeps what is zero up to rounding from being divided by.
    least = max(floor_of(None, scatter.noise, len(values)), largest * len(values) * 1e-10, 1e-300)
    remaining = np.asarray((vectors * np.maximum(values, least)) @ vectors.T)
    contrasts = label.contrasts.copy()
    noise = np.column_stack([np.eye(len(remaining)), label.along_mean * scatter.mean])
    ranked: list[Ranked] = []
    while blocks:
        offers = [
            _gain(remaining[unit.span, unit.span], contrasts[unit.span], noise[unit.span], label)
            for unit in blocks
        ]
        place = max(range(len(blocks)), key=lambda index: offers[index][0])
        unit = blocks.pop(place)
        gain, chance = offers[place]
        ranked.append(Ranked(unit.name, unit.party, gain, min(1.0, chance * (len(blocks) + 1))))
        shared = np.linalg.solve(remaining[unit.span, unit.span], remaining[unit.span]).T
        contrasts -= shared @ contrasts[unit.span]
        noise -= shared @ noise[unit.span]
        remaining = remaining - shared @ remaining[unit.span]
    return Ranking(tuple(ranked))


@dataclass(frozen=True, eq=False)
class _Label:
    """The label as columns to explain: their products with the features, and the noise of those."""

    scatter: Scatter
    contrasts: Array
    total: float
    variance: float
    independent: int
    along_mean: float


def _contrasts(release: MomentRelease) -> _Label:
    if release.label.one_hot:
        classes = release.class_moments()
        scatter = classes.scatter()
        shares = classes.counts / scatter.count
        contrasts = (classes.sums - np.outer(classes.counts, scatter.mean)).T
        # The noise of S_c less its share of the noise of all sums.
        noise = float(np.sum((1.0 - shares) ** 2 + (len(shares) - 1) * shares**2)) * classes.sum_noise**2
        total = float(np.sum(classes.counts * (1.0 - shares)))
        independent = len(shares) - 1
        along_mean = classes.count_noise / classes.sum_noise if noise else 0.0
        return _Label(scatter, contrasts, total, noise / independent, independent, along_mean)
    if release.label.label is None:
        raise DataError(
            "this release has no label that its columns could tell. Make one for classification or regression."
        )
    values = release.value_moments()
    scatter = values.scatter()
    contrasts = (values.cross - values.value_mean * values.total)[:, None]
    square = values.value_mean**2
    noise = values.sum_noise**2 * (1.0 + square)
    along_mean = math.sqrt((1.0 + 2.0 * square) / (1.0 + square)) / values.border
    return _Label(scatter, contrasts, max(values.value_scatter, 0.0), noise, 1, along_mean)


def _gain(block: Array, contrasts: Array, noise: Array, label: _Label) -> tuple[float, float]:
    if not label.total > 0:
        return 0.0, 1.0
    seen = float(np.sum(contrasts * np.linalg.solve(block, contrasts)))
    through = np.linalg.eigvals(np.linalg.solve(block, noise @ noise.T)).real
    mean = label.variance * label.independent * float(through.sum())
    gain = (seen - mean) / label.total
    if not mean > 0:
        return gain, 0.0 if seen > 0 else 1.0
    degrees = label.independent * float(through.sum()) ** 2 / float(np.sum(through**2))
    return gain, float(gammaincc(degrees / 2, degrees * seen / mean / 2))


STEPS = 12


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Fitted models in the order of their ridges, which rise, and for each ridge the coefficients by score."""

    ridges: tuple[float, ...]
    models: tuple[LogisticRegression | LinearRegression, ...]

    @property
    def coefficients(self) -> Array:
        return np.array([np.atleast_2d(model.coef_) for model in self.models])

    def __str__(self) -> str:
        lines = ["ridge       length of the coefficients"]
        for ridge, coefficients in zip(self.ridges, self.coefficients, strict=True):
            lines.append(f"{ridge:<10.4g}  {float(np.linalg.norm(coefficients)):.4g}")
        return "\n".join(lines)


def default_ridges(release: MomentRelease) -> tuple[float, ...]:
    """No ridge, then from 1% to 10,000% of n/d, the most that n rows of norm 1 have along an average direction of d."""
    average = release.rows / max(release.columns, 1)
    return (0.0, *(float(average * step) for step in np.logspace(-2, 2, STEPS)))


def ridge_path(release: MomentRelease, ridges: Sequence[float] | None = None) -> RidgePath:
    """The model for the label of a release at every ridge, from least to most: post-processing, which spends nothing.

    >>> from colonnade.models.release import EXAMPLE
    >>> print(ridge_path(EXAMPLE, [0, 16]))
    ridge       length of the coefficients
    0           4.219
    16          2.109
    """
    if release.label.label is None:
        raise DataError(
            "this release has no label, so there is no model to hold back. Make one for classification or "
            "regression."
        )
    given = default_ridges(release) if ridges is None else tuple(ridges)
    if not given:
        raise InputError("the list of ridges is empty. Give at least one, or none at all for the usual ones.")
    for ridge in given:
        at_least("ridge", ridge, 0.0)
    rising = tuple(sorted({float(ridge) for ridge in given}))
    kind = LogisticRegression if release.label.one_hot else LinearRegression
    return RidgePath(rising, tuple(kind(ridge=ridge).fit(release) for ridge in rising))


@dataclass(frozen=True)
class Offer:
    """One model: how to ask for it, whether it can be had, and what is known of it before it is asked for."""

    model: str
    ask: str
    available: bool
    remark: str


@dataclass(frozen=True)
class Offers:
    release: str
    offers: tuple[Offer, ...]

    def __str__(self) -> str:
        model = max(len(offer.model) for offer in self.offers)
        lines = [f"From {self.release}, at no further cost:"]
        for offer in self.offers:
            lines.append(f"{'yes' if offer.available else 'no ':<3}  {offer.model:<{model}}  {offer.ask}")
            lines.append(f"     {offer.remark}")
        return "\n".join(lines)


def available_models(release: MomentRelease) -> Offers:
    """Everything that can be had from a release, each tried on it, which is post-processing; the rest with the reason.

    >>> from colonnade.models.release import EXAMPLE
    >>> [offer.ask for offer in available_models(EXAMPLE).offers if offer.available][:3]
    ['LinearRegression().fit(release)', 'ridge_path(release)', 'rank_columns(release)']
    """
    each = 'multiclass="one-vs-rest"'
    tries: tuple[tuple[str, str, Callable[[MomentRelease], str]], ...] = (
        ("classification", "LogisticRegression().fit(release)", _classes),
        ("one class against the rest", f"LogisticRegression({each}).fit(release)", _one_vs_rest),
        ("regression", "LinearRegression().fit(release)", _numbers),
        ("ridge path", "ridge_path(release)", _path),
        ("ranking of columns", "rank_columns(release)", _ranking),
        ("principal components", "PCA().fit(release)", _components),
        ("fewer columns", "release.select(columns=[...])", _columns),
    )
    offers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, ask, remark in tries:
            try:
                offers.append(Offer(model, ask, True, remark(release)))
            except ColonnadeError as error:
                offers.append(Offer(model, ask, False, str(error)))
    return Offers(str(release), tuple(offers))


def _classes(release: MomentRelease) -> str:
    LogisticRegression().fit(release)
    moments = release.class_moments()
    pairs = zip(release.label.classes, moments.counts, strict=True)
    counts = ", ".join(f"{name} about {max(count, 0.0):.0f}" for name, count in pairs)
    return f"{counts} rows, each ± {moments.count_noise:.0f}"


def _one_vs_rest(release: MomentRelease) -> str:
    LogisticRegression(multiclass="one-vs-rest").fit(release)
    if len(release.label.classes) == 2:
        return "two classes: the same as classification"
    return f"{len(release.label.classes)} rules, each for one class against all others"


def _numbers(release: MomentRelease) -> str:
    LinearRegression().fit(release)
    low, high = release.label.from_unit([-1.0, 1.0])
    return f"a label from {low:g} to {high:g}; with ridge=... ridge regression"


def _path(release: MomentRelease) -> str:
    ridge_path(release, [0.0])
    return f"one model for each of {len(default_ridges(release))} ridges, or of those you name"


def _ranking(release: MomentRelease) -> str:
    ranking = rank_columns(release)
    telling = sum(1 for column in ranking.columns if column.stands_out)
    first = ranking.columns[0].column
    return f"{telling} of {len(ranking.columns)} columns tell the label beyond noise, {first!r} first"


def _components(release: MomentRelease) -> str:
    rank = PCA().fit(release).learnable_rank_
    return f"{rank} of {release.columns} directions stand out of the noise"


def _columns(release: MomentRelease) -> str:
    return f"{len(units(release.encoders))} to choose from; or parties=[...]"
