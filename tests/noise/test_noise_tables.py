"""The machine: every table audited, damaged tables caught, the compiled kernel held to its twin."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_twin import Candidate, run, verdict
from mpmath.ctx_mp_python import mpf
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray
from table_audit import findings
from typed import untyped

from colonnade.noise.discrete_gaussian import DiscreteGaussianLaw
from colonnade.noise.discrete_laplace import DiscreteLaplaceLaw, PolyaLaw
from colonnade.noise.sampler import (
    CAPACITY,
    COLUMNS,
    PRECISION,
    UNIFORM_BITS,
    StripTable,
    accepts,
    alias_columns,
    fill,
    sample,
    settle,
    table_of,
)
from colonnade.noise.skellam import SkellamLaw, first_extent, log2_tail
from colonnade.privacy.events import FINE_BITS, FINEST_BITS
from colonnade.randomness import SeededRandomness, SystemRandomness

LAWS = [
    SkellamLaw(Fraction(1, 10**9)),
    SkellamLaw(Fraction(1)),
    SkellamLaw(Fraction(10**6)),
    SkellamLaw(Fraction(10**24)),
    DiscreteGaussianLaw(Fraction(1, 10**9)),
    DiscreteGaussianLaw(Fraction(16)),
    DiscreteGaussianLaw(Fraction(10**6)),
    DiscreteGaussianLaw(Fraction(1 << 40)),
    DiscreteGaussianLaw(Fraction(1 << 88)),
    DiscreteLaplaceLaw(Fraction(100)),
    DiscreteLaplaceLaw(Fraction(1)),
    DiscreteLaplaceLaw(Fraction(1, 1000)),
    DiscreteLaplaceLaw(Fraction(1, 1 << 45)),
    PolyaLaw(Fraction(1, 10), Fraction(100)),
    PolyaLaw(Fraction(1, 10), Fraction(1, 10)),
    PolyaLaw(Fraction(1, 100), Fraction(1, 1 << 40)),
    PolyaLaw(Fraction(1), Fraction(1, 1000)),
    DiscreteGaussianLaw(Fraction(72), FINE_BITS),
    DiscreteGaussianLaw(Fraction(1 << 40), FINE_BITS),
    DiscreteGaussianLaw(Fraction(216), FINEST_BITS),
    DiscreteGaussianLaw(Fraction(1 << 86), FINEST_BITS),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_every_integer_fact_of_the_proof_holds_and_the_compiled_kernel_is_its_twin(
    law: SkellamLaw | DiscreteGaussianLaw,
) -> None:
    assert findings(table_of(law), points=2) == ()
    table = table_of(law)
    words = SeededRandomness(f"twin {law}").words(2 * 1200)
    # Extreme words, and uniforms near the chords' bands, beside random ones.
    words[:4] = 0
    words[4:8] = np.uint64(2**64 - 1)
    words[9:1601:2] |= np.uint64(((1 << 24) - 1 - 64) << 40)
    assert by_kernel(fill, table, words) == run(table, words.tolist())


@settings(deadline=None, max_examples=8)
@given(
    st.fractions(min_value=Fraction(1, 10**9), max_value=10**4, max_denominator=10**9),
    st.integers(min_value=0, max_value=14),
)
def test_tables_of_arbitrary_fractions_pass_the_audit(base: Fraction, decades: int) -> None:
    assert findings(table_of(SkellamLaw(base * 10**decades)), points=2) == ()
    assert findings(table_of(DiscreteGaussianLaw(base * 10**decades)), points=2) == ()


def with_row(table: StripTable, row: int, field: int, change: Callable[..., Any] | type[int]) -> StripTable:
    rows = table.rows.copy()
    rows[row, field] = change(int(rows[row, field]))
    return dataclasses.replace(table, rows=rows)


class Inflated:
    """A law whose masses came out a tenth of a percent too large after its table was made."""

    def __init__(self, law: Any) -> None:
        self.exponent, self.two_sided, self.tails = law.exponent, law.two_sided, law.tails
        self._law, self.precision = law, law.precision

    def mass(self, k: Any) -> Any:
        return self._law.mass(k) * 1001 // 1000


def widest(table: StripTable) -> int:
    return max(range(len(table.cells)), key=lambda j: int(table.rows[j, 6]))


def moved_weight(table: Any) -> Any:
    weights = list(table.weights)
    weights[3] += 1
    weights[4] -= 1
    return dataclasses.replace(table, weights=tuple(weights))


def narrowed(table: StripTable) -> StripTable:
    rows = table.rows.copy()
    rows[:, 6] = rows[:, 6] * 6 // 10
    return dataclasses.replace(table, rows=rows)


DAMAGE: dict[str, Callable[[Any], Any]] = {
    "A: threshold one higher": lambda t: with_row(t, 5, 0, lambda v: v + 1 if v < CAPACITY else v - 1),
    "A: threshold past its column": lambda t: with_row(t, 5, 0, lambda v: CAPACITY + 1),
    "A: another alias target": lambda t: with_row(
        t, int(np.argmin(t.rows[:, 0])), 1, lambda v: (v + 1) % COLUMNS
    ),
    "A: a weight moved by one": moved_weight,
    "A: a weight lost": lambda t: dataclasses.replace(t, weights=t.weights[:-1]),
    "C: a base moved by one": lambda t: with_row(t, 7, 2, lambda v: v + 1),
    "C: a cell of another length": lambda t: with_row(t, 7, 3, lambda v: v - 1),
    "C: a cell past the offset bits": lambda t: with_row(t, 7, 3, lambda v: -1),
    "B: a slope reversed": lambda t: with_row(t, widest(t), 5, lambda v: -v - 1),
    "B: a slope that overflows": lambda t: with_row(t, 9, 5, lambda v: 1 << 40),
    "B: bands at sixty percent": narrowed,
    "B: masses a tenth of a percent too large": lambda t: dataclasses.replace(t, law=Inflated(t.law)),
    "D: an envelope too low": lambda t: dataclasses.replace(t, scale=t.scale * 1001 // 1000),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_audit_catches_every_kind_of_damage(damage: str) -> None:
    table = table_of(DiscreteGaussianLaw(Fraction(10**6)))
    assert any(found.startswith(damage[:2]) for found in findings(DAMAGE[damage](table)))


@pytest.mark.parametrize(
    "weights",
    [
        lambda weights: (weights[0] + 1, *weights[1:]),
        lambda weights: (weights[0] - 1, *weights[1:]),
        lambda weights: (*weights[:-2], weights[-2] + weights[-1]),
    ],
    ids=["one more in all", "one fewer in all", "a cell without a weight"],
)
def test_weights_have_the_right_sum_and_one_for_each_cell(weights: Callable[[Any], Any]) -> None:
    """Either mistake alone is found, and said for what it is."""
    table = table_of(DiscreteGaussianLaw(Fraction(10**6)))
    said = "A: the weights of the cells do not sum to 2^64"
    assert said not in findings(table)
    assert said in findings(dataclasses.replace(table, weights=weights(table.weights)))


@pytest.mark.parametrize(
    "damage", ["B: bands at sixty percent", "B: a slope reversed", "A: a weight moved by one"]
)
def test_the_audit_catches_damage_to_a_skellam_table(damage: str) -> None:
    table = table_of(SkellamLaw(Fraction(10**6)))
    assert any(found.startswith(damage[:2]) for found in findings(DAMAGE[damage](table), points=2))


def test_a_support_ends_where_so_little_is_left_for_the_first_time() -> None:
    for mu, bits in ((Fraction(1, 2), -105), (Fraction(3), -320), (Fraction(10**4), -105)):
        extent = first_extent(mu, bits)
        assert log2_tail(mu, extent) <= bits < log2_tail(mu, extent - 1)


def test_the_audit_catches_a_tail_that_the_kernel_could_decide_and_zero_inside_a_cell() -> None:
    table = table_of(DiscreteLaplaceLaw(Fraction(1)))
    tail = len(table.cells) - 1
    assert any("tail" in found for found in findings(with_row(table, tail, 6, lambda v: 3)))
    moved = dataclasses.replace(table.cells[tail], left=table.cells[tail].left + 1)
    assert any(
        "tails" in found for found in findings(dataclasses.replace(table, cells=(*table.cells[:-1], moved)))
    )
    table = table_of(SkellamLaw(Fraction(1)))
    cells = [dataclasses.replace(cell, base=cell.base) for cell in table.cells if cell.base not in (-1, 0)]
    bridge = dataclasses.replace(table.cells[0], base=-1, log_length=1)
    rows = table.rows.copy()
    for row, cell in zip(rows, [*cells, bridge], strict=False):
        row[2:4] = cell.base, 40 - cell.log_length
    joined = dataclasses.replace(table, cells=(*cells, bridge), rows=rows)
    assert "C: 0 lies inside a cell, where masses turn" in findings(joined)


def test_fast_decisions_agree_with_the_exact_one_at_either_end_of_the_missing_bits() -> None:
    """What the kernel decides from 24 bits, all 2^128 continuations of them would decide alike."""
    for law in (SkellamLaw(Fraction(10**6)), PolyaLaw(Fraction(1, 100), Fraction(1, 1 << 40))):
        table = table_of(law)
        source = np.random.default_rng(11)
        for _ in range(400):
            cell = int(source.integers(len(table.cells)))
            offset = int(source.integers(1 << table.cells[cell].log_length))
            mass = table.mass(table.cells[cell], offset)
            middle = (table.scale * mass << (table.cells[cell].log_length + UNIFORM_BITS)) // (
                table.weights[cell] << table.scale_bits
            )
            # Near the acceptance probability, where a mistake would be made.
            uniform = min(max(middle + int(source.integers(-300, 300)), 0), (1 << UNIFORM_BITS) - 1)
            decision = verdict(table, Candidate(cell, offset, uniform))
            if decision is not None:
                assert accepts(table, cell, offset, uniform=uniform << 128) is decision
                assert accepts(table, cell, offset, uniform=((uniform + 1) << 128) - 1) is decision


def test_a_draw_that_a_word_leaves_open_is_settled_by_bytes_of_its_own() -> None:
    table = table_of(SkellamLaw(Fraction(10**6)))
    place, cell = next((place, cell) for place, cell in enumerate(table.cells) if cell.base == -48)
    reach = table.scale * table.mass(cell, 0) << (cell.log_length + UNIFORM_BITS)
    uniform, rest = divmod(reach, table.weights[place] << table.scale_bits)
    chance = rest / (table.weights[place] << table.scale_bits)
    drawn = [settle(table, place, 0, uniform=uniform, randomness=SeededRandomness(k)) for k in range(400)]
    assert 0.4 < chance < 0.6 and abs(drawn.count(cell.base) / 400 - chance) < 0.1


def by_kernel(
    kernel: CPUDispatcher | Callable[..., Any], table: StripTable, words: NDArray[np.uint64]
) -> list[int | Candidate]:
    out = np.zeros(len(words), dtype=np.int64)
    doubts = np.zeros((len(words), 4), dtype=np.int64)
    slot, used, recorded = kernel(table.rows, words, out, 0, doubts)
    assert used == len(words)
    slots = out[:slot].tolist()
    for place, cell, offset, uniform in doubts[:recorded].tolist():
        slots[place] = Candidate(cell, offset, uniform)
    result: list[int | Candidate] = slots
    return result


@pytest.mark.parametrize(
    "law",
    [SkellamLaw(Fraction(10**6)), SkellamLaw(Fraction(10**24)), DiscreteLaplaceLaw(Fraction(1, 1000))],
    ids=str,
)
def test_the_kernel_before_compilation_is_its_twin(law: SkellamLaw) -> None:
    table = table_of(law)
    words = SeededRandomness(f"python {law}").words(2 * 1500)
    words[1::2] |= np.uint64(((1 << 24) - 1 - 4095) << 40)
    found = run(table, words.tolist())
    assert by_kernel(untyped(fill).py_func, table, words) == found
    assert any(isinstance(slot, Candidate) for slot in found)
    assert len(found) < 1500


def test_the_kernel_stops_when_slots_words_or_room_for_doubts_run_out() -> None:
    table = table_of(SkellamLaw(Fraction(10**6)))
    words = SeededRandomness("stops").words(20_001)
    out = np.zeros(10, dtype=np.int64)
    assert fill(table.rows, words, out, 4, np.zeros((10, 4), dtype=np.int64))[0] == 10
    assert fill(table.rows, words[:5], out, 0, np.zeros((10, 4), dtype=np.int64))[1] == 4
    always = with_row(table, 0, 6, int).rows.copy()
    always[:, 6] = 1 << 25
    slot, used, recorded = fill(always, words, out, 0, np.zeros((3, 4), dtype=np.int64))
    assert (slot, used, recorded) == (3, 6, 3)


@given(st.lists(st.integers(min_value=0, max_value=1 << 40), min_size=1, max_size=COLUMNS))
@settings(deadline=None, max_examples=20)
def test_alias_columns_hand_out_exactly_the_weights(raw: list[int]) -> None:
    weights = [value + 1 for value in raw]
    weights[0] += (1 << 64) - sum(weights)
    thresholds, targets = alias_columns(tuple(weights))
    received = [0] * COLUMNS
    for column, (threshold, target) in enumerate(zip(thresholds, targets, strict=True)):
        received[column] += threshold
        received[target] += CAPACITY - threshold
    assert received == weights + [0] * (COLUMNS - len(weights))


def test_one_law_has_one_table_and_a_support_past_the_offset_bits_has_none() -> None:
    assert table_of(SkellamLaw(Fraction(3, 2))) is table_of(SkellamLaw(Fraction(6, 4)))
    with pytest.raises(ValueError, match="does not fit"):
        table_of(DiscreteGaussianLaw(Fraction(1 << 100)))


def test_a_seed_repeats_its_draws_and_nothing_is_drawn_of_nothing() -> None:
    law = SkellamLaw(Fraction(10**12))
    first, second = (sample(law, 50_000, SeededRandomness(5)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(sample(law, 50, SystemRandomness()), sample(law, 50, SystemRandomness()))
    assert sample(SkellamLaw(Fraction(1)), (0, 4), SystemRandomness()).shape == (0, 4)


def test_masses_do_not_depend_on_the_precision_others_use() -> None:
    law = PolyaLaw(Fraction(1, 3), Fraction(1, 50))
    before = [law.mass(k) for k in (0, 5, 511, 512, 513, 2000)]
    with mpmath.workprec(20):
        fresh = PolyaLaw(Fraction(1, 3), Fraction(1, 50))
        assert [fresh.mass(k) for k in (0, 5, 511, 512, 513, 2000)] == before


def exact_gaussian(law: DiscreteGaussianLaw, k: int) -> mpf:
    return mpmath.exp(
        -(mpmath.mpf(k) ** 2) * law.sigma_squared.denominator / (2 * law.sigma_squared.numerator)
    )


def exact_laplace(law: DiscreteLaplaceLaw, k: int) -> mpf:
    return mpmath.exp(-mpmath.mpf(k) * law.rate.numerator / law.rate.denominator)


def exact_polya(law: Any, k: Any) -> Any:
    shape = mpmath.mpf(law.shape.numerator) / law.shape.denominator
    log = mpmath.loggamma(k + shape) - mpmath.loggamma(shape) - mpmath.loggamma(k + 1)
    return mpmath.exp(log) * exact_laplace(law, k)


@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, SkellamLaw)], ids=str)
def test_masses_are_within_two_units_of_an_independent_formula(
    law: DiscreteGaussianLaw | DiscreteLaplaceLaw,
) -> None:
    formula: dict[Any, Callable[[Any, int], Any]] = {
        DiscreteGaussianLaw: exact_gaussian,
        DiscreteLaplaceLaw: exact_laplace,
        PolyaLaw: exact_polya,
    }
    extent = 1 << law.exponent
    values = {0, 1, 2, 3, 511, 512, 513, extent, *range(0, extent + 1, max(1, extent // 12))}
    with mpmath.workprec(law.precision + 700):
        for k in (k for k in values if k <= extent):
            assert abs(law.mass(k) - mpmath.ldexp(formula[type(law)](law, k), law.precision)) <= 2


# Skellam noise: its probabilities against Bessel functions, its draws against its probabilities.


def bessel_mass(mu: Fraction, k: int, period: int) -> mpmath.mpf:
    """2^192·N·f(k) with f(k) = e^(−2μ) I_k(2μ): an independent formula."""
    with mpmath.workprec(700):
        z = 2 * mpmath.mpf(mu.numerator) / mu.denominator
        return mpmath.ldexp(period * mpmath.exp(-z) * mpmath.besseli(k, z), PRECISION)


def hankel_mass(mu: Fraction, k: int, period: int) -> mpmath.mpf:
    """The same for large μ, where Hankel's series for I_k converges to full precision before it diverges."""
    with mpmath.workprec(1400):
        z = 2 * mpmath.mpf(mu.numerator) / mu.denominator
        term, total, j = mpmath.mpf(1), mpmath.mpf(1), 0
        while abs(term) > mpmath.ldexp(1, -600):
            j += 1
            term = -term * (4 * mpmath.mpf(k) ** 2 - (2 * j - 1) ** 2) / (j * 8 * z)
            total += term
        return mpmath.ldexp(period * total / mpmath.sqrt(2 * mpmath.pi * z), PRECISION)


