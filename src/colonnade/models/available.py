"""What can be had from one release: every model that its label and its noise allow, and why not the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

from colonnade.errors import ColonnadeError
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.pca import PCA
from colonnade.models.ranking import rank_columns
from colonnade.models.release import MomentRelease
from colonnade.models.ridge_path import default_ridges, ridge_path
from colonnade.models.selection import units


@dataclass(frozen=True)
class Offer:
    """One model: how to ask for it, whether it can be had, and what is known of it before it is asked for."""

    model: str
    ask: str
    available: bool
    remark: str


@dataclass(frozen=True)
class Offers:
    """A list of models, readable when printed."""

    release: str
    offers: tuple[Offer, ...]

    def to_data(self) -> list[dict[str, object]]:
        return [vars(offer).copy() for offer in self.offers]

    def __str__(self) -> str:
        model = max(len(offer.model) for offer in self.offers)
        lines = [f"From {self.release}, at no further cost:"]
        for offer in self.offers:
            lines.append(f"{'yes' if offer.available else 'no ':<3}  {offer.model:<{model}}  {offer.ask}")
            lines.append(f"     {offer.remark}")
        return "\n".join(lines)


def available_models(release: MomentRelease) -> Offers:
    """Everything that can be had from a release, each tried on it, which is post-processing; readable when printed.

    What cannot be had is listed too, with the reason.

    >>> from fractions import Fraction
    >>> import numpy as np
    >>> from colonnade.data.kinds import NumericColumn
    >>> from colonnade.data.encoder import Encoder
    >>> from colonnade.data.labels import LabelBlock
    >>> encoder = Encoder((NumericColumn("age", low=0, high=90),), mode="linear")
    >>> release = MomentRelease(
    ...     matrix=np.array([[160000, 0], [0, 250000]]), gamma=100, rows=50, encoders=(("bank", encoder),),
    ...     label=LabelBlock(None), mu=Fraction(10**6), guarantees=(), plan="", run="", reproducible=False,
    ... )
    >>> [offer.ask for offer in available_models(release).offers if offer.available]
    ['PCA().fit(release)', 'release.select(columns=[...])']
    """
    tries: tuple[tuple[str, str, Callable[[MomentRelease], str]], ...] = (
        ("classification", "LogisticRegression().fit(release)", _classes),
        (
            "one class against the rest",
            'LogisticRegression(multiclass="one-vs-rest").fit(release)',
            _one_vs_rest,
        ),
        ("regression", "LinearRegression().fit(release)", _numbers),
        ("ridge path", "ridge_path(release)", _path),
        ("ranking of columns", "rank_columns(release)", _ranking),
        ("principal components", "PCA().fit(release)", _components),
        ("fewer columns", "release.select(columns=[...])", _columns),
    )
    return Offers(str(release), tuple(_tried(release, *each) for each in tries))


def _tried(release: MomentRelease, model: str, ask: str, remark: Callable[[MomentRelease], str]) -> Offer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Offer(model, ask, True, remark(release))
        except ColonnadeError as error:
            return Offer(model, ask, False, str(error))


def _classes(release: MomentRelease) -> str:
    LogisticRegression().fit(release)
    moments = release.class_moments()
    counts = ", ".join(
        f"{name} about {max(count, 0.0):.0f}"
        for name, count in zip(release.label.classes, moments.counts, strict=True)
    )
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
