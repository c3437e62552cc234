"""Paillier: encryption, validation, packing, and masks on plaintexts with the active attack that they stop."""

import functools
import math
from collections.abc import Callable
from typing import Any

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paillier_widths import product_width
from scipy import stats

from colonnade.crypto import paillier
from colonnade.crypto.modular import FixedBase, MontgomeryModulus, group_size, products_of_powers
from colonnade.crypto.paillier_vectors import (
    BoundedMask,
    Fields,
    UniformMask,
    added,
    from_fixed,
    masked,
    packed,
    times_matrix,
    to_fixed,
)
from colonnade.randomness import SeededRandomness, SystemRandomness, below

FALSE_ALARM = 1e-9
RANDOMNESS = SystemRandomness()


BITS = 512


@functools.cache
def _key(bits: int) -> paillier.PrivateKey:
    return paillier.PrivateKey.generate_for_tests(RANDOMNESS, bits)


def key(bits: int = BITS) -> paillier.PrivateKey:
    return _key(bits)


@functools.cache
def _encryptors(bits: int) -> tuple[paillier.Encryptor, paillier.Encryptor]:
    return paillier.Encryptor.for_key(key(bits).public, RANDOMNESS), paillier.Encryptor.for_owner(
        key(bits), RANDOMNESS
    )


def encryptors(bits: int = BITS) -> tuple[paillier.Encryptor, paillier.Encryptor]:
    return _encryptors(bits)


def plaintexts() -> st.SearchStrategy[int]:
    half = key().public.modulus // 2
    return st.one_of(st.integers(-half, half), st.integers(-100, 100), st.sampled_from([half, -half]))


@given(st.lists(plaintexts(), max_size=7), st.booleans())
@settings(max_examples=20, deadline=None)
def test_decrypting_undoes_encrypting(values: list[int], owner: bool) -> None:
    encryptor = encryptors()[owner]
    assert paillier.decrypt_any_size(key(), encryptor.encrypt(values)) == tuple(values)


