"""Matrix products of field elements are exact, at the extremes too."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_kernels import plain_numpy

from colonnade.numbers import field as products
from colonnade.numbers.field import FIELD61, FIELD63, FIELD126, Field, FieldArray, GramSum
from colonnade.randomness import SeededRandomness

FIELDS = (FIELD61, FIELD63, FIELD126)
LOOPS: dict[str, Any] = {"compiled": nullcontext, "numpy": plain_numpy}


def integers(array: FieldArray) -> np.ndarray:
    """The elements as Python integers, which never round."""
    return array.decode().astype(object)


def same(field: Field, got: FieldArray, expected: Any) -> bool:
    return bool(((integers(got) - expected) % field.modulus == 0).all())


@given(
    st.sampled_from(FIELDS),
    st.sampled_from(sorted(LOOPS)),
    st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(1, 5)),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_products_equal_python_integer_arithmetic(
    field: Field, loop: str, sizes: tuple[int, int, int], seed: int
) -> None:
    rows, left, right = sizes
    source = SeededRandomness(seed)
    a, b = field.uniform((rows, left), source), field.uniform((rows, right), source)
    with LOOPS[loop]():
        assert same(field, a.gram(), integers(a).T @ integers(a) if rows else 0)
        assert same(field, a.transpose_times(b), integers(a).T @ integers(b) if rows else 0)
        if rows:
            assert same(field, a.transpose() @ b, integers(a).T @ integers(b))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("loop", sorted(LOOPS))
@pytest.mark.parametrize("rows", [products.EXACT_ROWS - 1, products.EXACT_ROWS, 2 * products.EXACT_ROWS + 1])
def test_the_largest_digits_on_every_row_stay_exact(field: Field, loop: str, rows: int) -> None:
    # −1 has the largest residue of every prime: no product has larger partial sums.
    ones = field.encode(np.full((rows, 2), -1))
    with LOOPS[loop]():
        assert ones.gram().decode().tolist() == [[rows, rows], [rows, rows]]
        assert ones.transpose_times(ones.times(-1)).decode().tolist() == [[-rows, -rows], [-rows, -rows]]


def test_a_chunk_never_has_more_rows_than_a_double_sums_exactly() -> None:
    largest = max(FIELD126.primes) - 1
    assert products.EXACT_ROWS * largest**2 + largest < 2**53
    # The digits of 2^61 − 1 may be 2^21 − 1, and nothing is carried over from the chunk before.
    assert products.EXACT_ROWS * (2**21 - 1) ** 2 < 2**53
    assert all(products._chunk_rows(columns) <= products.EXACT_ROWS for columns in (1, 2, 41, 10**6))


def test_many_more_rows_in_one_chunk_would_not_be_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    # The control: the limit on rows is needed, and these tests would see it broken.
    monkeypatch.setattr(products, "EXACT_ROWS", 1 << 16)
    rows = 1 << 16
    values = -1 - np.arange(2 * rows).reshape(rows, 2) % 1000
    assert not same(FIELD63, FIELD63.encode(values).gram(), values.T @ values)
    monkeypatch.undo()
    assert same(FIELD63, FIELD63.encode(values).gram(), values.T @ values)


@pytest.mark.parametrize("field", FIELDS)
def test_the_two_kinds_of_loops_give_the_same_words(field: Field) -> None:
    source = SeededRandomness("loops")
    a, b = field.uniform((5000, 7), source), field.uniform((5000, 3), source)
    compiled = (a.gram(), a.transpose_times(b), a.multiply(a), a.times(-12345678901234567890))
    with plain_numpy():
        plain = (a.gram(), a.transpose_times(b), a.multiply(a), a.times(-12345678901234567890))
    assert all(x.equals(y) for x, y in zip(compiled, plain, strict=True))


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


def test_a_value_taken_from_a_running_gram_does_not_move_with_it() -> None:
    total = GramSum(FIELD63, 1)
    total.add(FIELD63.encode(np.array([[2]])))
    before = total.value()
    total.add(FIELD63.encode(np.array([[3]])))
    assert before.decode().tolist() == [[4]]
    assert total.value().decode().tolist() == [[13]]


def test_blocks_of_the_wrong_shape_are_refused() -> None:
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
    with pytest.raises(ValueError, match="no matrix"):
        FIELD63.zeros((3,)).gram()
    with pytest.raises(ValueError, match="rows in common"):
        FIELD63.zeros((3, 1)).transpose_times(FIELD63.zeros((4, 1)))
    with pytest.raises(ValueError, match="cannot be multiplied"):
        FIELD63.zeros((3, 1)) @ FIELD63.zeros((3, 1))


def test_wide_and_tall_matrices_multiply_in_blocks() -> None:
    source = SeededRandomness("wide")
    tall, wide = FIELD63.uniform((5000, 2), source), FIELD63.uniform((2, 3), source)
    assert same(FIELD63, tall @ wide, integers(tall) @ integers(wide))
    long = FIELD63.uniform((2, 5000), source)
    assert same(FIELD63, long @ tall, integers(long) @ integers(tall))


def test_stacking_and_slicing_are_those_of_numpy() -> None:
    values = np.arange(12).reshape(4, 3)
    table = FIELD126.encode(values)
    assert table.rows(1, 3).decode().tolist() == values[1:3].tolist()
    assert table.rows(0, 1).stack_rows([table.rows(1, 4)]).equals(table)
    assert table.transpose().decode().tolist() == values.T.tolist()
    assert table.reshape((6, 2)).decode().tolist() == values.reshape(6, 2).tolist()


@pytest.mark.parametrize("field", FIELDS)
def test_the_upper_triangle_is_read_row_by_row(field: Field) -> None:
    values = np.arange(9).reshape(3, 3)
    assert field.encode(values).upper_triangle().decode().tolist() == [0, 1, 2, 4, 5, 8]
    with pytest.raises(ValueError, match="square"):
        field.zeros((2, 3)).upper_triangle()
