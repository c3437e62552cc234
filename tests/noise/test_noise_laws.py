"""Draws of every law against its exact probabilities, and the parts against the whole."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from noise_statistics import (
    FALSE_ALARM,
    chi_square,
    chi_square_of_quantiles,
    discrete_gaussian,
    discrete_laplace,
    polya,
    skellam,
)
from scipy import stats
from table_audit import findings

from colonnade.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    MatrixSkellamNoise,
    PolyaNoise,
    SkellamNoise,
)
from colonnade.noise import sampler as sampler_module
from colonnade.noise import sampler as table_module
from colonnade.noise.discrete_gaussian import DiscreteGaussianLaw
from colonnade.noise.discrete_laplace import DiscreteLaplaceLaw, PolyaLaw
from colonnade.noise.sampler import StripTable, cut, draw_from, sample, table_of
from colonnade.noise.skellam import SkellamLaw
from colonnade.randomness import SystemRandomness

DRAWS = 500_000


SKELLAMS = [Fraction(1, 1000), Fraction(1), Fraction(100), Fraction(10**4), Fraction(10**6)]
GAUSSIANS = [Fraction(1, 4), Fraction(9), Fraction(10**4)]
LAPLACES = [Fraction(1, 3), Fraction(1), Fraction(20), Fraction(1500)]
POLYAS = [(Fraction(1, 10), 10), (Fraction(1, 3), 200), (Fraction(1), 3)]


@pytest.mark.parametrize(
    ("law", "probability", "extent"),
    [
        *((SkellamLaw(mu), skellam(float(mu)), 8 + int(9 * float(mu) ** 0.5)) for mu in SKELLAMS),
        *((DiscreteGaussianLaw(square), discrete_gaussian(float(square)), 1000) for square in GAUSSIANS),
        *(
            (DiscreteLaplaceLaw(1 / scale), discrete_laplace(float(scale)), 40 + int(20 * scale))
            for scale in LAPLACES
        ),
        *((PolyaLaw(shape, Fraction(1, b)), polya(float(shape), float(b)), 40 * b) for shape, b in POLYAS),
    ],
)
def test_draws_follow_their_law(law: Any, probability: Callable[..., Any], extent: int) -> None:
    assert chi_square(sample(law, DRAWS, SystemRandomness()), probability, extent) > FALSE_ALARM


@pytest.mark.parametrize(
    ("law", "width"),
    [
        (SkellamLaw(Fraction(10**15)), (2e15) ** 0.5),
        (SkellamLaw(Fraction(10**18)), (2e18) ** 0.5),
        (DiscreteGaussianLaw(Fraction(1 << 40)), 2.0**20),
        (DiscreteGaussianLaw(Fraction(1 << 80)), 2.0**40),
    ],
    ids=str,
)
def test_wide_laws_look_normal_and_have_uniform_low_bytes(law: SkellamLaw, width: float) -> None:
    draws = sample(law, DRAWS, SystemRandomness())
    assert chi_square_of_quantiles(draws, lambda p: width * stats.norm.ppf(p)) > FALSE_ALARM
    low = np.bincount(draws & 255, minlength=256)
    assert stats.chisquare(low).pvalue > FALSE_ALARM


def test_wide_draws_look_like_their_law_and_the_chi_square_would_notice_otherwise() -> None:
    draws = DiscreteLaplaceNoise(Fraction(1 << 30)).draw(DRAWS, SystemRandomness())
    assert chi_square_of_quantiles(draws, lambda p: 2.0**30 * stats.laplace.ppf(p)) > FALSE_ALARM
    draws = DiscreteGaussianNoise(Fraction(1 << 40)).draw(DRAWS, SystemRandomness())
    assert chi_square_of_quantiles(draws, lambda p: 1.025 * 2.0**20 * stats.norm.ppf(p)) < FALSE_ALARM


def test_parts_of_parts_are_parts_and_matrices_have_half_the_variance_off_the_diagonal() -> None:
    assert SkellamNoise(Fraction(6)).part(2).part(3) == SkellamNoise(Fraction(1))
    assert PolyaNoise(Fraction(5), Fraction(1, 2)).part(3) == PolyaNoise(Fraction(5), Fraction(1, 6))
    mechanism = MatrixSkellamNoise(Fraction(100))
    noise = [mechanism.draw((120, 120), SystemRandomness()) for _ in range(60)]
    assert all(np.array_equal(matrix, matrix.T) for matrix in noise)
    above = np.concatenate([matrix[np.triu_indices(120, 1)] for matrix in noise])
    diagonal = np.concatenate([np.diag(matrix) for matrix in noise])
    assert chi_square(above, skellam(50), 80) > FALSE_ALARM
    assert chi_square(diagonal, skellam(100), 120) > FALSE_ALARM
    assert chi_square(above, skellam(100), 120) < FALSE_ALARM


@pytest.mark.parametrize(
    ("law", "wrong", "extent"),
    [
        (SkellamLaw(Fraction(10**4)), skellam(10500), 900),
        (SkellamLaw(Fraction(100)), skellam(105), 100),
        (DiscreteGaussianLaw(Fraction(9)), discrete_gaussian(9.45), 60),
        (DiscreteLaplaceLaw(Fraction(1, 20)), discrete_laplace(20.5), 400),
        (PolyaLaw(Fraction(1, 3), Fraction(1, 200)), polya(0.35, 200), 8000),
    ],
)
def test_this_chi_square_would_notice_a_five_percent_error_in_variance(
    law: Any, wrong: Callable[..., Any], extent: int
) -> None:
    assert chi_square(sample(law, DRAWS, SystemRandomness()), wrong, extent) < FALSE_ALARM


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> StripTable:
    """A table of 16 cells: its envelope wastes much, so that every decision shows in the law."""
    law = DiscreteGaussianLaw(Fraction(10**4))
    monkeypatch.setattr(table_module, "cut", lambda law, limit: cut(law, 8))
    made = table_of.__wrapped__(law)
    assert len(made.cells) == 16
    return made


def in_doubt(table: StripTable) -> StripTable:
    rows = table.rows.copy()
    rows[:, 6] = 1 << 25
    return replace(table, rows=rows)


def test_a_table_of_few_cells_passes_the_audit_and_reversed_slopes_would_be_noticed(
    coarse: StripTable,
) -> None:
    assert findings(coarse, points=64) == ()
    assert (
        chi_square(draw_from(coarse, 100_000, SystemRandomness()), discrete_gaussian(1e4), 600) > FALSE_ALARM
    )
    rows = coarse.rows.copy()
    rows[:, 4] += rows[:, 5]
    rows[:, 5] *= -1
    draws = draw_from(replace(coarse, rows=rows), 100_000, SystemRandomness())
    assert chi_square(draws, discrete_gaussian(1e4), 600) < FALSE_ALARM


def test_the_slow_path_alone_follows_the_law_and_one_that_takes_every_doubt_would_be_noticed(
    coarse: StripTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = draw_from(in_doubt(coarse), 20_000, SystemRandomness())
    assert chi_square(draws, discrete_gaussian(1e4), 600) > FALSE_ALARM
    monkeypatch.setattr(sampler_module, "accepts", lambda *_, **__: True)
    draws = draw_from(in_doubt(coarse), 20_000, SystemRandomness())
    assert chi_square(draws, discrete_gaussian(1e4), 600) < FALSE_ALARM


@dataclass(frozen=True)
class ShortLaplace(DiscreteLaplaceLaw):
    """A discrete Laplace whose table ends early, so that its tails, rare otherwise, are drawn all the time."""

    @property
    def exponent(self) -> int:
        return 1


def test_past_the_edge_of_its_table_a_discrete_laplace_begins_again() -> None:
    law = ShortLaplace(Fraction(1, 3))
    draws = draw_from(table_of(law), 20_000, SystemRandomness())
    assert np.mean(np.abs(draws) > 2) > 0.3
    assert chi_square(draws, discrete_laplace(3), 60) > FALSE_ALARM
