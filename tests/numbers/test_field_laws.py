"""Field arrays are the integers modulo the field's size, whichever loops compute them."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_kernels import plain_numpy
from scipy import stats

from colonnade.errors import FieldTooSmall
from colonnade.numbers.field import (
    FIELD61,
    FIELD63,
    FIELD126,
    Field,
    FieldArray,
    check_fits,
    largest_per_row,
    largest_rows,
    smallest_field,
)
from colonnade.randomness import KeyedRandomness, SeededRandomness

FALSE_ALARM = 1e-9
FIELDS = (FIELD61, FIELD63, FIELD126)
LOOPS: dict[str, Any] = {"compiled": nullcontext, "numpy": plain_numpy}

fields = st.sampled_from(FIELDS)
loops = st.sampled_from(sorted(LOOPS))


def signed(field: Field, value: int) -> int:
    """The representative nearest to zero, in Python integers."""
    reduced = value % field.modulus
    return reduced - field.modulus if reduced > field.capacity else reduced


def elements(field: Field) -> st.SearchStrategy[int]:
    edge = field.capacity
    corners = [0, 1, -1, edge, -edge, edge - 1, field.primes[0] - 1, field.primes[-1], -field.primes[0]]
    return st.one_of(st.sampled_from([c for c in corners if abs(c) <= edge]), st.integers(-edge, edge))


def encoded(field: Field, *values: int) -> FieldArray:
    return field.encode(np.array(values, dtype=object))


@given(st.data(), fields, loops)
@settings(max_examples=200, deadline=None)
def test_sums_differences_and_products_are_those_of_the_integers(
    data: st.DataObject, field: Field, loop: str
) -> None:
    x, y, z = (data.draw(elements(field)) for _ in range(3))
    with LOOPS[loop]():
        a, b = encoded(field, x, y), encoded(field, z, x)
        assert (a + b).decode().tolist() == [signed(field, x + z), signed(field, y + x)]
        assert (a - b).decode().tolist() == [signed(field, x - z), signed(field, y - x)]
        assert (-a).decode().tolist() == [signed(field, -x), signed(field, -y)]
        assert a.multiply(b).decode().tolist() == [signed(field, x * z), signed(field, y * x)]
        assert a.times(z).decode().tolist() == [signed(field, x * z), signed(field, y * z)]
        total = a + b
        total.add_times(z, b)
        assert total.decode().tolist() == [signed(field, x + z + z * z), signed(field, y + x + z * x)]
        total += a
        assert total.decode().tolist() == [signed(field, 2 * x + z + z * z), signed(field, 2 * y + x + z * x)]


@given(st.data(), fields)
@settings(max_examples=100, deadline=None)
def test_the_ring_laws_hold(data: st.DataObject, field: Field) -> None:
    a, b, c = (encoded(field, data.draw(elements(field))) for _ in range(3))
    assert ((a + b) + c).equals(a + (b + c))
    assert (a + b).equals(b + a)
    assert a.multiply(b).equals(b.multiply(a))
    assert a.multiply(b + c).equals(a.multiply(b) + a.multiply(c))
    assert (a - a).equals(field.zeros((1,)))
    assert (a + field.zeros((1,))).equals(a)


@given(st.data(), fields, loops)
@settings(max_examples=100, deadline=None)
def test_decode_gives_back_what_encode_took(data: st.DataObject, field: Field, loop: str) -> None:
    values = data.draw(st.lists(elements(field), min_size=1, max_size=5))
    with LOOPS[loop]():
        assert encoded(field, *values).decode().tolist() == values


@given(st.lists(st.integers(-(2**60) + 1, 2**60 - 1), min_size=1), fields, loops)
@settings(deadline=None)
def test_int64_arrays_encode_like_python_integers(values: list[int], field: Field, loop: str) -> None:
    with LOOPS[loop]():
        plain = field.encode(np.array(values, dtype=np.int64))
        assert plain.equals(encoded(field, *values))
        assert plain.decode().dtype == np.int64


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_every_integer_type_is_taken(dtype: str) -> None:
    values = np.array([0, 1, np.iinfo(dtype).max >> 3], dtype=dtype)
    assert FIELD63.encode(values).decode().tolist() == values.tolist()


def test_floats_are_refused() -> None:
    with pytest.raises(TypeError, match="round first"):
        FIELD63.encode(np.array([1.0]))
    with pytest.raises(TypeError, match="round first"):
        FIELD63.encode(np.array([1.5], dtype=object))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_the_capacity_is_the_last_integer_that_fits(field: Field, loop: str) -> None:
    with LOOPS[loop]():
        for edge in (field.capacity, -field.capacity):
            assert encoded(field, edge).decode().tolist() == [edge]
            with pytest.raises(FieldTooSmall):
                encoded(field, edge + (1 if edge > 0 else -1))


@pytest.mark.parametrize("field", [FIELD61, FIELD63])
def test_an_int64_past_the_capacity_is_refused(field: Field) -> None:
    for value in (field.capacity + 1, -field.capacity - 1, 2**63 - 1, -(2**63)):
        with pytest.raises(FieldTooSmall, match="bits"):
            field.encode(np.array([0, value], dtype=np.int64))
    assert field.encode(np.array([field.capacity, -field.capacity])).decode()[1] == -field.capacity


def test_large_integers_decode_to_python_integers_only_when_they_must() -> None:
    assert encoded(FIELD126, 2**63 - 1, -(2**63) + 1).decode().dtype == np.int64
    assert encoded(FIELD126, 2**63).decode().dtype == object


@pytest.mark.parametrize("field", FIELDS)
def test_arrays_of_any_shape_work(field: Field) -> None:
    for shape in ((), (0,), (1,), (2, 0), (2, 3, 4)):
        ones = field.encode(np.ones(shape, dtype=np.int64))
        assert (ones + ones.times(-3)).decode().shape == shape
        assert bool((np.asarray((ones + ones.times(-3)).decode()) == -2).all())


def test_elements_have_no_truth_value_and_print_no_content() -> None:
    secret = FIELD63.encode(np.array([123456789]))
    with pytest.raises(TypeError, match="truth"):
        bool(secret)
    assert "123456789" not in repr(secret)


def test_arrays_that_do_not_match_are_refused() -> None:
    a = FIELD63.zeros((2,))
    for other in (FIELD63.zeros((3,)), FIELD126.zeros((2,))):
        with pytest.raises(ValueError, match="do not match"):
            a + other


def test_residues_are_the_integer_modulo_every_prime() -> None:
    values = [5, -1, 2**60, -(2**61)]
    residues = encoded(FIELD126, *values).residues
    assert residues.tolist() == [[value % prime for value in values] for prime in FIELD126.primes]
    assert encoded(FIELD61, -1).residues.tolist() == [[2**61 - 2]]


@pytest.mark.parametrize("primes", [(), (2097143,), (2097143, 2097143, 2097133), (2097141, 2097133, 2097131)])
def test_a_field_is_made_of_distinct_primes_in_threes(primes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="prime"):
        Field(primes)


@pytest.mark.parametrize("field", FIELDS)
def test_the_two_kinds_of_loops_expand_a_key_to_the_same_elements(field: Field) -> None:
    key = bytes(range(32))
    # Long enough that some words are drawn again.
    compiled = field.uniform((200_000,), KeyedRandomness(key))
    with plain_numpy():
        assert field.uniform((200_000,), KeyedRandomness(key)).equals(compiled)
    assert field.words.invalid(compiled.words) == 0


class _Scripted:
    """A source that hands out prepared words."""

    reproducible = True

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def bytes(self, count: int) -> bytes:
        raise NotImplementedError

    def words(self, count: int) -> np.ndarray:
        out, self._words = self._words[:count], self._words[count:]
        return np.array(out, dtype=np.uint64)


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_a_word_with_a_residue_past_its_prime_is_drawn_again_whole(loop: str) -> None:
    p, q, r = FIELD63.primes
    bad = [p, q << 21, r << 42]
    last = (p - 1) | (q - 1) << 21 | (r - 1) << 42
    # Three refused words, one of whose replacements is refused too; the top bit never counts.
    with LOOPS[loop]():
        drawn = FIELD63.uniform((4,), _Scripted([*bad, last | 1 << 63, 7, p, 9, 8]))
    assert drawn.words.tolist() == [[7, 8, 9, last]]
    drawn = FIELD61.uniform((2,), _Scripted([2**64 - 1, 2**61, 2**61 - 1, 5]))
    assert drawn.words.tolist() == [[5, 0]]


def _chi_square(field: Field, words: np.ndarray, lane: int) -> float:
    """p-value of uniformity of one residue in 512 equal bins."""
    residues = field.words.digits(words)[lane].astype(object)
    bins = (residues * 512 // field.primes[lane]).astype(np.int64)
    counts = np.bincount(bins, minlength=512)
    widths = np.array(
        [-(-(k + 1) * field.primes[lane] // 512) - -(-k * field.primes[lane] // 512) for k in range(512)]
    )
    expected = words.size * (widths / field.primes[lane]).astype(float)
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.parametrize("field", [FIELD61, FIELD63])
def test_uniform_elements_are_uniform_in_every_residue(field: Field) -> None:
    words = field.uniform((200_000,), SeededRandomness("uniform")).words
    for lane in range(len(field.primes)):
        assert _chi_square(field, words, lane) > FALSE_ALARM


def test_this_chi_square_would_notice_three_percent_of_the_mass_moved() -> None:
    words = FIELD63.uniform((200_000,), SeededRandomness("skewed")).words
    low = words[:, :6000] & np.uint64(2**21 - 1)
    words[:, :6000] -= low - (low >> np.uint64(1))
    assert _chi_square(FIELD63, words, 0) < FALSE_ALARM
    assert _chi_square(FIELD63, words, 1) > FALSE_ALARM


@given(rows=st.integers(1, 10**9), per_row=st.integers(1, 2**50), noise=st.integers(0, 2**60))
def test_what_is_said_to_fit_fits_and_one_more_does_not(rows: int, per_row: int, noise: int) -> None:
    for field in (FIELD61, FIELD63, FIELD126):
        most = largest_rows(field, per_row=per_row, noise=noise)
        assert most * per_row + noise <= field.capacity or most == 0
        assert (most + 1) * per_row + noise > field.capacity
        each = largest_per_row(field, rows=rows, noise=noise)
        assert each * rows + noise <= field.capacity or each == 0
        assert (each + 1) * rows + noise > field.capacity


def test_the_refusal_says_what_fits() -> None:
    edge = FIELD63.capacity
    check_fits(FIELD63, rows=1, per_row=edge)
    with pytest.raises(FieldTooSmall, match="at most 1 rows"):
        check_fits(FIELD63, rows=2, per_row=edge)
    with pytest.raises(FieldTooSmall, match="at most 0 rows"):
        check_fits(FIELD63, rows=1, per_row=1, noise=edge)
    assert smallest_field(rows=1, per_row=edge) == FIELD63
    assert smallest_field(rows=1, per_row=edge, noise=1) == FIELD126
    with pytest.raises(FieldTooSmall, match="126"):
        smallest_field(rows=2, per_row=FIELD126.capacity)


def test_without_the_check_a_sum_past_the_capacity_comes_back_as_another_integer() -> None:
    wrapped = encoded(FIELD63, FIELD63.capacity) + encoded(FIELD63, 1)
    assert wrapped.decode().tolist() == [-FIELD63.capacity]
