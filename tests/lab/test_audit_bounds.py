"""Lower bounds on ε are wrong as seldom as they say, notice noise that is too small, and catch papers' formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from colonnade.lab.experiments import canary_bound, counted_bound, one_run_bound, threshold_bound
from colonnade.lab.papers import Variant, variants
from colonnade.privacy.events import Gaussian
from colonnade.privacy.guarantee import account
from colonnade.randomness import SeededRandomness
from colonnade.report.lab import papers_text

REPEATS = 200


def laplace_audits(seeds: int, *, shrink: int, draws: int) -> int:
    """How many of so many audits show more than ε = 1 of Laplace noise whose scale is so many times too small."""
    over = 0
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        without, within = (place + generator.laplace(0, 1 / shrink, draws) for place in (0, 1))
        over += threshold_bound(without, within).epsilon > 1.0
    return over


def test_a_bound_exceeds_a_known_epsilon_in_at_most_one_audit_of_twenty() -> None:
    assert laplace_audits(REPEATS, shrink=1, draws=1000) <= REPEATS / 20


def test_noise_of_half_the_scale_is_caught() -> None:
    assert laplace_audits(50, shrink=2, draws=4000) >= 48


def canaries(
    seed: int, *, sigma: float, runs: int, size: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A release of the sum of those canaries that are in, each along a direction of its own, partly shared."""
    generator = np.random.default_rng(seed)
    directions = np.eye(size) + 0.2
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    draws = generator.random((runs, size)) < 0.5
    released = draws @ directions + generator.normal(0, sigma, (runs, size))
    return released @ directions.T, draws


def test_many_canaries_exceed_a_known_epsilon_in_at_most_one_audit_of_twenty() -> None:
    delta, sigma = 1e-5, 1.0
    epsilon = account(Gaussian(sensitivity=1, sigma=sigma), delta).epsilon
    over = sum(
        canary_bound(*canaries(seed, sigma=sigma, runs=60, size=8), delta=delta).epsilon > epsilon
        for seed in range(100)
    )
    assert over <= 5


def test_many_canaries_catch_noise_that_is_far_too_small() -> None:
    delta = 1e-5
    claimed = account(Gaussian(sensitivity=1, sigma=4), delta).epsilon
    found = [
        canary_bound(*canaries(seed, sigma=0.3, runs=100, size=10), delta=delta).epsilon for seed in range(20)
    ]
    assert min(found) > claimed


def test_no_canary_is_guessed_both_ways() -> None:
    draws = (np.arange(46) % 2 == 1).reshape(46, 1)
    found = canary_bound(draws + 0.0, draws)
    assert found.trials == 23
    assert (found.hits, found.misses) == (22, 0)


def test_randomised_response_is_never_far_exceeded_by_one_run() -> None:
    """The case in which the one-run bound is exact: a coin is told right with probability e^ε/(1 + e^ε)."""
    epsilon, size = 1.0, 1000
    chance = math.exp(epsilon) / (1 + math.exp(epsilon))
    over = 0
    for seed in range(REPEATS):
        right = int(np.random.default_rng(seed).binomial(size, chance))
        over += one_run_bound(right, size, canaries=size) > epsilon
    assert over <= REPEATS * 0.09  # of a binomial with 5 %, ten is expected and eighteen is beyond 1 %


@given(st.integers(1, 200), st.integers(0, 200), st.floats(0, 0.3))
def test_a_counted_bound_falls_with_misses_and_with_delta(hits: int, misses: int, delta: float) -> None:
    trials = (200, 200)
    here = counted_bound(hits, misses, trials=trials, delta=delta)
    assert here >= 0
    if misses < 200:
        assert counted_bound(hits, misses + 1, trials=trials, delta=delta) <= here
    assert counted_bound(hits, misses, trials=trials, delta=delta / 2) >= here
    if hits > misses:
        assert here <= math.log(hits / 200 / max(misses / 200, 1e-12))


@given(st.integers(1, 300), st.integers(0, 300), st.floats(0.5, 0.999))
def test_the_one_run_bound_is_where_the_tail_of_a_binomial_meets_the_alarm(
    right: int, extra: int, confidence: float
) -> None:
    guesses = right + extra
    found = one_run_bound(right, guesses, canaries=guesses, confidence=confidence)
    if found == 0.0:
        assert binom.sf(right - 1, guesses, 0.5) > 1 - confidence - 1e-9
    else:
        tail = binom.sf(right - 1, guesses, 1 / (1 + math.exp(-found)))
        assert tail == pytest.approx(1 - confidence, rel=1e-5)
    assert one_run_bound(right, guesses, canaries=guesses, delta=1e-4, confidence=confidence) <= found


def test_the_bound_of_a_gaussian_comes_near_what_is_true() -> None:
    delta, mu = 1e-5, 1.0
    generator = np.random.default_rng(1)
    found = threshold_bound(
        generator.normal(0, 1, 400_000), generator.normal(mu, 1, 400_000), delta=delta
    ).epsilon
    truth = account(Gaussian(sensitivity=1, sigma=1), delta).epsilon
    assert truth / 2 < found < truth


def test_nothing_is_shown_where_there_is_nothing_to_see() -> None:
    generator = np.random.default_rng(3)
    shown = threshold_bound(generator.normal(size=2000), generator.normal(size=2000)).epsilon
    assert shown < 0.05
    draws = generator.random((200, 10)) < 0.5
    assert canary_bound(generator.normal(size=(200, 10)), draws).epsilon < 0.05


VARIANTS = variants()
# Whole descents, and sessions' worth of matrices, one by one.
LONG = {"the noise of (71) and (72)"}


def marked(variant: Variant) -> pytest.ParameterSet:
    marks = [pytest.mark.slow] if variant.claim in LONG else []
    return pytest.param(variant, id=f"{variant.paper}: {variant.claim}", marks=marks)


@pytest.mark.parametrize("variant", [marked(variant) for variant in VARIANTS])
def test_a_formula_is_caught_exactly_where_it_is_said_to_be(variant: Variant) -> None:
    shown = variant.drawn.bound(variant.draws, SeededRandomness(f"audit of {variant.claim}")).epsilon
    assert (shown > variant.drawn.claim.epsilon) is not variant.hidden
    assert not variant.drawn.claim.proved


def test_more_of_a_papers_noise_is_not_caught() -> None:
    """The control of the control: with four times the claim, nothing of PBM-VFL is exceeded."""
    variant = next(variant for variant in VARIANTS if "one party's value" in variant.claim)
    claim = replace(variant.drawn.claim, epsilon=4 * variant.drawn.claim.epsilon)
    drawn = replace(variant.drawn, claim=claim)
    assert drawn.bound(variant.draws, SeededRandomness(1)).epsilon < claim.epsilon


def test_what_is_shown_is_printed_rounded_down_and_what_is_claimed_rounded_up() -> None:
    item = {"paper": "P", "claim": "c", "why": "so", "delta": 0.0, "caught": True}
    item |= {"lower": 1.239, "epsilon": 1.231}
    assert "shown ε ≥ 1.23, claimed ε ≤ 1.24; so" in papers_text([item])
