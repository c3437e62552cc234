"""Points of Curve25519: where ids land, what is refused, and that blinding commutes."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.crypto.curve import Blinding, InvalidPoint, check_points, hash_to_curve
from colonnade.randomness import SystemRandomness

FALSE_ALARM = 1e-9
RANDOMNESS = SystemRandomness()
P = 2**255 - 19
A = 486662
# RFC 9380, appendix J.4.2, suite curve25519_XMD:SHA-512_ELL2_NU_: message, x of Q before and of P after the
# cofactor is cleared.
RFC_9380_DOMAIN = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
RFC_9380 = [
    (
        b"",
        "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b",
        "1bb913f0c9daefa0b3375378ffa534bda5526c97391952a7789eb976edfe4d08",
    ),
    (
        b"abc",
        "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb",
        "7c22950b7d900fa866334262fcaea47a441a578df43b894b4625c9b450f9a026",
    ),
    (
        b"abcdef0123456789",
        None,
        "31ad08a8b0deeb2a4d8b0206ca25f567ab4e042746f792f4b7973f3ae2096c52",
    ),
]


def number(point: bytes) -> int:
    return int.from_bytes(point, "little")


def point(u: int) -> bytes:
    return u.to_bytes(32, "little")


def on_curve(u: int) -> bool:
    value = (u**3 + A * u * u + u) % P
    return pow(value, (P - 1) // 2, P) == 1


def doubled(u: int) -> int:
    """u-coordinate of 2·(u, v), from the curve equation."""
    return (u * u - 1) ** 2 * pow(4 * u * (u * u + A * u + 1), -1, P) % P


@pytest.mark.parametrize(("message", "before", "after"), RFC_9380)
def test_ids_land_where_rfc_9380_says(message: bytes, before: str | None, after: str) -> None:
    u = number(hash_to_curve([message], domain=RFC_9380_DOMAIN))
    assert before is None or f"{u:064x}" == before
    assert f"{doubled(doubled(doubled(u))):064x}" == after


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8), st.binary(min_size=1, max_size=255))
@settings(max_examples=60, deadline=None)
def test_every_id_lands_on_the_curve_and_alone_as_in_a_crowd(ids: list[bytes], domain: bytes) -> None:
    together = hash_to_curve(ids, domain=domain)
    check_points(together)
    for place, identifier in enumerate(ids):
        mine = together[32 * place : 32 * place + 32]
        assert on_curve(number(mine))
        assert mine == hash_to_curve([identifier], domain=domain)


def test_domains_separate_runs() -> None:
    assert hash_to_curve([b"ada"], domain=b"run 1") != hash_to_curve([b"ada"], domain=b"run 2")


@pytest.mark.parametrize("domain", [b"", bytes(256)])
def test_a_domain_that_rfc_9380_does_not_allow_is_refused(domain: bytes) -> None:
    with pytest.raises(ValueError, match="domain"):
        hash_to_curve([b"ada"], domain=domain)


def test_the_low_bits_of_blinded_points_are_uniform() -> None:
    blinded = Blinding.draw(RANDOMNESS).multiply(
        hash_to_curve((b"%d" % i for i in range(4000)), domain=b"uniform")
    )
    first = np.frombuffer(blinded, dtype=np.uint8).reshape(-1, 32)[:, 0] >> 2
    assert stats.chisquare(np.bincount(first, minlength=64)).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(first | (np.arange(4000) % 4 == 0), minlength=64)).pvalue < FALSE_ALARM


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_blinding_commutes(ids: list[bytes]) -> None:
    a, b = Blinding.draw(RANDOMNESS), Blinding.draw(RANDOMNESS)
    points = hash_to_curve(ids, domain=b"commute")
    assert a.multiply_received(b.multiply(points)) == b.multiply_received(a.multiply(points))


def test_blinded_points_are_valid_points() -> None:
    check_points(Blinding.draw(RANDOMNESS).multiply(hash_to_curve([b"a", b"b"], domain=b"valid")))


# u of the points of order 4 and 8 on the curve; of order 2 there is 0.
ORDER_4 = 1
ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)


def test_the_listed_points_do_have_small_order() -> None:
    assert all(doubled(u) == 1 for u in ORDER_8)
    assert doubled(ORDER_4) == 0


@pytest.mark.parametrize("u", [0, ORDER_4, *ORDER_8])
def test_points_of_small_order_are_refused(u: int) -> None:
    good = hash_to_curve([b"good"], domain=b"small")
    with pytest.raises(InvalidPoint, match=r"small order|not on the curve"):
        Blinding.draw(RANDOMNESS).multiply_received(good + point(u))


def twist_points() -> list[int]:
    found = [
        u for u in (int.from_bytes(hashlib.sha256(b"%d" % i).digest(), "little") % P for i in range(40)) if u
    ]
    return [u for u in found if not on_curve(u)]


def test_points_of_the_twist_are_refused_by_place() -> None:
    good = hash_to_curve([b"good"], domain=b"twist")
    assert len(twist_points()) > 8
    for u in (*twist_points(), P - 1):
        with pytest.raises(InvalidPoint, match="point 1 is not on the curve"):
            Blinding.draw(RANDOMNESS).multiply_received(good + point(u))


@pytest.mark.parametrize("u", [P, P + 1, P + 9, 2**255 - 1, 2**255 + 9, 2**256 - 1])
def test_points_that_are_not_canonical_are_refused(u: int) -> None:
    with pytest.raises(InvalidPoint, match="canonically"):
        check_points(point(u))


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_either_points_or_refused(data: bytes) -> None:
    valid = len(data) % 32 == 0 and all(
        0 < number(data[i : i + 32]) < P and on_curve(number(data[i : i + 32]))
        for i in range(0, len(data), 32)
    )
    if valid:
        check_points(data)
    else:
        with pytest.raises(InvalidPoint):
            check_points(data)


def test_a_scalar_is_not_printed() -> None:
    assert repr(Blinding.draw(RANDOMNESS)) == "Blinding(<secret>)"
