"""The integers behind Paillier: products, powers and products of powers against Python's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.crypto.modular import FixedBase, MontgomeryModulus, group_size, products_of_powers


def odd_moduli(most_bits: int = 4200) -> st.SearchStrategy[int]:
    """Odd numbers of every length, the extremes of each length included."""
    return st.integers(2, most_bits).flatmap(
        lambda bits: st.one_of(
            st.just((1 << bits) - 1), st.just((1 << bits) + 1), st.integers(1 << (bits - 1), (1 << bits) - 1)
        ).map(lambda value: value | 1)
    )


@given(odd_moduli(), st.data())
@settings(max_examples=60, deadline=None)
def test_entering_and_leaving_is_the_identity(modulus: int, data: st.DataObject) -> None:
    ring = MontgomeryModulus(modulus)
    values = [0, 1, modulus - 1, *data.draw(st.lists(st.integers(0, modulus - 1), max_size=4))]
    assert ring.leave(ring.enter(values)) == values


@given(odd_moduli(), st.data())
@settings(max_examples=60, deadline=None)
def test_products_are_pythons_products(modulus: int, data: st.DataObject) -> None:
    ring = MontgomeryModulus(modulus)
    residues = st.one_of(st.just(modulus - 1), st.integers(0, modulus - 1))
    pairs = data.draw(st.lists(st.tuples(residues, residues), min_size=1, max_size=9))
    left, right = ring.enter([a for a, _ in pairs]), ring.enter([b for _, b in pairs])
    assert ring.leave(ring.multiply(left, right)) == [a * b % modulus for a, b in pairs]


def test_the_longest_modulus_survives_its_largest_products() -> None:
    modulus = (1 << 6144) - 1
    ring = MontgomeryModulus(modulus)
    value = ring.enter([modulus - 1] * 4)
    for _ in range(5):
        value = ring.multiply(value, value)
    assert ring.leave(value) == [1] * 4


def test_a_modulus_that_could_overflow_the_accumulators_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        MontgomeryModulus((1 << 7000) - 1)
    with pytest.raises(ValueError, match="odd"):
        MontgomeryModulus(10)


@given(odd_moduli(700), st.data())
@settings(max_examples=25, deadline=None)
def test_fixed_base_powers_are_pythons_powers(modulus: int, data: st.DataObject) -> None:
    base = data.draw(st.integers(0, modulus - 1))
    exponents = data.draw(st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=6))
    table = FixedBase.prepare(MontgomeryModulus(modulus), base, exponent_bytes=3)
    found = table.powers(np.frombuffer(b"".join(exponents), dtype=np.uint8).reshape(-1, 3))
    assert found == [pow(base, int.from_bytes(exponent, "little"), modulus) for exponent in exponents]


@given(st.integers(1, 23), st.integers(1, 5), st.integers(2, 64), st.data())
@settings(max_examples=40, deadline=None)
def test_products_of_powers_are_pythons(rows: int, columns: int, bits: int, data: st.DataObject) -> None:
    modulus = (1 << 521) - 1
    limit = 1 << (bits - 1)
    bases = data.draw(st.lists(st.integers(1, modulus - 1), min_size=rows, max_size=rows))
    entries = st.one_of(st.sampled_from([-limit, limit - 1, 0, -1]), st.integers(-limit, limit - 1))
    matrix = data.draw(
        st.lists(st.lists(entries, min_size=columns, max_size=columns), min_size=rows, max_size=rows)
    )
    expected = []
    for column in range(columns):
        product = 1
        for base, row in zip(bases, matrix, strict=True):
            product = product * pow(base, row[column], modulus) % modulus
        expected.append(product)
    assert (
        products_of_powers(MontgomeryModulus(modulus), bases, np.array(matrix, dtype=np.int64), bits=bits)
        == expected
    )


def test_an_exponent_outside_the_agreed_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        products_of_powers(MontgomeryModulus(101), [3], np.array([[8]]), bits=4)
    with pytest.raises(ValueError, match="cannot meet"):
        products_of_powers(MontgomeryModulus(101), [3], np.array([[1], [1]]), bits=4)


@given(st.integers(1, 100_000))
def test_the_group_size_is_the_cheapest(outputs: int) -> None:
    chosen = group_size(outputs)
    assert all(((1 << chosen) + outputs) / chosen <= ((1 << size) + outputs) / size for size in range(1, 11))
