"""Pairwise masks: sums are exact, parts are uniform, and the published integer masks are not."""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.crypto.masks import BLOCK_BYTES, MaskReused, MaskStreams, SumRing
from colonnade.crypto.sealing import AgreementKey, InvalidPublicKey
from colonnade.randomness import SystemRandomness

FALSE_ALARM = 1e-9
RANDOMNESS = SystemRandomness()


def federation(parties: int, context: bytes = b"run") -> list[MaskStreams]:
    names = [f"party{number}" for number in range(parties)]
    keys = {name: AgreementKey.generate(RANDOMNESS) for name in names}
    places = {name: number for number, name in enumerate(names)}
    return [
        MaskStreams(
            name,
            places,
            {peer: keys[name].agree(keys[peer].public, context=context) for peer in names if peer != name},
        )
        for name in names
    ]


def masked(
    streams: Sequence[MaskStreams], values: Sequence[np.ndarray], ring: SumRing, step: str = "sum"
) -> list[Any]:
    return [stream.masked(value, ring, step=step) for stream, value in zip(streams, values, strict=True)]


@given(st.integers(2, 6), st.integers(1, 2**60), st.integers(0, 40), st.data())
@settings(max_examples=30, deadline=None)
def test_sums_are_exact(parties: int, largest: int, length: int, data: st.DataObject) -> None:
    ring = SumRing(parties, largest)
    entries = st.one_of(st.just(largest), st.just(0), st.integers(0, largest))
    rows = [data.draw(st.lists(entries, min_size=length, max_size=length)) for _ in range(parties)]
    sent = masked(federation(parties), [np.array(row, dtype=np.int64) for row in rows], ring)
    assert ring.total(sent).tolist() == [sum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("largest", [3, 1000, 10**6, 10**12])
def test_sums_are_exact_across_blocks_in_every_word_size(largest: int) -> None:
    ring = SumRing(3, largest)
    length = 2 * BLOCK_BYTES // ring.dtype.itemsize + 5
    values = [np.random.default_rng(place).integers(0, largest + 1, length) for place in range(3)]
    assert np.array_equal(ring.total(masked(federation(3), values, ring)), sum(values))


@given(st.integers(2, 1000), st.integers(1, 2**50))
def test_the_ring_holds_the_largest_sum_and_no_bit_more(parties: int, largest: int) -> None:
    ring = SumRing(parties, largest)
    assert 1 << (ring.bits - 1) <= parties * largest < 1 << ring.bits
    assert ring.bits <= 8 * ring.dtype.itemsize


def uniform_p_value(words: np.ndarray, bits: int) -> float:
    cells = min(bits, 8)
    return float(stats.chisquare(np.bincount(words >> (bits - cells), minlength=1 << cells)).pvalue)


@pytest.mark.parametrize("largest", [5, 300, 10**7])
def test_what_one_party_sends_is_uniform_whatever_its_values(largest: int) -> None:
    ring = SumRing(3, largest)
    for value in (0, largest):
        for stream in federation(3):
            words = stream.masked(np.full(100_000, value), ring, step="sum")
            assert int(words.max()) < 1 << ring.bits
            assert uniform_p_value(words, ring.bits) > FALSE_ALARM


def test_two_of_three_vectors_are_jointly_uniform_and_integer_masks_would_be_noticed() -> None:
    """Only the sum of all three says anything: the pair of two parties' words covers all pairs evenly."""
    ring = SumRing(3, 5)
    first, second, _ = masked(federation(3), [np.full(200_000, 5)] * 3, ring)
    pairs = first.astype(int) * (1 << ring.bits) + second
    assert stats.chisquare(np.bincount(pairs, minlength=1 << (2 * ring.bits))).pvalue > FALSE_ALARM
    rng = np.random.default_rng(0)
    integer_masked = (5 + rng.integers(0, 5, 100_000) - rng.integers(0, 5, 100_000)) % (1 << ring.bits)
    assert uniform_p_value(integer_masked, ring.bits) < FALSE_ALARM
    slightly_off = np.where(rng.random(100_000) < 0.05, 0, rng.integers(0, 1 << ring.bits, 100_000))
    assert uniform_p_value(slightly_off, ring.bits) < FALSE_ALARM


# The sum protocol as PBM-VFL describes it: masks u uniform in [0, b), y = q + u − u′ over the integers.


def test_a_distinguisher_reads_integer_masks_and_is_blind_to_ours() -> None:
    """Guess q = 0 if y ≤ 0. Over the integers it is right far more often than not; modulo 2^k it is a coin."""
    base, draws = 16, 20_000
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, draws) * base
    seen = secret + rng.integers(0, base, draws) - rng.integers(0, base, draws)
    assert np.mean((seen > base // 2) == (secret > 0)) > 0.8
    ring = SumRing(2, base)
    ours = federation(2)[0].masked(secret, ring, step="sum").astype(int)
    right = int(np.sum((ours > base // 2) == (secret > 0)))
    # Conditioned on either secret the guess "large" has the same probability, so its agreement with the secret
    # differs between the secrets only by chance.
    large = [int(np.sum(ours[secret == value] > base // 2)) for value in (0, base)]
    sizes = [int(np.sum(secret == value)) for value in (0, base)]
    table = [[count, size - count] for count, size in zip(large, sizes, strict=True)]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    assert right < 0.7 * draws


def test_a_step_is_masked_once_and_a_refused_vector_uses_it_up() -> None:
    stream, ring = federation(2)[0], SumRing(2, 9)
    stream.masked(np.array([1]), ring, step="sum")
    with pytest.raises(MaskReused, match="already masked step 'sum'"):
        stream.masked(np.array([2]), ring, step="sum")
    # Otherwise two vectors could leave under one mask.
    stream, ring = federation(2)[0], SumRing(2, 9)
    with pytest.raises(ValueError, match="outside"):
        stream.masked(np.array([10]), ring, step="sum")
    with pytest.raises(MaskReused):
        stream.masked(np.array([1]), ring, step="sum")


def test_a_reused_mask_would_show_the_difference_of_two_vectors() -> None:
    """Why a step is masked once: two objects with the same key and step stand for the forbidden second use."""
    key, places, ring = bytes(range(32)), {"a": 0, "b": 1}, SumRing(2, 100)
    first, second = (
        MaskStreams("a", places, {"b": key}).masked(np.array([value]), ring, step="sum").astype(int)
        for value in (70, 30)
    )
    assert (first - second) % (1 << ring.bits) == 40


def test_steps_runs_contexts_and_pairs_have_masks_and_keys_of_their_own() -> None:
    ring, zeros = SumRing(2, 2**30), np.zeros(64, dtype=np.int64)
    mine, theirs = AgreementKey.generate(RANDOMNESS), AgreementKey.generate(RANDOMNESS)
    seen = [
        MaskStreams("a", {"a": 0, "b": 1}, {"b": mine.agree(theirs.public, context=run)})
        .masked(zeros, ring, step=step)
        .tobytes()
        for run in (b"run 1", b"run 2")
        for step in ("1", "2")
    ]
    assert len(set(seen)) == 4
    keys = [AgreementKey.generate(RANDOMNESS) for _ in range(3)]
    derived = {
        keys[i].agree(keys[j].public, context=context)
        for i, j in ((0, 1), (0, 2), (1, 2))
        for context in (b"", b"run 1", b"run 2")
    }
    assert len(derived) == 9


@pytest.mark.parametrize("bad", [np.array([-1]), np.array([10]), np.array([2**63 - 1]), np.array([0.5])])
def test_values_outside_the_declared_range_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"outside|integers"):
        federation(2)[0].masked(bad, SumRing(2, 9), step="sum")


def test_sums_without_every_party_and_rings_that_cannot_work_are_refused() -> None:
    ring = SumRing(3, 9)
    sent = masked(federation(3), [np.array([1])] * 3, ring)
    with pytest.raises(ValueError, match="needs as many"):
        ring.total(sent[:2])
    with pytest.raises(ValueError, match="two parties"):
        SumRing(1, 5)
    with pytest.raises(ValueError, match="64 is the most"):
        SumRing(2, 2**64)
    with pytest.raises(ValueError, match="needs a key with each"):
        MaskStreams("a", {"a": 0, "b": 1, "c": 2}, {"b": bytes(32)})
    with pytest.raises(ValueError, match="same place"):
        MaskStreams("a", {"a": 0, "b": 0}, {"b": bytes(32)})
    with pytest.raises(ValueError, match="ring for 3"):
        federation(2)[0].masked(np.array([1]), SumRing(3, 5), step="sum")


# Key agreement: the vector of RFC 7748, section 6.1, and HKDF-SHA256 of RFC 5869 written out with hmac.

ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


class Fixed:
    """Hands out given bytes."""

    reproducible = True

    def __init__(self, data: bytes) -> None:
        self.data = data

    def bytes(self, count: int) -> bytes:
        return self.data[:count]

    def words(self, count: int) -> np.ndarray:
        return np.frombuffer(self.data[: 8 * count], dtype=np.uint64)


def hkdf(secret: bytes, info: bytes) -> bytes:
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def test_the_agreed_key_is_hkdf_of_the_rfc_7748_secret() -> None:
    alice, bob = AgreementKey.generate(Fixed(ALICE)), AgreementKey.generate(Fixed(BOB))
    assert (alice.public, bob.public) == (ALICE_PUBLIC, BOB_PUBLIC)
    info = b"colonnade key agreement 1" + ALICE_PUBLIC + BOB_PUBLIC + (5).to_bytes(8, "little") + b"run 7"
    assert alice.agree(BOB_PUBLIC, context=b"run 7") == hkdf(SHARED, info)
    assert bob.agree(ALICE_PUBLIC, context=b"run 7") == hkdf(SHARED, info)


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), bytes(32), b"\x01" + bytes(31)])
def test_public_keys_that_are_short_or_of_small_order_are_refused(bad: bytes) -> None:
    with pytest.raises(InvalidPublicKey):
        AgreementKey.generate(RANDOMNESS).agree(bad, context=b"")


def test_a_reflected_key_is_refused_and_no_key_is_printed() -> None:
    mine = AgreementKey.generate(RANDOMNESS)
    with pytest.raises(InvalidPublicKey, match="own public key"):
        mine.agree(mine.public, context=b"")
    assert repr(AgreementKey.generate(RANDOMNESS)) == "AgreementKey(<secret>)"
