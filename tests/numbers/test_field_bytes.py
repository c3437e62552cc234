"""Elements travel as bytes that are checked on arrival."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_kernels import plain_numpy

from colonnade.numbers.field import FIELD61, FIELD63, FIELD126, Field, FieldArray
from colonnade.randomness import SeededRandomness

FIELDS = (FIELD61, FIELD63, FIELD126)


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
            with plain_numpy(), pytest.raises(ValueError, match="1 of 2 elements"):
                FieldArray.from_bytes(field, (2,), words.tobytes())


def test_a_top_bit_is_out_of_range() -> None:
    for field, word in ((FIELD63, 1 << 63), (FIELD61, 1 << 61), (FIELD61, 2**61 - 1)):
        with pytest.raises(ValueError, match="out of range"):
            FieldArray.from_bytes(field, (1,), word.to_bytes(8, "little"))


@given(st.sampled_from(FIELDS), st.binary(min_size=16, max_size=16))
@settings(max_examples=300)
def test_random_bytes_are_either_refused_or_written_back_alike(field: Field, data: bytes) -> None:
    shape = (16 // field.word_bytes,)
    try:
        array = FieldArray.from_bytes(field, shape, data)
    except ValueError:
        return
    assert array.to_bytes() == data


def test_an_array_from_bytes_owns_its_words() -> None:
    data = bytearray(FIELD63.zeros((2,)).to_bytes())
    array = FieldArray.from_bytes(FIELD63, (2,), bytes(data))
    array += FIELD63.encode(np.array([1, 2]))
    assert array.decode().tolist() == [1, 2]
