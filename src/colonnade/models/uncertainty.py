"""How far the noise of a release can have moved a model's coefficients: intervals that spend nothing.

Fresh noise of the release's public law is added to a stand-in for the noise-free moments and the model's rule applied:
for a stand-in the noise-free coefficients are known. The rehearsal's noise protects nobody and comes from a stream that
the release determines, so that a release has one answer. Covered are the coefficients that the same rule, with the same
floor, would give without noise; not sampling error, the floor's damping, rounding, and whether a linear rule fits.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from colonnade.errors import DataError
from colonnade.models.discriminant import COUNT_DEVIATIONS, binary_rule, faint_classes, multiclass_rule
from colonnade.models.moments import Array, default_floor, least_squares, noise_edge
from colonnade.models.release import MomentRelease
from colonnade.numbers.threads import few_threads
from colonnade.randomness import KeyedRandomness, Randomness

RATE = 0.95
# A rehearsal costs one eigendecomposition. With the fewest, the largest error of all is the quantile.
MOST_DRAWS = 100
FEWEST_DRAWS = 20
# One rehearsal of more features than these takes longer than a person waits for Ctrl-C to be heard.
MOST_COLUMNS = 1500
# What the estimate may take; whether it will is decided once enough of it is over to tell.
MOST_SECONDS = 60.0
_TELLING_SECONDS = 5.0
# A stand-in differs from what it stands for. This much wider, coverage held in every pilot simulation
# (tests/models/test_learn_uncertainty.py), with the noise from negligible to overwhelming.
MARGIN = 1.1
# Scales the noise out of a rule's corrections while its floor stays: they vanish with the square of it.
_NOISELESS = 2.0**-20


@dataclass(frozen=True, eq=False)
class Rule:
    """What a model does with a release: its parameters, in the model's own words."""

    floor: float | None = None
    ridge: float = 0.0
    unbias: bool = True

    def coefficients(self, release: MomentRelease, *, noiseless: bool = False) -> Array:
        """One row for each score, in the label's own units; `noiseless` leaves out what corrects for noise."""
        floor = default_floor(release.columns) if self.floor is None else self.floor
        scale = _NOISELESS if noiseless else 1.0
        if release.label.one_hot:
            classes = release.class_moments()
            names = release.label.classes
            rule = binary_rule if len(names) == 2 else multiclass_rule
            quiet = replace(classes, noise=classes.noise * scale)
            fit = rule(quiet, floor=floor / scale, ridge=self.ridge, unbias=self.unbias, names=names)
            return fit.coefficients
        values = release.value_moments()
        values = replace(values, noise=values.noise * scale)
        line = least_squares(values, floor=floor / scale, ridge=self.ridge, unbias=self.unbias)
        low, high = release.label.from_unit([-1.0, 1.0])
        return np.asarray(line.coefficients * ((high - low) / 2.0))[None, :]


MODELS_OWN = Rule()


class _Skipped(Exception):
    """The rehearsals are not gone through with; the watch knows why."""