@pytest.mark.parametrize(
    "mu", [Fraction(1, 10**9), Fraction(1, 7), Fraction(1), Fraction(123, 10), Fraction(10**4)]
)
def test_the_masses_are_bessel_functions_to_within_two_units(mu: Fraction) -> None:
    law = SkellamLaw(mu)
    extent = 1 << law.exponent
    for k in {*range(min(extent, 40)), *range(0, extent + 1, max(1, extent // 20)), extent}:
        assert abs(law.mass(k) - bessel_mass(mu, k, law.period)) <= 2


@pytest.mark.parametrize(
    "mu", [Fraction(10**6), Fraction(10**10, 3), Fraction(10**15), Fraction(10**18), Fraction(10**24)]
)
def test_the_masses_follow_hankels_series_to_within_two_units_at_large_mu(mu: Fraction) -> None:
    law = SkellamLaw(mu)
    extent = 1 << law.exponent
    for k in {0, 1, 2, 3, *range(0, extent + 1, extent // 40), extent - 1, extent}:
        assert abs(law.mass(k) - hankel_mass(mu, k, law.period)) <= 2


@pytest.mark.parametrize("decade", range(-9, 19))
def test_fewer_than_four_hundred_terms_matter_for_every_mu(decade: int) -> None:
    """The error bound of the recurrence is proved for that many."""
    law = SkellamLaw(Fraction(10) ** decade)
    assert len(law.terms) < 400
    assert law.period < 1 << 40
