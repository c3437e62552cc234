"""Intervals around coefficients: they cover what the noise hides, at their rate, and not by being endless."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from learn_releases import Shoppers
from scipy.stats import binom

from colonnade.models import uncertainty
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import RATE, Rule, Uncertainty, Watch, noise_free, noise_uncertainty

FALSE_ALARM = 1e-9
RELEASES = 200
KINDS = ("two", "three", "real")
NOISE = 0.5
# Between the smallest and the largest eigenvalue of the scatter: the floor bites in some directions.
MUCH_NOISE = 60.0


@cache
def shoppers() -> Shoppers:
    return Shoppers(rows=4000)


@cache
def quiet_release(kind: str) -> MomentRelease:
    return shoppers().release(kind, mode="linear" if kind == "real" else "circle")


def release(kind: str, *, noise: float, seed: int = 0) -> MomentRelease:
    """The release with normal noise that is drawn here, not by the code under test."""
    quiet = quiet_release(kind)
    if not noise:
        return quiet
    size, columns = len(quiet.matrix), quiet.columns
    square = np.random.default_rng(seed).normal(size=(size, size))
    # (A + Aᵀ)/√2 has variance 1 off the diagonal and 2 on it.
    drawn = np.rint((square + square.T) * (noise * quiet.gamma**2 / np.sqrt(2.0))).astype(np.int64)
    if quiet.label.one_hot:
        drawn[columns:, columns:] = np.diag(np.diag(drawn[columns:, columns:]))
    return replace(notify(quiet, noise), matrix=quiet.matrix + drawn)


def notify(quiet: MomentRelease, noise: float) -> MomentRelease:
    """Moments without noise that say how much noise the floor is for."""
    return replace(quiet, mu=Fraction(round(noise**2 * quiet.gamma**4)))


def intervals(kind: str, *, noise: float, seed: int, draws: int = 19) -> Uncertainty:
    found = noise_uncertainty(release(kind, noise=noise, seed=seed), draws=draws)
    assert found is not None
    return found


@cache
def simulated(kind: str, noise: float) -> tuple[Uncertainty, ...]:
    return tuple(intervals(kind, noise=noise, seed=seed + 1) for seed in range(RELEASES))


@cache
def misses(kind: str, noise: float) -> np.ndarray:
    """Error over half-width, one coefficient a release, so that trials are independent."""
    target = noise_free(notify(release(kind, noise=0.0), noise))
    relative = []
    for number, found in enumerate(simulated(kind, noise)):
        errors = np.abs(found.coefficients - target) / found.half_widths
        relative.append(errors.flat[number % errors.size])
    return np.array(relative)


def improbability(relative: np.ndarray, width: float) -> float:
    """How likely so few intervals of this relative width would cover if each did at the stated rate."""
    return float(binom.cdf(np.count_nonzero(relative <= width), len(relative), RATE))


@pytest.mark.parametrize(
    ("kind", "noise"),
    [
        *((kind, NOISE) for kind in KINDS),
        *(pytest.param(kind, MUCH_NOISE, marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_intervals_cover_the_noise_free_coefficients_at_their_rate(kind: str, noise: float) -> None:
    assert improbability(misses(kind, noise), 1.0) > FALSE_ALARM
    assert np.mean(misses(kind, noise) <= 1.0) >= RATE - 0.03, "in this simulation, whose seeds are fixed"


def test_intervals_of_half_the_width_would_be_noticed() -> None:
    assert improbability(misses("real", NOISE), 0.5) < FALSE_ALARM


def test_combinations_of_coefficients_are_covered_too() -> None:
    contrast = np.array([[1.0, 1.0, -1.0, 0.5, 0.0, 0.0, 2.0]])
    target = noise_free(notify(release("real", noise=0.0), NOISE)) @ contrast.T
    covered = 0
    for found in simulated("real", NOISE):
        error = abs((found.coefficients @ contrast.T - target).item())
        covered += error <= found.half_widths_of(contrast).item()
    assert binom.cdf(covered, RELEASES, RATE) > FALSE_ALARM


def test_a_combination_that_is_one_coefficient_has_its_interval() -> None:
    found = intervals("real", noise=NOISE, seed=1)
    width = found.coefficients.shape[1]
    assert np.allclose(found.half_widths_of(np.eye(width)[2:3])[:, 0], found.half_widths[:, 2])
    assert np.allclose(found.half_widths_of(3 * np.eye(width)), 3 * found.half_widths)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_release_has_one_answer_and_another_release_another(kind: str) -> None:
    one, again, other = (intervals(kind, noise=NOISE, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.half_widths, again.half_widths)
    assert not np.array_equal(one.half_widths, other.half_widths)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_there_is_no_uncertainty(kind: str) -> None:
    found = intervals(kind, noise=0.0, seed=0, draws=19)
    assert np.all(found.half_widths == 0.0)


def test_above_the_floor_widths_grow_with_the_noise() -> None:
    little, more = (intervals("real", noise=noise, seed=1).half_widths for noise in (0.01, 0.1))
    assert np.all(more > 5 * little) and np.all(more < 20 * little)


def test_they_are_around_the_coefficients_of_the_models() -> None:
    two, real = release("two", noise=NOISE, seed=3), release("real", noise=NOISE, seed=3)
    assert np.array_equal(Rule().coefficients(two), LogisticRegression().fit(two).coef_)
    assert np.array_equal(Rule().coefficients(real)[0], LinearRegression().fit(real).coef_)
    ridge = Rule(floor=2.0, ridge=5.0, unbias=False)
    model = LogisticRegression(floor=2.0, ridge=5.0, unbias=False).fit(two)
    assert np.array_equal(ridge.coefficients(two), model.coef_)


def test_where_the_floor_does_not_bite_noise_free_is_plain_least_squares() -> None:
    quiet = release("real", noise=0.0)
    assert np.allclose(noise_free(notify(quiet, 0.01))[0], LinearRegression().fit(quiet).coef_, rtol=1e-9)


def test_three_classes_are_each_against_the_others_which_predicts_the_same() -> None:
    three = release("three", noise=NOISE, seed=5)
    found = noise_uncertainty(three, draws=19)
    model = LogisticRegression().fit(three)
    assert found is not None
    difference = model.coef_ - found.coefficients
    assert np.allclose(difference, difference[0])
    assert np.allclose(found.coefficients.sum(axis=0), 0.0)


def test_nothing_is_claimed_of_a_class_that_the_noise_hides() -> None:
    people = shoppers()
    rare = Shoppers(rows=people.rows)
    rare.grade = np.where(np.arange(people.rows) < 5, 0, np.maximum(people.grade, 1))
    found = noise_uncertainty(rare.release("three", noise=10 * NOISE, seed=1), draws=19)
    assert found is not None and found.unknown == (0,)
    assert np.all(np.isinf(found.half_widths[0])) and np.all(np.isfinite(found.half_widths[1:]))


def test_a_release_that_drowned_has_no_intervals_rather_than_wrong_ones() -> None:
    drowned = notify(release("real", noise=0.0), 1e6)
    assert noise_uncertainty(drowned, draws=19) is None


@pytest.mark.parametrize(("rate", "draws"), [(0.0, 19), (1.0, 19), (0.95, 18)])
def test_a_rate_is_a_probability_and_needs_draws(rate: float, draws: int) -> None:
    with pytest.raises(ValueError, match="rate"):
        noise_uncertainty(release("real", noise=1.0), rate=rate, draws=draws)


def test_what_would_take_too_long_is_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = release("real", noise=NOISE)
    slow = Watch(seconds=1e-9)
    assert noise_uncertainty(noisy, draws=19, watch=slow) is None
    assert "would take" in slow.skipped and "Everything else is complete" in slow.skipped
    monkeypatch.setattr(uncertainty, "MOST_COLUMNS", noisy.columns - 1)
    wide = Watch(advance=lambda *step: pytest.fail("nothing is rehearsed"))
    assert noise_uncertainty(noisy, draws=19, watch=wide) is None
    assert f"with {noisy.columns} features" in wide.skipped


def test_rehearsals_are_told_one_by_one_and_end_where_somebody_interrupts() -> None:
    noisy = release("real", noise=NOISE)
    steps: list[tuple[str, int, int]] = []
    watch = Watch(lambda *step: steps.append(step))
    found = noise_uncertainty(noisy, draws=19, watch=watch)
    assert found is not None and not watch.skipped
    assert steps == [("uncertainty", done, 38) for done in range(1, 39)]
    alone = noise_uncertainty(noisy, draws=19)
    assert alone is not None and np.array_equal(found.half_widths, alone.half_widths)
    steps.clear()
    stopped = Watch(lambda *step: steps.append(step), lambda: len(steps) == 3)
    assert noise_uncertainty(noisy, draws=19, watch=stopped) is None
    assert len(steps) == 3 and "it was interrupted" in stopped.skipped
