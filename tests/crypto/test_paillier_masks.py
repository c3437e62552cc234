"""Masks on plaintexts, and the active attack they and the size bound are there for."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paillier_widths import product_width
from scipy import stats

from colonnade.crypto.paillier import Ciphertexts, Encryptor, InvalidCiphertext, PrivateKey, decrypt_any_size
from colonnade.crypto.paillier_vectors import BoundedMask, Fields, UniformMask, masked, packed, times_matrix
from colonnade.randomness import SystemRandomness

FALSE_ALARM = 1e-9
RANDOMNESS = SystemRandomness()
FRACTION_BITS = 12
SAMPLES, FEATURES = 24, 3


@functools.cache
def owner() -> PrivateKey:
    return PrivateKey.generate_for_tests(RANDOMNESS, 1024)


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
        BoundedMask(value_bits=1000).check_room(owner().public)
    with pytest.raises(ValueError, match="does not have 8 bits"):
        BoundedMask(value_bits=8).unmask([256], [0])


def test_an_honest_product_comes_back_through_the_bound() -> None:
    scalars, features, _ = secrets()
    fields = Fields(product_width(fraction_bits=FRACTION_BITS, terms=SAMPLES), FEATURES)
    mask = BoundedMask(value_bits=fields.bits)
    product = times_matrix(encrypted(scalars), features, bits=FRACTION_BITS + 2)
    drawn = mask.draw(1, RANDOMNESS)
    answers = mask.answer(owner(), masked(packed(product, fields), drawn, RANDOMNESS))
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


def encrypted(scalars: np.ndarray) -> Ciphertexts:
    return Encryptor.for_owner(owner(), RANDOMNESS).encrypt(scalars.tolist())


def attacking_ciphertexts() -> tuple[Ciphertexts, np.ndarray, Fields]:
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
    mask = UniformMask(owner().public.modulus)
    drawn = mask.draw(FEATURES, RANDOMNESS)
    answers = decrypt_any_size(owner(), masked(ciphertexts, drawn, RANDOMNESS))
    sums = [value for plaintext in mask.unmask(answers, drawn) for value in fields.unpack(plaintext)]
    recovered = np.linalg.solve(everything.T.astype(float), np.array(sums, dtype=float))
    assert np.array_equal(np.rint(recovered), secrets()[0])
    ciphertexts, _, fields = attacking_ciphertexts()
    bounded = BoundedMask(value_bits=fields.width)
    with pytest.raises(InvalidCiphertext, match="more than was agreed"):
        bounded.answer(owner(), masked(ciphertexts, bounded.draw(FEATURES, RANDOMNESS), RANDOMNESS))


def test_an_attacker_that_forgoes_its_mask_still_gets_one_field_a_ciphertext() -> None:
    """Two fields fit under the bound where the mask would have been; the answer has room for one."""
    scalars, features, synthetic = secrets()
    width = product_width(fraction_bits=FRACTION_BITS, terms=SAMPLES)
    fields, mask = Fields(width, 2), BoundedMask(value_bits=width)
    both = np.hstack([features[:, :1], synthetic[:, :1]])
    together = packed(times_matrix(encrypted(scalars), both, bits=FRACTION_BITS + 2), fields)
    shifted = masked(together, [1 << (2 * width)], RANDOMNESS)
    (answer,) = mask.answer(owner(), shifted)
    assert answer < 1 << width
    assert mask.unmask([answer], [0]) == (int(scalars @ features[:, 0]),)
