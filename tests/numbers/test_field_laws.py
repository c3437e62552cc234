"""Field arrays are the integers modulo the field's size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import FieldTooSmall
from colonnade.numbers import field as products
from colonnade.numbers.field import (
    FIELD63,
    FIELD126,
    Field,
    FieldArray,
    GramSum,
    check_fits,
    largest_per_row,
    largest_rows,
    smallest_field,
)
from colonnade.randomness import KeyedRandomness, SeededRandomness

FALSE_ALARM = 1e-9
FIELDS = (FIELD63, FIELD126)

fields = st.sampled_from(FIELDS)


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


@given(st.data(), fields)
@settings(max_examples=100, deadline=None)
def test_sums_differences_and_products_are_those_of_the_integers(data: st.DataObject, field: Field) -> None:
    x, y, z = (data.draw(elements(field)) for _ in range(3))
    a, b = encoded(field, x, y), encoded(field, z, x)
    assert a.decode().tolist() == [x, y]
    assert (a + b).decode().tolist() == [signed(field, x + z), signed(field, y + x)]
    assert (a - b).decode().tolist() == [signed(field, x - z), signed(field, y - x)]
    assert (-a).decode().tolist() == [signed(field, -x), signed(field, -y)]
    assert a.multiply(b).decode().tolist() == [signed(field, x * z), signed(field, y * x)]
    assert a.times(z).decode().tolist() == [signed(field, x * z), signed(field, y * z)]
    for factor in (z, 1, -1):
        total = a.plus_times(factor, b)
        assert total.decode().tolist() == [signed(field, x + factor * z), signed(field, y + factor * x)]


@given(st.lists(st.integers(-(2**60) + 1, 2**60 - 1), min_size=1), fields)
@settings(deadline=None)
def test_int64_arrays_encode_like_python_integers(values: list[int], field: Field) -> None:
    plain = field.encode(np.array(values, dtype=np.int64))
    assert plain.equals(encoded(field, *values))
    assert plain.decode().dtype == np.int64


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_every_integer_type_is_taken(dtype: str) -> None:
    values = np.array([0, 1, np.iinfo(dtype).max >> 3], dtype=dtype)
    assert FIELD63.encode(values).decode().tolist() == values.tolist()


def test_floats_are_refused_and_large_integers_are_pythons_only_where_they_must_be() -> None:
    with pytest.raises(TypeError, match="round first"):
        FIELD63.encode(np.array([1.0]))
    with pytest.raises(TypeError, match="round first"):
        FIELD63.encode(np.array([1.5], dtype=object))
    assert encoded(FIELD126, 2**63 - 1, -(2**63) + 1).decode().dtype == np.int64
    assert encoded(FIELD126, 2**63).decode().dtype == object
    values = [5, -1, 2**60, -(2**61)]
    residues = encoded(FIELD126, *values).residues
    assert residues.tolist() == [[value % prime for value in values] for prime in FIELD126.primes]


@pytest.mark.parametrize("field", FIELDS)
def test_the_capacity_is_the_last_integer_that_fits(field: Field) -> None:
    for edge in (field.capacity, -field.capacity):
        assert encoded(field, edge).decode().tolist() == [edge]
        with pytest.raises(FieldTooSmall):
            encoded(field, edge + (1 if edge > 0 else -1))


def test_an_int64_past_the_capacity_is_refused() -> None:
    field = FIELD63
    for value in (field.capacity + 1, -field.capacity - 1, 2**63 - 1, -(2**63)):
        with pytest.raises(FieldTooSmall, match="bits"):
            field.encode(np.array([0, value], dtype=np.int64))
    assert field.encode(np.array([field.capacity, -field.capacity])).decode()[1] == -field.capacity


@pytest.mark.parametrize("field", FIELDS)
def test_arrays_of_any_shape_work_and_a_key_expands_to_elements(field: Field) -> None:
    for shape in ((), (0,), (1,), (2, 0), (2, 3, 4)):
        ones = field.encode(np.ones(shape, dtype=np.int64))
        assert (ones + ones.times(-3)).decode().shape == shape
        assert bool((np.asarray((ones + ones.times(-3)).decode()) == -2).all())
    # Long enough that some words are drawn again.
    drawn = field.uniform((200_000,), KeyedRandomness(bytes(range(32))))
    assert field.words.invalid(drawn.words) == 0


def test_elements_have_no_truth_value_and_print_no_content_and_others_do_not_match() -> None:
    secret = FIELD63.encode(np.array([123456789]))
    with pytest.raises(TypeError, match="truth"):
        bool(secret)
    assert "123456789" not in repr(secret)
    a = FIELD63.zeros((2,))
    for other in (FIELD63.zeros((3,)), FIELD126.zeros((2,))):
        with pytest.raises(ValueError, match="do not match"):
            a + other


@pytest.mark.parametrize("primes", [(), (2097143,), (2097143, 2097143, 2097133), (2097141, 2097133, 2097131)])
def test_a_field_is_made_of_distinct_primes_in_threes(primes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="prime"):
        Field(primes)


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


def test_a_word_with_a_residue_past_its_prime_is_drawn_again_whole() -> None:
    p, q, r = FIELD63.primes
    bad = [p, q << 21, r << 42]
    last = (p - 1) | (q - 1) << 21 | (r - 1) << 42
    # Three refused words, one of whose replacements is refused too; the top bit never counts.
    drawn = FIELD63.uniform((4,), _Scripted([*bad, last | 1 << 63, 7, p, 9, 8]))
    assert drawn.words.tolist() == [[7, 8, 9, last]]


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


def test_uniform_elements_are_uniform_in_every_residue() -> None:
    words = FIELD63.uniform((200_000,), SeededRandomness("uniform")).words
    assert all(_chi_square(FIELD63, words, lane) > FALSE_ALARM for lane in range(3))


def test_this_chi_square_would_notice_three_percent_of_the_mass_moved() -> None:
    words = FIELD63.uniform((200_000,), SeededRandomness("skewed")).words
    low = words[:, :6000] & np.uint64(2**21 - 1)
    words[:, :6000] -= low - (low >> np.uint64(1))
    assert _chi_square(FIELD63, words, 0) < FALSE_ALARM
    assert _chi_square(FIELD63, words, 1) > FALSE_ALARM


@given(rows=st.integers(1, 10**9), per_row=st.integers(1, 2**50), noise=st.integers(0, 2**60))
def test_what_is_said_to_fit_fits_and_one_more_does_not(rows: int, per_row: int, noise: int) -> None:
    for field in FIELDS:
        most = largest_rows(field, per_row=per_row, noise=noise)
        assert most * per_row + noise <= field.capacity or most == 0
        assert (most + 1) * per_row + noise > field.capacity
        each = largest_per_row(field, rows=rows, noise=noise)
        assert each * rows + noise <= field.capacity or each == 0
        assert (each + 1) * rows + noise > field.capacity


def test_the_refusal_says_what_fits_and_without_it_a_sum_comes_back_as_another_integer() -> None:
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
    wrapped = encoded(FIELD63, FIELD63.capacity) + encoded(FIELD63, 1)
    assert wrapped.decode().tolist() == [-FIELD63.capacity]


# Elements travel as bytes that are checked on arrival.


@given(st.sampled_from(FIELDS), st.lists(st.integers(0, 4), max_size=3), st.integers(0, 2**32))
@settings(deadline=None)
def test_bytes_bring_back_the_array(field: Field, shape: list[int], seed: int) -> None:
    array = field.uniform(tuple(shape), SeededRandomness(seed))
    data = array.to_bytes()
    assert len(data) == field.word_bytes * int(np.prod(shape))
    assert FieldArray.from_bytes(field, tuple(shape), data).equals(array)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("change", [-1, 1, 8])
def test_a_wrong_length_is_refused(field: Field, change: int) -> None:
    data = field.zeros((3,)).to_bytes()
    with pytest.raises(ValueError, match="bytes"):
        FieldArray.from_bytes(field, (3,), data[:change] if change < 0 else data + bytes(change))


@pytest.mark.parametrize("shape", [(-1, -3), (-3,), (2**62, 4), (2**64, 2**64)])
def test_a_hostile_shape_is_refused_without_allocating(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape|bytes"):
        FieldArray.from_bytes(FIELD63, shape, FIELD63.zeros((3,)).to_bytes())


@pytest.mark.parametrize("field", [FIELD63, FIELD126])
def test_every_residue_must_be_below_its_prime(field: Field) -> None:
    for lane, prime in enumerate(field.primes):
        for value, fine in ((prime - 1, True), (prime, False), (2**21 - 1, False)):
            words = np.zeros((len(field.primes) // 3, 2), dtype="<u8")
            words[lane // 3, 1] = value << (21 * (lane % 3))
            if fine:
                assert FieldArray.from_bytes(field, (2,), words.tobytes()).residues[lane, 1] == value
                continue
            with pytest.raises(ValueError, match="1 of 2 elements"):
                FieldArray.from_bytes(field, (2,), words.tobytes())


def test_top_bits_are_out_of_range_and_an_array_from_bytes_owns_its_words() -> None:
    with pytest.raises(ValueError, match="out of range"):
        FieldArray.from_bytes(FIELD63, (1,), (1 << 63).to_bytes(8, "little"))
    data = bytearray(FIELD63.zeros((2,)).to_bytes())
    array = FieldArray.from_bytes(FIELD63, (2,), bytes(data))
    array += FIELD63.encode(np.array([1, 2]))
    assert array.decode().tolist() == [1, 2]


@given(st.sampled_from(FIELDS), st.binary(min_size=16, max_size=16))
@settings(max_examples=300)
def test_random_bytes_are_either_refused_or_written_back_alike(field: Field, data: bytes) -> None:
    shape = (16 // field.word_bytes,)
    try:
        array = FieldArray.from_bytes(field, shape, data)
    except ValueError:
        return
    assert array.to_bytes() == data


# Matrix products of field elements are exact, at the extremes too.


def integers(array: FieldArray) -> np.ndarray:
    """The elements as Python integers, which never round."""
    return array.decode().astype(object)


def same(field: Field, got: FieldArray, expected: Any) -> bool:
    return bool(((integers(got) - expected) % field.modulus == 0).all())


@given(
    st.sampled_from(FIELDS),
    st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(1, 5)),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_products_equal_python_integer_arithmetic(
    field: Field, sizes: tuple[int, int, int], seed: int
) -> None:
    rows, left, right = sizes
    source = SeededRandomness(seed)
    a, b = field.uniform((rows, left), source), field.uniform((rows, right), source)
    assert same(field, a.gram(), integers(a).T @ integers(a) if rows else 0)
    assert same(field, a.transpose_times(b), integers(a).T @ integers(b) if rows else 0)
    if rows:
        assert same(field, a.transpose() @ b, integers(a).T @ integers(b))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("rows", [products.EXACT_ROWS - 1, products.EXACT_ROWS, 2 * products.EXACT_ROWS + 1])
def test_the_largest_digits_on_every_row_stay_exact(field: Field, rows: int) -> None:
    # −1 has the largest residue of every prime: no product has larger partial sums.
    ones = field.encode(np.full((rows, 2), -1))
    assert ones.gram().decode().tolist() == [[rows, rows], [rows, rows]]
    assert ones.transpose_times(ones.times(-1)).decode().tolist() == [[-rows, -rows], [-rows, -rows]]


def test_a_chunk_has_no_more_rows_than_a_double_sums_exactly_and_more_would_not_be_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    largest = max(FIELD126.primes) - 1
    assert products.EXACT_ROWS * largest**2 + largest < 2**53
    assert all(products._chunk_rows(columns) <= products.EXACT_ROWS for columns in (1, 2, 41, 10**6))
    # The control: the limit on rows is needed, and these tests would see it broken.
    monkeypatch.setattr(products, "EXACT_ROWS", 1 << 16)
    rows = 1 << 16
    values = -1 - np.arange(2 * rows).reshape(rows, 2) % 1000
    assert not same(FIELD63, FIELD63.encode(values).gram(), values.T @ values)
    monkeypatch.undo()
    assert same(FIELD63, FIELD63.encode(values).gram(), values.T @ values)


@pytest.mark.parametrize("field", FIELDS)
def test_triangles_are_read_by_rows(field: Field) -> None:
    values = np.arange(9).reshape(3, 3)
    assert field.encode(values).upper_triangle().decode().tolist() == [0, 1, 2, 4, 5, 8]
    with pytest.raises(ValueError, match="square"):
        field.zeros((2, 3)).upper_triangle()


@given(st.sampled_from(FIELDS), st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_running_gram_of_blocks_side_by_side_is_the_gram_of_the_whole(
    field: Field, lengths: list[int], seed: int
) -> None:
    source = SeededRandomness(seed)
    left, right = field.uniform((sum(lengths), 3), source), field.uniform((sum(lengths), 2), source)
    total, at = GramSum(field, 5), 0
    for length in lengths:
        total.add(left.rows(at, at + length), right.rows(at, at + length))
        at += length
    assert total.value().equals(left.stack_columns([right]).gram())


def test_a_value_taken_from_a_running_gram_stays_and_blocks_of_the_wrong_shape_are_refused() -> None:
    total = GramSum(FIELD63, 1)
    total.add(FIELD63.encode(np.array([[2]])))
    before = total.value()
    total.add(FIELD63.encode(np.array([[3]])))
    assert before.decode().tolist() == [[4]]
    assert total.value().decode().tolist() == [[13]]
    total = GramSum(FIELD63, 3)
    for blocks in (
        (FIELD63.zeros((2, 2)),),
        (FIELD63.zeros((2, 2)), FIELD63.zeros((3, 1))),
        (FIELD126.zeros((2, 3)),),
        (FIELD63.zeros((3,)),),
        (),
    ):
        with pytest.raises(ValueError, match="block"):
            total.add(*blocks)
    with pytest.raises(ValueError, match="not a matrix"):
        FIELD63.zeros((3,)).gram()
    with pytest.raises(ValueError, match="rows in common"):
        FIELD63.zeros((3, 1)).transpose_times(FIELD63.zeros((4, 1)))
    with pytest.raises(ValueError, match="cannot be multiplied"):
        FIELD63.zeros((3, 1)) @ FIELD63.zeros((3, 1))


def test_wide_and_tall_matrices_multiply_in_blocks_and_slices_are_those_of_numpy() -> None:
    source = SeededRandomness("wide")
    tall, wide = FIELD63.uniform((5000, 2), source), FIELD63.uniform((2, 3), source)
    assert same(FIELD63, tall @ wide, integers(tall) @ integers(wide))
    long = FIELD63.uniform((2, 5000), source)
    assert same(FIELD63, long @ tall, integers(long) @ integers(tall))
    values = np.arange(12).reshape(4, 3)
    table = FIELD126.encode(values)
    assert table.rows(1, 3).decode().tolist() == values[1:3].tolist()
    assert table.rows(0, 1).stack_rows([table.rows(1, 4)]).equals(table)
    assert table.transpose().decode().tolist() == values.T.tolist()
    assert table.reshape((6, 2)).decode().tolist() == values.reshape(6, 2).tolist()
