"""Whatever hides something is drawn: no key, mask, order or dummy is the same twice, and no bit of one stands still.

Masks come off and keys agree whatever they are, so a test of results passes also if they are constant. A uniform bit is
the same in all of 64 draws once in 2⁶³ times.
"""

from collections.abc import Callable

import pytest

from colonnade.crypto.curve import POINT_BYTES, BlindedSet, Blinding, hash_to_curve
from colonnade.crypto.paillier import PrivateKey
from colonnade.crypto.paillier_vectors import BoundedMask, UniformMask
from colonnade.crypto.sealing import AgreementKey, SigningKey
from colonnade.randomness import Randomness, SeededRandomness

DRAWS = 64
PEER = AgreementKey.generate(SeededRandomness("peer"))
POINT = hash_to_curve([b"ada"], domain=b"coins")


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


def test_neither_a_source_nor_a_call_gives_the_same_secret_twice() -> None:
    for bits, drawn in UNIFORM.values():
        draws = SeededRandomness("one source")
        assert len({drawn(draws) for _ in range(DRAWS)}) == DRAWS, bits
    for mask in (UniformMask(1 << 64), BoundedMask(20, 40)):
        assert len(set(mask.draw(DRAWS, SeededRandomness("many")))) == DRAWS


def blinded(draws: Randomness, *, padded: int) -> tuple[BlindedSet, list[bytes]]:
    mine = BlindedSet.prepare([b"ada", b"grace"], domain=b"coins", randomness=draws, padded=padded)
    whole = b"".join(mine.blinded_blocks())
    return mine, [whole[start : start + POINT_BYTES] for start in range(0, len(whole), POINT_BYTES)]


def test_dummies_and_runs_have_nothing_in_common() -> None:
    first, points = blinded(SeededRandomness("first"), padded=DRAWS)
    assert len(set(points)) == DRAWS
    second = BlindedSet(first.ids, first.domain, first.order, first.blinding, SeededRandomness("second"))
    again = b"".join(second.blinded_blocks())
    same = {again[start : start + POINT_BYTES] for start in range(0, len(again), POINT_BYTES)} & set(points)
    assert len(same) == 2, "the two people, under one scalar, and none of the dummies"
    (_, one), (_, two) = (blinded(SeededRandomness(name), padded=4) for name in ("one", "two"))
    assert not set(one) & set(two), "nor have two runs anything in common"
