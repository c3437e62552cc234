"""Mechanisms: parts, what observers are left with, and parameters that are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from typed import untyped

from colonnade.errors import PlanError, PrivacyError
from colonnade.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    MatrixGaussianNoise,
    MatrixSkellamNoise,
    PoissonBinomialNoise,
    PolyaNoise,
    SkellamNoise,
    VectorChange,
)
from colonnade.noise.discrete_gaussian import matrix_gaussian_event
from colonnade.noise.mechanism import share
from colonnade.noise.sampler import LARGEST_DRAW
from colonnade.privacy.events import (
    COARSE_BITS,
    FINE_BITS,
    Approximated,
    DiscreteGaussian,
    DiscreteLaplace,
    MatrixChange,
    MatrixSkellam,
    Skellam,
)
from colonnade.randomness import SystemRandomness
from colonnade.testing import check_mechanism
from colonnade.testing.mechanisms import two_sample

CHANGE = MatrixChange(frobenius=2, weighted_l1=4, fourth=6, fourth_l1=6)
SQUARES = {
    "shapes": ((5, 5), (1, 1), (0, 0)),
    "impossible": (3, (2, 3), (2, 2, 2), (-1, -1), (1 << 17, 1 << 17)),
    "sample": (700, 700),
}
WHOLE = [SkellamNoise, MatrixSkellamNoise, DiscreteGaussianNoise, DiscreteLaplaceNoise]


@dataclass(frozen=True)
class Counts:
    """The counts of one value by the Poisson binomial mechanism, which are dealt by dividing their trials."""

    noise: PoissonBinomialNoise

    def part(self, parts: int) -> Counts:
        share(Fraction(1), parts)
        if self.noise.trials % parts:
            raise PlanError(f"{self.noise.trials} trials in {parts} parts")
        return Counts(replace(self.noise, trials=self.noise.trials // parts))

    def draw(self, shape: int | tuple[int, ...], randomness: Any) -> NDArray[np.int64]:
        return self.noise.draw(np.full(shape, 0.5), randomness)


@pytest.mark.parametrize(
    ("noise", "change", "more"),
    [
        (SkellamNoise(Fraction(1000)), VectorChange(3, 2), {"parts": (2, 8)}),
        (SkellamNoise(Fraction(1, 3)), VectorChange(3, 2), {}),
        (DiscreteLaplaceNoise(Fraction(20)), 3, {}),
        (DiscreteGaussianNoise(Fraction(9)), 2, {}),
        (DiscreteGaussianNoise(Fraction(80)), 2, {"parts": (2, 8)}),
        (MatrixGaussianNoise(Fraction(800)), CHANGE, SQUARES),
        (PolyaNoise(Fraction(20), Fraction(1, 2)), None, {"parts": (2,)}),
        (MatrixSkellamNoise(Fraction(100)), CHANGE, SQUARES),
        (Counts(PoissonBinomialNoise(16, Fraction(1, 4), Fraction(1))), None, {"impossible": ()}),
    ],
)
def test_every_law_of_mechanisms_holds(
    noise: Any, change: VectorChange | None, more: dict[str, tuple[int, ...]]
) -> None:
    check_mechanism(noise, change, **more)


@given(st.integers(1, 9), st.integers(0, 8), st.integers(1, 9))
def test_a_skellam_observer_is_left_with_the_parts_it_does_not_know(parts: int, known: int, of: int) -> None:
    noise, matrix = SkellamNoise(Fraction(100)), MatrixSkellamNoise(Fraction(100))
    if known >= parts:
        for ask in (lambda: noise.event(VectorChange(1, 1), known=known, parts=parts, of=of),):
            with pytest.raises((PlanError, PrivacyError)):
                untyped(ask)()
        return
    left = 100 * Fraction(parts - known, of)
    assert noise.event(VectorChange(3, 2), known=known, parts=parts, of=of, entries=7) == Approximated(
        Skellam(3, 2, left), draws=7 * (parts - known)
    )
    assert matrix.event(CHANGE, known=known, parts=parts, of=of, size=4) == Approximated(
        MatrixSkellam(CHANGE, left), draws=10 * (parts - known)
    )


def test_events_without_entries_count_the_largest_draw_and_one_entry_may_use_the_exact_law() -> None:
    assert untyped(SkellamNoise(Fraction(5)).event(VectorChange(1, 1))).draws == LARGEST_DRAW
    assert untyped(MatrixSkellamNoise(Fraction(5)).event(CHANGE)).draws == LARGEST_DRAW
    assert untyped(DiscreteGaussianNoise(Fraction(5)).event(1)).draws == LARGEST_DRAW
    assert untyped(SkellamNoise(Fraction(5)).event(VectorChange(1, 1), entries=1)).event.coordinates == 1
    assert untyped(DiscreteGaussianNoise(Fraction(5)).event(1, entries=1)).event.coordinates == 1
    assert untyped(MatrixGaussianNoise(Fraction(500)).event(CHANGE, size=1)).event.coordinates == 2
    # Calibration looks below every variance that can be drawn.
    assert (
        untyped(matrix_gaussian_event(CHANGE, Fraction(1, 10**11), size=1, parts=1)).event.sigma_squared > 0
    )


def test_discrete_gaussians_too_small_for_a_sum_come_whole() -> None:
    noise = DiscreteGaussianNoise(Fraction(5))
    assert noise.part(1) == noise
    with pytest.raises(PlanError, match="do not sum to a discrete Gaussian"):
        noise.part(2)
    with pytest.raises(PlanError, match="do not sum to a discrete Gaussian"):
        noise.event(1, parts=3, of=2)
    # Three parties add a whole each; of those that an observer does not know one counts.
    for known in (0, 2):
        assert noise.event(1, known=known, parts=3, entries=2) == Approximated(
            DiscreteGaussian(1, Fraction(5), coordinates=2), draws=2
        )


@given(st.integers(1, 9), st.integers(0, 8), st.integers(1, 9), st.sampled_from([COARSE_BITS, FINE_BITS]))
def test_a_gaussian_observer_is_left_with_the_parts_it_does_not_know(
    parts: int, known: int, of: int, bits: int
) -> None:
    noise, matrix = DiscreteGaussianNoise(Fraction(1000), bits), MatrixGaussianNoise(Fraction(2000), bits)
    if known >= parts:
        with pytest.raises((PlanError, PrivacyError)):
            noise.event(2, known=known, parts=parts, of=of)
        return
    left, unknown = Fraction(parts - known, of), parts - known
    assert noise.event(2, known=known, parts=parts, of=of, entries=7) == Approximated(
        DiscreteGaussian(2, 1000 * left, coordinates=7), draws=7 * unknown, bits=bits
    )
    # Rounding takes twice as much off the diagonal, in units of its own variance.
    assert matrix.event(CHANGE, known=known, parts=parts, of=of, size=4) == Approximated(
        DiscreteGaussian(2, 2000 * left - 36, coordinates=10), draws=10 * unknown, bits=bits
    )


def test_parts_of_discrete_gaussians_keep_their_fineness_and_their_least_variance() -> None:
    assert DiscreteGaussianNoise(Fraction(24)).part(3) == DiscreteGaussianNoise(Fraction(8))
    fine = DiscreteGaussianNoise(Fraction(216), FINE_BITS)
    assert fine.part(3) == DiscreteGaussianNoise(Fraction(72), FINE_BITS)
    for noise, parts in ((DiscreteGaussianNoise(Fraction(24)), 4), (fine, 4)):
        with pytest.raises(PlanError, match="finer grid"):
            noise.part(parts)
    assert MatrixGaussianNoise(Fraction(432)).part(3) == MatrixGaussianNoise(Fraction(144))
    with pytest.raises(PlanError, match="finer grid"):
        MatrixGaussianNoise(Fraction(432)).part(4)


def test_fine_draws_reach_further_follow_the_same_law_and_stay_within_their_support() -> None:
    coarse, fine = (DiscreteGaussianNoise(Fraction(400), bits) for bits in (COARSE_BITS, FINE_BITS))
    assert fine.support > coarse.support
    drawn = [noise.draw(200_000, SystemRandomness()) for noise in (coarse, fine)]
    assert two_sample(*drawn) > 1e-9
    assert two_sample(drawn[0], fine.part(2).draw(200_000, SystemRandomness())) < 1e-9
    for bits in (99, 101):
        with pytest.raises(PlanError, match="100, 1000, 2000 bits"):
            DiscreteGaussianNoise(Fraction(400), bits)
    for noise in (MatrixSkellamNoise(Fraction(10)), MatrixGaussianNoise(Fraction(144))):
        assert abs(noise.draw_symmetric(60, SystemRandomness())).max() <= noise.support


def test_discrete_laplace_is_pure_when_dealt_whole_and_truncated_when_dealt_in_parts() -> None:
    noise = DiscreteLaplaceNoise(Fraction(10))
    assert noise.part(1) is noise
    assert noise.event(3, known=1, parts=2) == DiscreteLaplace(3, Fraction(10))
    assert noise.event(3, known=1, parts=4, of=3, entries=6) == Approximated(
        DiscreteLaplace(3, Fraction(10)), draws=36
    )
    assert isinstance(DiscreteLaplaceNoise(Fraction(1, 20)).event(1), Approximated)


def test_what_a_fraction_of_a_discrete_laplace_leaves_costs_many_times_the_claim_and_is_not_claimed() -> None:
    """With shares 1/K a client who knows its own faces a peak at 0, and ε far above Δ/scale."""
    with pytest.raises(PrivacyError, match="Deal parts of 1/2"):
        DiscreteLaplaceNoise(Fraction(10)).event(1, known=1, parts=3, of=3)
    # Two parties with shares 1/2 at scale 100: one unit costs 35 times 1/scale near 0, by convolution.
    from scipy import stats

    scale, extent = 100, 4000
    half = stats.nbinom.pmf(np.arange(extent), 0.5, 1 - np.exp(-1 / scale))
    left = np.convolve(half, half[::-1])[extent - 1 :]
    loss = float(np.log(left[0] / left[1])) * scale
    assert 35 < loss < 36


@pytest.mark.parametrize("kind", WHOLE)
def test_parameters_are_exact_and_positive(kind: type[Any]) -> None:
    assert kind(3) == kind(Fraction(3))
    with pytest.raises(TypeError, match="exact number"):
        kind(0.5)
    with pytest.raises(TypeError, match="exact number"):
        kind(True)
    for none in (0, Fraction(-1, 2)):
        with pytest.raises(PlanError, match="above 0"):
            kind(none)


@pytest.mark.parametrize(
    "beyond",
    [
        lambda: SkellamNoise(Fraction(1, 10**10)),
        lambda: SkellamNoise(Fraction(10**24 + 1)),
        lambda: SkellamNoise(Fraction(1, 10**8)).part(11),
        lambda: MatrixSkellamNoise(Fraction(1, 10**9)),
        lambda: MatrixSkellamNoise(Fraction(10**24 + 1)),
        lambda: DiscreteGaussianNoise(Fraction((1 << 88) + 1)),
        lambda: DiscreteGaussianNoise(Fraction((1 << 87) + 1), FINE_BITS),
        lambda: MatrixGaussianNoise(Fraction((1 << 87) + 1), FINE_BITS),
        lambda: MatrixGaussianNoise(Fraction(143)),
        lambda: DiscreteGaussianNoise(Fraction(1, 10**10)),
        lambda: DiscreteLaplaceNoise(Fraction((1 << 45) + 1)),
        lambda: DiscreteLaplaceNoise(Fraction(1, 101)),
        lambda: DiscreteLaplaceNoise(Fraction(1 << 41)).part(2),
        lambda: PolyaNoise(Fraction(1, 101), Fraction(1, 2)),
        lambda: PolyaNoise(Fraction(10), Fraction(3, 2)),
    ],
)
def test_parameters_past_what_is_proved_or_fits_an_int64_are_refused(beyond: Callable[..., Any]) -> None:
    with pytest.raises(PlanError):
        beyond()


@pytest.mark.parametrize(
    "noise",
    [
        SkellamNoise(Fraction(1, 10**9)),
        SkellamNoise(Fraction(10**24)),
        DiscreteGaussianNoise(Fraction(1, 10**9)),
        DiscreteGaussianNoise(Fraction(1 << 88)),
        DiscreteGaussianNoise(Fraction(1 << 87), FINE_BITS),
        DiscreteLaplaceNoise(Fraction(1, 100)),
        DiscreteLaplaceNoise(Fraction(1 << 45)),
        PolyaNoise(Fraction(1, 100), Fraction(1, 1000)),
    ],
)
def test_the_ends_of_the_ranges_can_be_drawn(noise: SkellamNoise) -> None:
    drawn = noise.draw((40, 50), SystemRandomness())
    assert drawn.shape == (40, 50)
    assert drawn.dtype == "int64"
    if hasattr(noise, "support"):
        assert abs(drawn).max() <= noise.support
