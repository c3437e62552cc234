"""Which rule makes a classifier of a release, and why: a decision from the release alone, at no cost."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from colonnade.errors import ColonnadeError, InputError
from colonnade.models.discriminant import Discriminant, binary_rule, multiclass_rule, one_vs_rest_rule
from colonnade.models.fitting import NoiseWarning
from colonnade.models.release import MomentRelease
from colonnade.models.selection import units
from colonnade.models.tables.margins import Margins, is_levelled
from colonnade.models.tables.matched import matched_rule

Name = Literal["least-squares", "matched"]
RULES = ("auto", "least-squares", "matched")
MULTICLASS = ("discriminant", "one-vs-rest")
PAYS_FROM = 150.0
"""How many times stronger than its noise the difference of two classes must be.

Chosen on six sets of which no other figure here is (docs/tables.md): at 147 times and more the matched rule was
more accurate on each of them, at 87 and less on some and not on others. Credit default, at 137, lost a little.
"""


@dataclass(frozen=True)
class Choice:
    """A rule by name, and the sentence that says why it was taken."""

    name: Name
    reason: str


@dataclass(frozen=True, eq=False)
class Solved:
    """Which rule was taken of a release, and the scores that it gives."""

    rule: Choice
    scores: Discriminant


def solve(
    release: MomentRelease,
    asked: str = "auto",
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    multiclass: str = "discriminant",
) -> Solved:
    """The classifier of a release, and a `NoiseWarning` of classes that noise hides."""
    names = release.label.classes
    rule = choose_rule(release, asked, plain=floor is None and ridge == 0.0 and unbias)
    if rule.name == "matched":
        return Solved(rule, matched_discriminant(release, ridge=ridge))
    several = one_vs_rest_rule if multiclass == "one-vs-rest" else multiclass_rule
    scores = (binary_rule if len(names) == 2 else several)(
        release.class_moments(), floor=floor, ridge=ridge, unbias=unbias, names=names
    )
    if scores.faint:
        warnings.warn(
            f"too few rows for this much noise to learn class {', '.join(repr(names[i]) for i in scores.faint)}: "
            + (
                "it keeps its share of the rows and is hardly ever predicted."
                if len(names) > 2
                else "its count does not stand out of the noise, so what is said of it is not to be trusted."
            ),
            NoiseWarning,
            stacklevel=3,
        )
    return Solved(rule, scores)


def choose_rule(release: MomentRelease, asked: str = "auto", *, plain: bool = True) -> Choice:
    """The rule that is asked for, or the one that is expected to be better.

    `plain` says that nothing was asked for that only least squares has, such as a floor.
    """
    obstacle = _obstacle(release)
    if asked == "matched":
        if obstacle:
            raise InputError(f"rule = 'matched' cannot be had: {obstacle} Use rule = 'least-squares'.")
        return Choice("matched", "rule = 'matched' was asked for.")
    if asked == "least-squares":
        return Choice("least-squares", "rule = 'least-squares' was asked for.")
    if not plain:
        return Choice("least-squares", "Least squares: floor, ridge or unbias was set, which are its own.")
    if obstacle:
        return Choice("least-squares", f"Least squares: {obstacle}")
    try:
        strength = strength_of(release.margins())
    except ColonnadeError as error:
        return Choice("least-squares", f"Least squares: {error}")
    told = f"the difference between the classes is {strength:.3g} times its noise"
    if strength < PAYS_FROM:
        return Choice(
            "least-squares",
            f"Least squares: {told}, and moment matching is expected to pay from {PAYS_FROM:g} times on.",
        )
    return Choice(
        "matched", f"Moment-matched logistic regression: {told}, and it pays from {PAYS_FROM:g} times on."
    )


def _obstacle(release: MomentRelease) -> str:
    if len(release.label.classes) != 2:
        return "the matched rule is for two classes."
    poor = [unit.name for unit in units(release.encoders) if not is_levelled(unit)]
    if poor:
        more = f" and {len(poor) - 1} more" if len(poor) > 1 else ""
        return f"the matched rule needs bins or categories, and {poor[0]}{more} are coded as numbers."
    return ""


def strength_of(margins: Margins) -> float:
    """‖Σ_{class 2} x/n − π Σ x/n‖² over what its noise alone would make it."""
    people, share = margins.people, float(margins.counts[1]) / margins.people
    difference = (margins.sums[1] - share * margins.sums.sum(axis=0)) / people
    noise = len(difference) * (margins.sum_noise / people) ** 2 * (share**2 + (1.0 - share) ** 2)
    return float(difference @ difference) / noise if noise else float("inf")


def matched_discriminant(release: MomentRelease, *, ridge: float = 0.0) -> Discriminant:
    """The matched rule on features as a release has them."""
    model = release.table_model()
    matched = matched_rule(model.margins, model.fit, ridge=ridge)
    scale = float(np.sqrt(release.attributes))
    return Discriminant(matched.coefficients[None, :] * scale, np.array([matched.intercept]))
