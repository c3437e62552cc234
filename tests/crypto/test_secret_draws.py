"""Whatever hides something is drawn: no key, mask, order or dummy is the same twice, and no bit of one stands still.

Masks come off and keys agree whatever they are, so a test of results passes also if they are constant. A uniform bit is
the same in all of 64 draws once in 2⁶³ times.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from colonnade.crypto.curve import POINT_BYTES, BlindedSet, Blinding, hash_to_curve
from colonnade.crypto.paillier import Ciphertexts, Encryptor, PrivateKey, rerandomised
from colonnade.crypto.paillier_vectors import BoundedMask, UniformMask
from colonnade.crypto.sealing import AgreementKey, SigningKey
from colonnade.randomness import Randomness, SeededRandomness

DRAWS = 64
PEER = AgreementKey.generate(SeededRandomness("peer"))
POINT = hash_to_curve([b"ada"], domain=b"coins")


@cache
def key() -> PrivateKey:
    return PrivateKey.generate_for_tests(SeededRandomness("key"), 256)


def prime(draws: Randomness) -> bytes:
    """A prime of 64 bits without the two first and the two last, which are always set."""
    return (PrivateKey.generate_for_tests(draws, 128).p >> 2 & (1 << 60) - 1).to_bytes(8, "little")


UNIFORM: dict[str, tuple[int, Callable[[Randomness], bytes]]] = {
    "a signing key": (256, lambda draws: SigningKey.generate(draws).secret),
    "an agreed secret": (256, lambda draws: AgreementKey.generate(draws).agree(PEER.public, context=b"run")),
    "a blinded point": (255, lambda draws: Blinding.draw(draws).multiply(POINT)),
    "a prime": (60, prime),
    "a uniform mask": (64, lambda draws: UniformMask(1 << 64).draw(1, draws)[0].to_bytes(8, "little")),
    "a bounded mask": (60, lambda draws: BoundedMask(20, 40).draw(1, draws)[0].to_bytes(8, "little")),
}


@pytest.mark.parametrize(("bits", "drawn"), UNIFORM.values(), ids=UNIFORM)
def test_no_bit_of_a_secret_stands_still(bits: int, drawn: Callable[[Randomness], bytes]) -> None:
    seen = [int.from_bytes(drawn(SeededRandomness(f"coins {number}")), "little") for number in range(DRAWS)]
    whole = (1 << bits) - 1
    ever, always = 0, whole
    for value in seen:
        ever, always = ever | value, always & value
    assert ever == whole and always == 0
    assert len(set(seen)) == DRAWS


def test_one_source_never_gives_the_same_secret_twice() -> None:
    for bits, drawn in UNIFORM.values():
        draws = SeededRandomness("one source")
        assert len({drawn(draws) for _ in range(DRAWS)}) == DRAWS, bits


def test_every_mask_of_one_call_is_another() -> None:
    for mask in (UniformMask(1 << 64), BoundedMask(20, 40)):
        drawn = mask.draw(DRAWS, SeededRandomness("many"))
        assert len(set(drawn)) == DRAWS


def test_equal_ciphertexts_lose_every_trace_of_each_other() -> None:
    one = Encryptor.for_key(key().public, SeededRandomness("encryptor")).encrypt([7]).values[0]
    again = rerandomised(Ciphertexts(key().public, (one,) * DRAWS), SeededRandomness("again")).values
    assert len({one, *again}) == DRAWS + 1
    # A plaintext does not change what is left of a ciphertext modulo N: its random part, which is fresh.
    assert len({value % key().public.modulus for value in (one, *again)}) == DRAWS + 1


def test_encryptors_of_one_key_have_bases_of_their_own() -> None:
    class Ones:
        """Exponents that are all the same, after a base that was drawn."""

        reproducible = True

        def bytes(self, count: int) -> bytes:
            return b"\1" * count

        def words(self, count: int) -> np.typing.NDArray[np.uint64]:
            return np.ones(count, dtype=np.uint64)

    seen = set()
    for number in range(8):
        made = Encryptor.for_key(key().public, SeededRandomness(f"base {number}"))
        seen.add(Encryptor(made.key, made.tables, Ones()).encrypt([7]).values)
    assert len(seen) == 8


def blinded(draws: Randomness, *, padded: int) -> tuple[BlindedSet, list[bytes]]:
    mine = BlindedSet.prepare([b"ada", b"grace"], domain=b"coins", randomness=draws, padded=padded)
    whole = b"".join(mine.blinded_blocks())
    return mine, [whole[start : start + POINT_BYTES] for start in range(0, len(whole), POINT_BYTES)]


def test_dummies_differ_from_each_other_and_from_those_of_another_run() -> None:
    first, points = blinded(SeededRandomness("first"), padded=DRAWS)
    assert len(set(points)) == DRAWS
    second = BlindedSet(first.ids, first.domain, first.order, first.blinding, SeededRandomness("second"))
    again = b"".join(second.blinded_blocks())
    same = {again[start : start + POINT_BYTES] for start in range(0, len(again), POINT_BYTES)} & set(points)
    assert len(same) == 2, "the two people, under one scalar, and none of the dummies"


def test_the_order_in_which_points_are_shown_is_drawn() -> None:
    orders = {
        blinded(SeededRandomness(f"order {number}"), padded=6)[0].order.tobytes() for number in range(DRAWS)
    }
    assert len(orders) > DRAWS // 2
    first = {int(np.frombuffer(order, dtype=np.int64)[0]) for order in orders}
    assert first == set(range(6)), "anybody may come first"


def test_two_runs_show_nothing_in_common() -> None:
    (_, first), (_, second) = (blinded(SeededRandomness(name), padded=4) for name in ("one", "two"))
    assert not set(first) & set(second)