@given(st.lists(st.tuples(plaintexts(), plaintexts()), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_multiplying_ciphertexts_adds_plaintexts(pairs: list[tuple[int, int]]) -> None:
    anyone, owner = encryptors()
    both = added(anyone.encrypt([a for a, _ in pairs]), owner.encrypt([b for _, b in pairs]))
    modulus = key().public.modulus
    assert [value % modulus for value in paillier.decrypt_any_size(key(), both)] == [
        (a + b) % modulus for a, b in pairs
    ]


def test_the_textbook_formula_reads_our_ciphertexts_and_we_read_its() -> None:
    """Paillier's own decryption, L(c^λ)/λ modulo N, written out independently of the CRT one."""
    private = key(256)
    modulus, order = private.public.modulus, (private.p - 1) * (private.q - 1)
    for encryptor in encryptors(256):
        ciphertext = encryptor.encrypt([123456789]).values[0]
        logarithm = (pow(ciphertext, order, modulus * modulus) - 1) // modulus
        assert logarithm * pow(order, -1, modulus) % modulus == 123456789
    modulus = private.public.modulus
    ciphertext = (1 + 42 * modulus) * pow(987654321, modulus, modulus * modulus) % modulus**2
    assert paillier.decrypt(
        private, paillier.Ciphertexts.checked(private.public, [ciphertext]), at_most=100
    ) == (42,)


def test_no_ciphertext_comes_twice_and_rerandomising_keeps_the_plaintext() -> None:
    for encryptor in encryptors():
        assert len(set(encryptor.encrypt([7] * 50).values)) == 50
    anyone, _ = encryptors()
    before = anyone.encrypt([5, -6, 0])
    after = paillier.rerandomised(before, RANDOMNESS)
    assert paillier.decrypt(key(), after, at_most=6) == (5, -6, 0)
    assert not set(before.values) & set(after.values)
    sent = anyone.encrypt([1, 2, 3])
    assert paillier.Ciphertexts.from_bytes(key().public, sent.to_bytes(), count=3) == sent


def test_randomisers_are_n_th_powers_of_jacobi_symbol_one_and_spread_evenly() -> None:
    """On a tiny key the random part must reach the whole subgroup of N-th powers of Jacobi symbol 1, evenly."""
    private = paillier.PrivateKey(SmallKey(23 * 31), 23, 31)
    group = sorted({pow(x, private.public.modulus, private.public.modulus_squared) for x in units(23 * 31)})
    half = [x for x in group if jacobi(x % 713, 23, 31) == 1]
    anyone = paillier.Encryptor.for_key(private.public, SeededRandomness("even spread"))
    while len({pow(base_of(anyone), i, 713**2) for i in range(1000)}) < len(half):
        anyone = paillier.Encryptor.for_key(private.public, RANDOMNESS)
    found = [anyone.encrypt([0] * 400).values for _ in range(10)]
    counts = dict.fromkeys(half, 0)
    for values in found:
        for value in values:
            counts[value] += 1
    # r has 40 bits here against a group of 330, so its reduction is uniform to 2^-31.
    assert stats.chisquare(list(counts.values())).pvalue > FALSE_ALARM
    skewed = [count + (40 if place < 10 else 0) for place, count in enumerate(counts.values())]
    assert stats.chisquare(skewed).pvalue < FALSE_ALARM


@pytest.mark.parametrize("start", [1, pow(5, 713, 713**2), 2])
def test_a_rerandomised_ciphertext_is_uniform_whatever_it_was(start: int) -> None:
    """On a tiny key, every ciphertext of the same plaintext is equally likely, Jacobi symbol and all."""
    private = paillier.PrivateKey(SmallKey(23 * 31), 23, 31)
    before = paillier.Ciphertexts(private.public, (start,) * 20_000)
    after = paillier.rerandomised(before, RANDOMNESS)
    (plaintext,) = set(paillier.decrypt_any_size(private, after))
    powers = {pow(x, 713, 713**2) for x in units(713)}
    counts = dict.fromkeys(sorted((1 + plaintext * 713) * power % 713**2 for power in powers), 0)
    for value in after.values:
        counts[value] += 1
    assert len(counts) == 22 * 30
    assert stats.chisquare(list(counts.values())).pvalue > FALSE_ALARM
    # Powers of one base reach half of them at most: this test would notice.
    half = [2 * count if place % 2 else 0 for place, count in enumerate(counts.values())]
    assert stats.chisquare(half, np.full(660, sum(half) / 660)).pvalue < FALSE_ALARM


class SmallKey(paillier.PublicKey):
    """Small enough to list its whole group."""

    least_bits = 4

    @property
    def exponent_bytes(self) -> int:
        return 5


def units(modulus: int) -> list[int]:
    return [x for x in range(1, modulus) if np.gcd(x, modulus) == 1]


def jacobi(x: int, p: int, q: int) -> int:
    return (1 if pow(x, (p - 1) // 2, p) == 1 else -1) * (1 if pow(x, (q - 1) // 2, q) == 1 else -1)


def base_of(encryptor: paillier.Encryptor) -> int:
    table = encryptor.tables[0]
    return table.powers(np.array([[1, 0, 0, 0, 0]], dtype=np.uint8))[0]


def test_keys_below_2048_bits_are_refused_except_by_name() -> None:
    with pytest.raises(ValueError, match="2048 or 3072"):
        paillier.PrivateKey.generate(RANDOMNESS, 1024)
    with pytest.raises(ValueError, match="at least 2048"):
        paillier.PublicKey(key().public.modulus)


def test_a_real_key_has_the_promised_shape_and_works() -> None:
    private = paillier.PrivateKey.generate(RANDOMNESS)
    assert private.public.bits == 2048
    assert private.p % 4 == private.q % 4 == 3
    assert np.gcd.reduce(np.array([private.p - 1, private.q - 1], dtype=object)) == 2
    assert "<2048 bits>" in repr(private) and str(private.p) not in repr(private)
    encryptor = paillier.Encryptor.for_owner(private, RANDOMNESS)
    assert paillier.decrypt(private, encryptor.encrypt([1, -1]), at_most=1) == (1, -1)


@pytest.mark.parametrize(
    "modulus", [(1 << 2047) + 3, ((1 << 1024) + 5) ** 2, (1 << 2203) - 1, (1 << 2048) + 1 << 2]
)
def test_a_public_key_that_cannot_be_one_is_refused(modulus: int) -> None:
    with pytest.raises(ValueError, match="not a product"):
        paillier.PublicKey(modulus)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (lambda k: 0, "outside"),
        (lambda k: k.public.modulus_squared, "outside"),
        (lambda k: -1, "outside"),
        (lambda k: k.p, "factor"),
        (lambda k: k.public.modulus, "factor"),
        (lambda k: k.q * 12345, "factor"),
    ],
)
def test_what_is_no_ciphertext_is_refused_by_place(bad: Callable[..., Any], why: str) -> None:
    good = encryptors()[0].encrypt([1]).values[0]
    with pytest.raises(paillier.InvalidCiphertext, match=f"ciphertext 1 of 3.*{why}"):
        paillier.Ciphertexts.checked(key().public, [good, bad(key()), good])


@given(st.binary(max_size=600))
@settings(max_examples=200, deadline=None)
def test_bytes_of_the_wrong_length_are_refused(data: bytes) -> None:
    if len(data) != 2 * key().public.ciphertext_bytes:
        with pytest.raises(paillier.InvalidCiphertext, match="2 ciphertexts take"):
            paillier.Ciphertexts.from_bytes(key().public, data, count=2)


def test_decrypting_refuses_what_is_larger_than_agreed_and_other_keys() -> None:
    ciphertexts = encryptors()[0].encrypt([100, -101])
    assert paillier.decrypt(key(), ciphertexts, at_most=101) == (100, -101)
    with pytest.raises(paillier.InvalidCiphertext, match="plaintext 1 of 2"):
        paillier.decrypt(key(), ciphertexts, at_most=100)
    other = paillier.PrivateKey.generate_for_tests(RANDOMNESS, 256)
    foreign = paillier.Encryptor.for_key(other.public, RANDOMNESS).encrypt([1])
    with pytest.raises(ValueError, match="another key"):
        paillier.decrypt_any_size(key(), foreign)
    with pytest.raises(ValueError, match="two keys"):
        added(encryptors()[0].encrypt([1]), foreign)


@given(st.integers(2, 90), st.integers(1, 20), st.data())
def test_unpacking_undoes_packing_up_to_the_last_value_that_fits(
    width: int, count: int, data: st.DataObject
) -> None:
    fields = Fields(width, count)
    extremes = st.sampled_from([fields.limit - 1, 1 - fields.limit, 0, -1])
    values = data.draw(
        st.lists(
            st.one_of(extremes, st.integers(1 - fields.limit, fields.limit - 1)),
            min_size=count,
            max_size=count,
        )
    )
    packed_number = fields.pack(values)
    assert fields.unpack(packed_number) == tuple(values)
    assert abs(packed_number) < 1 << (fields.bits - 1)


def test_a_field_one_too_large_corrupts_its_neighbour_and_too_many_are_refused() -> None:
    fields = Fields(8, 2)
    assert fields.unpack(128 + (5 << 8)) == (-128, 6)
    # 75 and 139 bits hold a product of two numbers of 32 or 64 fraction bits, which one factor's width does not.
    assert (Fields.most(75, 2048), Fields.most(139, 2048)) == (27, 14)
    with pytest.raises(ValueError, match="does not fit"):
        fields.pack([128, 5])
    with pytest.raises(ValueError, match="above"):
        fields.unpack(1 << 20)
    with pytest.raises(ValueError, match="do not fit"):
        packed(encryptors()[0].encrypt([1] * 20), Fields(75, 20))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.integers(0, 30))
def test_fixed_point_is_within_half_a_step(values: list[float], fraction_bits: int) -> None:
    found = from_fixed(to_fixed(np.array(values), fraction_bits).tolist(), fraction_bits)
    assert np.all(np.abs(found - values) <= 2.0 ** -(fraction_bits + 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_numbers_that_have_no_fixed_point_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="fraction bits"):
        to_fixed(np.array([bad]), 16)


def test_a_packed_masked_product_is_the_integer_product() -> None:
    rng = np.random.default_rng(1)
    scalars, matrix = rng.integers(-(2**16), 2**16, 40), rng.integers(-(2**16), 2**16, (40, 10))
    _, owner = encryptors()
    fields = Fields(product_width(fraction_bits=16, terms=40), 10)
    product = times_matrix(owner.encrypt(scalars.tolist()), matrix, bits=18)
    together = masked(packed(product, fields), [12345], RANDOMNESS)
    (plaintext,) = paillier.decrypt(key(), together, at_most=1 << fields.bits)
    assert fields.unpack(plaintext - 12345) == tuple((scalars @ matrix).tolist())


# Proofs that a Paillier modulus is one.


def test_a_proof_holds_for_its_own_key_and_context_only() -> None:
    proof = paillier.prove_key(key(), context=b"run 1")
    paillier.check_key_proof(key().public, proof, context=b"run 1")
    with pytest.raises(paillier.InvalidKeyProof, match="root 0"):
        paillier.check_key_proof(key().public, proof, context=b"run 2")
    other = paillier.PrivateKey.generate_for_tests(RANDOMNESS, 512)
    with pytest.raises(paillier.InvalidKeyProof):
        paillier.check_key_proof(key().public, paillier.prove_key(other, context=b""), context=b"")


@pytest.mark.parametrize("place", range(paillier.ROOTS))
def test_every_root_is_checked(place: int) -> None:
    proof = bytearray(paillier.prove_key(key(), context=b""))
    proof[place * 64] ^= 1
    with pytest.raises(paillier.InvalidKeyProof, match=f"root {place} "):
        paillier.check_key_proof(key().public, bytes(proof), context=b"")


@pytest.mark.parametrize("proof", [b"", bytes(paillier.ROOTS * 64 - 1), bytes(paillier.ROOTS * 64)])
def test_bytes_that_are_no_proof_are_refused(proof: bytes) -> None:
    with pytest.raises(paillier.InvalidKeyProof):
        paillier.check_key_proof(key().public, proof, context=b"")


@functools.cache
def dishonest_primes() -> tuple[int, int]:
    """p and q with p dividing q − 1, both 3 modulo 4: N-th powers modulo N are one in p."""
    while True:
        p = int(gmpy2.next_prime(below(1 << 100, RANDOMNESS) | 1 << 99))
        if p % 4 == 3:
            for k in range(1, 4000):
                q = 2 * k * p + 1
                if q % 4 == 3 and gmpy2.is_prime(q):
                    return p, q


def test_a_modulus_whose_powers_lose_something_cannot_be_proved() -> None:
    """Its owner knows the factors and tries every root it can make; a random point has none."""
    p, q = dishonest_primes()
    modulus = p * q
    public = paillier.PublicKeyForTests(modulus)
    assert math.gcd(modulus, (p - 1) * (q - 1)) == p
    width = -(-public.bits // 8)
    best = pow(modulus, -1, (p - 1) * (q - 1) // p)
    forged = b"".join(pow(7 + i, best, modulus).to_bytes(width, "little") for i in range(paillier.ROOTS))
    with pytest.raises(paillier.InvalidKeyProof):
        paillier.check_key_proof(public, forged, context=b"")


def test_why_it_matters_a_dishonest_modulus_leaves_a_trace_through_rerandomising() -> None:
    """Modulo such an N, an element of order p is no N-th power, and multiplying by u^N cannot hide its exponent."""
    p, q = dishonest_primes()
    modulus, order = p * q, (p - 1) * (q - 1)
    trace = pow(3, order // p, modulus)
    assert trace != 1
    for secret in (0, 1, 5):
        hidden = pow(trace, secret, modulus) * pow(below(modulus, RANDOMNESS), modulus, modulus) % modulus
        seen = pow(hidden, order // p, modulus)
        assert (
            next(guess for guess in range(10) if seen == pow(trace, guess * (order // p), modulus)) == secret
        )


def test_a_modulus_with_a_small_factor_is_refused() -> None:
    large = int(gmpy2.next_prime(1 << 200))
    factor = next(prime for prime in (1019, 1009) if prime * large % 4 == 1)
    small = paillier.PublicKeyForTests(factor * large)
    with pytest.raises(paillier.InvalidKeyProof, match="factor below"):
        paillier.check_key_proof(small, bytes(paillier.ROOTS * -(-small.bits // 8)), context=b"")


# The integers behind Paillier: products, powers and products of powers against Python's own.


def odd_moduli(most_bits: int = 4200) -> st.SearchStrategy[int]:
    """Odd numbers of every length, the extremes of each length included."""
    return st.integers(2, most_bits).flatmap(
        lambda bits: st.one_of(
            st.just((1 << bits) - 1), st.just((1 << bits) + 1), st.integers(1 << (bits - 1), (1 << bits) - 1)
        ).map(lambda value: value | 1)
    )


@given(odd_moduli(), st.data())
@settings(max_examples=40, deadline=None)
def test_entering_and_leaving_is_the_identity_and_products_are_pythons(
    modulus: int, data: st.DataObject
) -> None:
    ring = MontgomeryModulus(modulus)
    values = [0, 1, modulus - 1, *data.draw(st.lists(st.integers(0, modulus - 1), max_size=4))]
    assert ring.leave(ring.enter(values)) == values
    residues = st.one_of(st.just(modulus - 1), st.integers(0, modulus - 1))
    pairs = data.draw(st.lists(st.tuples(residues, residues), min_size=1, max_size=9))
    left, right = ring.enter([a for a, _ in pairs]), ring.enter([b for _, b in pairs])
    assert ring.leave(ring.multiply(left, right)) == [a * b % modulus for a, b in pairs]


def test_the_longest_modulus_survives_its_largest_products_and_longer_ones_are_refused() -> None:
    modulus = (1 << 6144) - 1
    ring = MontgomeryModulus(modulus)
    value = ring.enter([modulus - 1] * 4)
    for _ in range(5):
        value = ring.multiply(value, value)
    assert ring.leave(value) == [1] * 4
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
    for shape in ((1, 2), (1, 4), (3,)):
        with pytest.raises(ValueError, match="exponents must have 3 bytes each"):
            table.powers(np.zeros(shape, dtype=np.uint8))


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


# Masks on plaintexts.


FRACTION_BITS = 12
SAMPLES, FEATURES = 24, 3


@given(st.integers(2, 200), st.data())
@settings(max_examples=50, deadline=None)
def test_a_bounded_mask_comes_off_exactly(bits: int, data: st.DataObject) -> None:
    mask = BoundedMask(value_bits=bits)
    value = data.draw(st.integers(1 - (1 << (bits - 1)), (1 << (bits - 1)) - 1))
    (drawn,) = mask.draw(1, RANDOMNESS)
    assert -(1 << (bits - 1)) <= value + drawn <= mask.bound
    assert mask.unmask([(value + drawn) % (1 << bits)], [drawn]) == (value,)


@given(st.integers(-500, 500))
def test_a_uniform_mask_comes_off_exactly(value: int) -> None:
    mask = UniformMask(1009)
    (drawn,) = mask.draw(1, RANDOMNESS)
    assert mask.unmask([(value + drawn) % 1009], [drawn]) == (value,)


def test_a_uniformly_masked_value_is_uniform_whatever_it_was() -> None:
    mask = UniformMask(101)
    for value in (0, 50):
        seen = [(value + drawn) % 101 for drawn in mask.draw(20_000, RANDOMNESS)]
        assert stats.chisquare(np.bincount(seen, minlength=101)).pvalue > FALSE_ALARM
    short = [(50 + drawn % 64) % 101 for drawn in mask.draw(20_000, RANDOMNESS)]
    assert stats.chisquare(np.bincount(short, minlength=101)).pvalue < FALSE_ALARM


def test_a_bounded_mask_leaves_a_value_hidden_to_two_to_the_minus_security() -> None:
    """Exact total variation for a small mask: |v − v'| / 2^(ℓ+λ) < 2^−λ."""
    mask = BoundedMask(value_bits=4, security=40)
    span = 1 << (mask.value_bits + mask.security)
    worst = (1 << (mask.value_bits - 1)) - (1 - (1 << (mask.value_bits - 1)))
    assert worst / span <= 2.0**-mask.security


def test_masks_with_too_little_security_or_room_and_answers_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match="λ ≥ 40"):
        BoundedMask(value_bits=10, security=32)
    with pytest.raises(ValueError, match="do not fit"):
        BoundedMask(value_bits=1000).check_room(key().public)
    with pytest.raises(ValueError, match="does not have 8 bits"):
        BoundedMask(value_bits=8).unmask([256], [0])


def test_an_honest_product_comes_back_through_the_bound() -> None:
    scalars, features, _ = secrets()
    fields = Fields(product_width(fraction_bits=FRACTION_BITS, terms=SAMPLES), FEATURES)
    mask = BoundedMask(value_bits=fields.bits)
    product = times_matrix(encrypted(scalars), features, bits=FRACTION_BITS + 2)
    drawn = mask.draw(1, RANDOMNESS)
    answers = mask.answer(key(), masked(packed(product, fields), drawn, RANDOMNESS))
    assert fields.unpack(mask.unmask(answers, drawn)[0]) == tuple((scalars @ features).tolist())


# The active attack of "Is Vertical Logistic Regression Privacy-Preserving?", section 5.2. The key's owner
# encrypts one secret scalar a sample; the asker is due one product a feature, fewer than there are samples. It
# invents further features, packs their products above the honest ones and solves for the scalars.


def secrets() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    step = 1 << FRACTION_BITS
    scalars = rng.integers(-step, step + 1, SAMPLES)
    features = rng.integers(-step, step + 1, (SAMPLES, FEATURES))
    synthetic = rng.integers(-step, step + 1, (SAMPLES, SAMPLES - FEATURES))
    return scalars, features, synthetic


def encrypted(scalars: np.ndarray) -> paillier.Ciphertexts:
    return encryptors()[1].encrypt(scalars.tolist())


def attacking_ciphertexts() -> tuple[paillier.Ciphertexts, np.ndarray, Fields]:
    scalars, features, synthetic = secrets()
    everything = np.hstack([features, synthetic])
    fields = Fields(product_width(fraction_bits=FRACTION_BITS, terms=SAMPLES), SAMPLES // FEATURES)
    return (
        packed(times_matrix(encrypted(scalars), everything, bits=FRACTION_BITS + 2), fields),
        everything,
        fields,
    )


def test_without_a_bound_the_attack_recovers_every_scalar_and_with_it_is_refused() -> None:
    ciphertexts, everything, fields = attacking_ciphertexts()
    assert len(ciphertexts) == FEATURES
    mask = UniformMask(key().public.modulus)
    drawn = mask.draw(FEATURES, RANDOMNESS)
    answers = paillier.decrypt_any_size(key(), masked(ciphertexts, drawn, RANDOMNESS))
    sums = [value for plaintext in mask.unmask(answers, drawn) for value in fields.unpack(plaintext)]
    recovered = np.linalg.solve(everything.T.astype(float), np.array(sums, dtype=float))
    assert np.array_equal(np.rint(recovered), secrets()[0])
    ciphertexts, _, fields = attacking_ciphertexts()
    bounded = BoundedMask(value_bits=fields.width)
    with pytest.raises(paillier.InvalidCiphertext, match="more than was agreed"):
        bounded.answer(key(), masked(ciphertexts, bounded.draw(FEATURES, RANDOMNESS), RANDOMNESS))


def test_an_attacker_that_forgoes_its_mask_still_gets_one_field_a_ciphertext() -> None:
    """Two fields fit under the bound where the mask would have been; the answer has room for one."""
    scalars, features, synthetic = secrets()
    width = product_width(fraction_bits=FRACTION_BITS, terms=SAMPLES)
    fields, mask = Fields(width, 2), BoundedMask(value_bits=width)
    both = np.hstack([features[:, :1], synthetic[:, :1]])
    together = packed(times_matrix(encrypted(scalars), both, bits=FRACTION_BITS + 2), fields)
    shifted = masked(together, [1 << (2 * width)], RANDOMNESS)
    (answer,) = mask.answer(key(), shifted)
    assert answer < 1 << width
    assert mask.unmask([answer], [0]) == (int(scalars @ features[:, 0]),)