@dataclass(eq=False)
class Watch:
    """Who is told of rehearsals (`advance`), who may end them, how long they may take, and why they were skipped."""

    advance: Callable[[str, int, int], None] = lambda _step, _done, _total: None
    interrupted: Callable[[], bool] = lambda: False
    seconds: float = MOST_SECONDS
    skipped: str = ""
    _began: float = field(default=0.0, init=False)
    _done: int = field(default=0, init=False)

    def begin(self, columns: int) -> None:
        self._began, self._done, self.skipped = time.monotonic(), 0, ""
        if columns > MOST_COLUMNS:
            self.skip(f"with {columns} features it takes too long, and {MOST_COLUMNS} are the most")

    def rehearsed(self, total: int) -> None:
        self._done += 1
        self.advance("uncertainty", self._done, total)
        used = time.monotonic() - self._began
        expected = used * total / self._done
        if self.interrupted():
            self.skip("it was interrupted")
        if used > min(_TELLING_SECONDS, self.seconds) and expected > self.seconds:
            self.skip(f"it would take {expected:.0f} seconds, and {self.seconds:g} are the most")

    def skip(self, reason: str) -> None:
        self.skipped = (
            f"How far noise can have moved the coefficients was not estimated: {reason}. Everything else is complete, "
            "and `colonnade.models.uncertainty.noise_uncertainty` computes it from release.npz at no cost to privacy."
        )
        raise _Skipped


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The coefficients of a model and how far noise can have moved them and any combination of them.

    Of more than two classes they are those of a class minus the mean. `errors` are by stand-in, draw, row, feature.
    Rows in `unknown` belong to classes that are too rare for this noise.
    """

    coefficients: Array
    errors: Array
    unknown: tuple[int, ...] = ()
    rate: float = RATE

    @property
    def half_widths(self) -> Array:
        """Half the length of the interval around every coefficient; infinite where nothing is claimed."""
        return self.half_widths_of(np.eye(self.coefficients.shape[1]))

    def half_widths_of(self, combinations: Array) -> Array:
        """Half the length of the interval around `combinations @ coefficients`: row, combination."""
        ordered = np.sort(np.abs(self.errors @ combinations.T), axis=1)
        # A new error is below the k-th of B like ones with probability k/(B + 1), whatever their law.
        draws = self.errors.shape[1]
        place = min(math.ceil(self.rate * (draws + 1)), draws) - 1
        widths = MARGIN * ordered[:, place].max(axis=0)
        widths[list(self.unknown)] = np.inf
        return np.asarray(widths)


def noise_uncertainty(
    release: MomentRelease,
    *,
    rule: Rule = MODELS_OWN,
    rate: float = RATE,
    draws: int | None = None,
    watch: Watch | None = None,
) -> Uncertainty | None:
    """Intervals for the coefficients of a model, or None where noise drowns the release or a `watch` skipped them.

    Claim, held by simulation and not by proof: over the noise of the release, each interval covers the coefficient
    that the same rule with the same floor gives on the noise-free moments with probability at least `rate`, on
    average over the coefficients of a model. The larger error of two stand-ins counts, with its bias: the release
    itself, whose spectrum is too wide, and the release with its spectrum shrunk to what stands out of the noise.
    """
    if not 0.0 < rate < 1.0 or (draws is not None and draws < rate * (draws + 1)):
        raise ValueError(f"{draws} draws are too few for a rate of {rate}, which is a probability below 1")
    try:
        # Of several labels the first; others as `release.for_label` has them. Hundreds of small matrices are decomposed
        # one after another, each number of them many times.
        with few_threads(16 * release.columns**2):
            return _estimate(release.for_label(), rule, rate, draws, watch)
    except _Skipped:
        return None


def _estimate(
    release: MomentRelease, rule: Rule, rate: float, draws: int | None, watch: Watch | None
) -> Uncertainty | None:
    if watch is not None:
        watch.begin(release.columns)
    several = release.label.one_hot and len(release.label.classes) > 2
    faint = faint_classes(release.class_moments()) if several else ()
    coefficients = _against_others(rule.coefficients(release), faint)
    if draws is None:
        draws = int(min(MOST_DRAWS, max(FEWEST_DRAWS, 2_000_000_000 // release.columns**3)))
    randomness = KeyedRandomness(_key(release))
    errors = [
        _rehearse(stand_in, rule, draws, randomness, faint, watch) for stand_in in (release, _shrunk(release))
    ]
    if any(error is None for error in errors):
        return None
    return Uncertainty(coefficients, np.stack([error for error in errors if error is not None]), faint, rate)


def noise_free(release: MomentRelease, *, rule: Rule = MODELS_OWN, faint: tuple[int, ...] = ()) -> Array:
    """What intervals are about, of a simulated release whose matrix has no noise: `mu` is what the floor is for."""
    return _against_others(rule.coefficients(release, noiseless=True), faint)


def _rehearse(
    truth: MomentRelease,
    rule: Rule,
    draws: int,
    randomness: Randomness,
    faint: tuple[int, ...],
    watch: Watch | None,
) -> Array | None:
    """Errors of the rule on fresh noise around moments that are taken for the truth; None if it mostly fails."""
    try:
        target = noise_free(truth, rule=rule, faint=faint)
    except DataError:
        return None
    errors: list[Array] = []
    failures = 0
    while len(errors) < draws:
        try:
            errors.append(_against_others(rule.coefficients(_noisy(truth, randomness)), faint) - target)
        except DataError:
            failures += 1
            if failures > draws // 2:
                return None
            continue
        if watch is not None:
            watch.rehearsed(2 * draws)
    return np.array(errors)


def _noisy(release: MomentRelease, randomness: Randomness) -> MomentRelease:
    """The release with fresh noise of its own law; at these sizes a Skellam is a normal rounded to the grid."""
    size = len(release.matrix)
    rows, columns = np.triu_indices(size)
    uniform = ((randomness.words(len(rows)) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise = np.zeros((size, size), dtype=np.int64)
    deviation = float(release.mu) ** 0.5 * np.where(rows == columns, np.sqrt(2.0), 1.0)
    noise[rows, columns] = np.rint(ndtri(uniform) * deviation).astype(np.int64)
    noise += np.triu(noise, 1).T
    noise[~release.opened] = 0
    return replace(release, matrix=release.matrix + noise)


def _shrunk(release: MomentRelease) -> MomentRelease:
    """The release with its scatter shrunk to what stands out of the noise: λ = (L + √(L² − 4s²d))/2 for L seen.

    Those inside the noise are replaced by their mean, which the trace determines well.
    """
    values, vectors = np.linalg.eigh(_scatter(release))
    edge = noise_edge(release.noise, len(values))
    inside = values <= edge
    seen = np.maximum(values, edge)
    mean = max(float(values[inside].mean()), 0.0) if inside.any() else 0.0
    quiet = np.where(inside, mean, (seen + np.sqrt(seen**2 - edge**2)) / 2.0)
    change = (vectors * (quiet - values)) @ vectors.T
    matrix = release.matrix.copy()
    # Of matrices by class only the sum is used, so each takes its part.
    moved = np.rint((change + change.T) * (release.gamma**2 / (2.0 * release.parts))).astype(np.int64)
    for start in release.starts:
        span = slice(start, start + release.columns)
        matrix[span, span] += moved
    return replace(release, matrix=matrix)


def _against_others(rows: Array, faint: tuple[int, ...]) -> Array:
    """Rows minus the mean of the rows of classes that are not faint: only differences of scores decide."""
    if len(rows) == 1:
        return rows
    clear = [index for index in range(len(rows)) if index not in faint]
    return np.asarray(rows - rows[clear].mean(axis=0))


def _scatter(release: MomentRelease) -> Array:
    if not release.label.one_hot or len(release.label.classes) == 2:
        return release.plain_moments().scatter().matrix
    moments = release.class_moments()
    clear = moments.counts > COUNT_DEVIATIONS * moments.count_noise
    sums = moments.sums[clear]
    within = moments.gram - sums.T @ (sums / moments.counts[clear][:, None])
    return np.asarray((within + within.T) / 2.0)


def _key(release: MomentRelease) -> bytes:
    text = f"colonnade uncertainty: {release.plan} {release.run} {release.gamma} {release.mu} "
    return hashlib.sha256(text.encode() + np.ascontiguousarray(release.matrix, "<i8").tobytes()).digest()
