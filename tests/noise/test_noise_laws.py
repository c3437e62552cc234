"""Draws of every law against its exact probabilities, and the parts against the whole."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_twin import run_binomial
from noise_statistics import (
    FALSE_ALARM,
    chi_square,
    chi_square_of_quantiles,
    discrete_gaussian,
    discrete_laplace,
    polya,
    skellam,
)
from noise_statistics import binomial as binomial_law
from numpy.typing import NDArray
from scipy import stats
from table_audit import findings
from typed import untyped

from colonnade.errors import DataError, PlanError, PrivacyError
from colonnade.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    MatrixSkellamNoise,
    PoissonBinomialNoise,
    PolyaNoise,
    SkellamNoise,
)
from colonnade.noise import sampler as sampler_module
from colonnade.noise import sampler as table_module
from colonnade.noise.discrete_gaussian import DiscreteGaussianLaw
from colonnade.noise.discrete_laplace import DiscreteLaplaceLaw, PolyaLaw
from colonnade.noise.poisson_binomial import ONE, binomial, count_below, popcount
from colonnade.noise.sampler import StripTable, draw_from, sample, split, table_of
from colonnade.noise.skellam import SkellamLaw
from colonnade.privacy.events import PoissonBinomial, Repeated
from colonnade.randomness import SeededRandomness, SystemRandomness

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
    monkeypatch.setattr(table_module, "split", lambda law, limit: split(law, 8))
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
    assert findings(coarse, points=16) == ()
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
    draws = draw_from(table_of(law), 8_000, SystemRandomness())
    assert np.mean(np.abs(draws) > 2) > 0.3
    assert chi_square(draws, discrete_laplace(3), 60) > FALSE_ALARM


# Binomial draws: the compiled kernel is its twin, the counts follow their law, p stays inside its interval.


class Recorded:
    """A source that keeps the words it handed out, for the twin to replay."""

    reproducible = True

    def __init__(self, seed: str) -> None:
        self._source = SeededRandomness(seed)
        self.words_given: list[Any] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        words = self._source.words(count)
        self.words_given.append(words)
        return words


def by_kernel(
    kernel: Any, trials: int, numerators: list[int], words: NDArray[np.uint64], pieces: int = 1
) -> list[int]:
    """Feeds the words in pieces: the kernel must go on inside an element."""
    out = np.full(len(numerators), -1, dtype=np.int64)
    state = np.array([0, 52, trials, 0], dtype=np.int64)
    pool = np.zeros(2, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for piece in np.array_split(words, pieces):
            if kernel(trials, np.asarray(numerators, dtype=np.int64), piece, out, state, pool):
                return out.tolist()
    raise AssertionError("the words ran out")


NUMERATORS = [0, 1, ONE // 4, ONE // 2 - 1, ONE // 2, ONE // 2 + 1, 10**15, ONE - 1, ONE]


@pytest.mark.parametrize("trials", [1, 16, 63])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_binomial_kernel_is_its_twin_on_the_same_words(trials: int, compiled: bool) -> None:
    """With fewer than 64 trials a word never spans two pieces, so every cut of the words gives the same counts."""
    words = SeededRandomness(trials).words(60 + 15 * trials)
    kernel = count_below if compiled else untyped(count_below).py_func
    expected = run_binomial(trials, NUMERATORS, words.tolist())
    assert by_kernel(kernel, trials, NUMERATORS, words) == expected
    assert by_kernel(kernel, trials, NUMERATORS, words, pieces=len(words) // 2) == expected


@pytest.mark.parametrize("trials", [64, 100, 257])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_binomial_kernel_is_its_twin_across_several_words(trials: int, compiled: bool) -> None:
    words = SeededRandomness(trials).words(3 * trials)
    kernel = count_below if compiled else untyped(count_below).py_func
    assert by_kernel(kernel, trials, NUMERATORS, words) == run_binomial(trials, NUMERATORS, words.tolist())


def test_many_chunks_give_the_same_counts_as_one_long_stream() -> None:
    source = Recorded("chunks")
    numerators = np.random.default_rng(3).integers(0, ONE, 60_000, endpoint=True)
    drawn = binomial(50, numerators, untyped(source))
    assert len(source.words_given) > 1
    stream = np.concatenate(source.words_given)
    head = 3000  # the twin is slow; the first chunk holds many more elements than this
    assert drawn[:head].tolist() == run_binomial(50, numerators[:head].tolist(), stream.tolist())


@given(st.integers(min_value=0, max_value=2**64 - 1))
@settings(deadline=None)
def test_popcount_counts_ones(word: int) -> None:
    with np.errstate(over="ignore"):
        assert popcount(np.uint64(word)) == untyped(popcount).py_func(np.uint64(word)) == word.bit_count()


@pytest.mark.parametrize("trials", [1, 16, 64, 200])
@pytest.mark.parametrize("p", [0.07, 0.25, 0.5, 0.9])
def test_binomial_draws_follow_their_law(trials: int, p: float) -> None:
    numerator = round(p * ONE)
    draws = binomial(trials, np.full(200_000, numerator), SystemRandomness())
    assert chi_square(draws, binomial_law(trials, numerator / ONE), trials) > FALSE_ALARM


def test_each_element_has_its_own_p_and_a_shift_of_one_percent_would_be_noticed() -> None:
    p = np.tile([0, ONE // 8, ONE], (50_000, 1))
    draws = binomial(16, p, SystemRandomness())
    assert draws.shape == p.shape
    assert np.all(draws[:, 0] == 0)
    assert np.all(draws[:, 2] == 16)
    assert chi_square(draws[:, 1], binomial_law(16, 1 / 8), 16) > FALSE_ALARM
    draws = binomial(16, np.full(200_000, ONE // 2), SystemRandomness())
    assert chi_square(draws, binomial_law(16, 0.51), 16) < FALSE_ALARM


@pytest.mark.parametrize("numerator", [0, ONE // 2, 10**15, ONE - 1, ONE])
def test_the_number_of_words_does_not_tell_p(numerator: int) -> None:
    """The bits used have the same law for every p: here their mean, against that of p = 1/3."""
    words = {}
    for k in (ONE // 3, numerator):
        out = np.empty(20_000, dtype=np.int64)
        state, pool = np.array([0, 52, 16, 0], dtype=np.int64), np.zeros(2, dtype=np.uint64)
        stream = SeededRandomness(f"{k} {numerator}").words(20_000)
        low, high = 0, len(stream)
        while high - low > 1:
            middle = (low + high) // 2
            fresh, empty = np.array([0, 52, 16, 0], dtype=np.int64), np.zeros(2, dtype=np.uint64)
            done = count_below(16, np.full(20_000, k), stream[:middle], out, fresh, empty)
            low, high = (low, middle) if done else (middle, high)
        words[k] = high
        assert count_below(16, np.full(20_000, k), stream, out, state, pool)
    # About 11,000 words with a standard deviation near 20; equal p give equal means.
    assert abs(words[ONE // 3] - words[numerator]) < 400


@pytest.mark.parametrize("trials", [0, -1, (1 << 20) + 1])
def test_an_impossible_number_of_trials_is_refused(trials: int) -> None:
    with pytest.raises(PlanError, match="trials"):
        binomial(trials, [0], SystemRandomness())
    with pytest.raises(PlanError, match="trials"):
        PoissonBinomialNoise(trials, Fraction(1, 4), Fraction(1))


def test_numerators_must_be_integers_and_values_must_be_there() -> None:
    with pytest.raises(TypeError, match="integers"):
        binomial(4, [0.5], SystemRandomness())
    assert binomial(4, np.zeros((0, 3), dtype=np.int64), SystemRandomness()).shape == (0, 3)
    with pytest.raises(DataError, match="not a number"):
        PoissonBinomialNoise(4, Fraction(1, 4), Fraction(1)).draw([1.0, float("nan")], SystemRandomness())


@given(
    st.fractions(min_value=Fraction(1, 1 << 40), max_value=Fraction(499, 1000)),
    st.floats(min_value=1e-6, max_value=1e6),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=20),
)
@settings(deadline=None)
def test_no_value_leaves_the_interval_that_privacy_needs(
    beta: Fraction, bound: float, values: list[float]
) -> None:
    noise = PoissonBinomialNoise(4, beta, Fraction(bound))
    for numerator in noise.numerators([*values, bound, -bound]).tolist():
        assert abs(Fraction(numerator, ONE) - Fraction(1, 2)) <= beta


def test_the_quantiser_is_odd_about_one_half_and_clips_and_estimates_are_sums() -> None:
    noise = PoissonBinomialNoise(4, Fraction(1, 10), Fraction(3))
    low, middle, high = noise.numerators([-1.7, 0.0, 1.7]).tolist()
    assert middle == ONE // 2
    assert high - middle == middle - low
    assert noise.numerators([3.0, 99.0, np.inf]).tolist() == [noise.numerators([3.0])[0]] * 3
    noise = PoissonBinomialNoise(64, Fraction(1, 4), Fraction(2))
    values = np.array([1.5, -0.5, 0.25])
    counts = sum(noise.draw(np.full(200_000, value), SystemRandomness()) for value in values)
    estimates = noise.estimate(counts, parties=3)
    # One estimate has a standard deviation below √(3·64)/2·8/64 < 0.9: six of the mean are 0.012.
    assert abs(estimates.mean() - values.sum()) < 0.012


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(3, 4), Fraction(1, 1 << 41)])
def test_a_beta_that_shows_or_hides_everything_is_refused(beta: Fraction) -> None:
    with pytest.raises(PlanError, match="β"):
        PoissonBinomialNoise(4, beta, Fraction(1))


def test_events_count_the_contributors_the_observer_does_not_know() -> None:
    noise = PoissonBinomialNoise(4, Fraction(1, 10), Fraction(1))
    server = noise.event(parties=5)
    assert server == PoissonBinomial(contributors=5, trials=4, beta=Fraction(1, 10))
    fellow = noise.event(parties=5, known=1, coordinates=16)
    assert fellow == Repeated(PoissonBinomial(contributors=4, trials=4, beta=Fraction(1, 10)), 16)
    with pytest.raises(PrivacyError, match="hidden nothing"):
        noise.event(parties=2, known=2)


@pytest.mark.parametrize("numerators", [[-1], [-1, 5], [5, ONE, -1], [ONE + 1], [0, ONE + 1], [ONE + 1, -1]])
def test_one_numerator_outside_its_range_is_refused_whatever_the_others_are(numerators: list[int]) -> None:
    with pytest.raises(ValueError, match="outside"):
        binomial(4, numerators, SystemRandomness())
