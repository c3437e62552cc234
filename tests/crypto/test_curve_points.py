"""Points of Curve25519: where ids land, what is refused, and that blinding commutes."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.crypto import curve as blinded_sets
from colonnade.crypto.curve import BlindedSet, Blinding, InvalidPoint, check_points, hash_to_curve, match
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
    (b"abcdef0123456789", None, "31ad08a8b0deeb2a4d8b0206ca25f567ab4e042746f792f4b7973f3ae2096c52"),
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


def test_domains_separate_runs_scalars_are_not_printed_and_listed_points_have_small_order() -> None:
    assert hash_to_curve([b"ada"], domain=b"run 1") != hash_to_curve([b"ada"], domain=b"run 2")
    assert repr(Blinding.draw(RANDOMNESS)) == "Blinding(<secret>)"
    check_points(Blinding.draw(RANDOMNESS).multiply(hash_to_curve([b"a", b"b"], domain=b"valid")))
    assert all(doubled(u) == 1 for u in ORDER_8)
    assert doubled(ORDER_4) == 0


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


# u of the points of order 4 and 8 on the curve; of order 2 there is 0.
ORDER_4 = 1
ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)


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


# Blinded sets: the intersection, its order, and everything a dishonest list of places could try.


def intersect(
    mine: list[bytes], theirs: list[bytes], pad: tuple[int, int] | None = None
) -> tuple[list[bytes], list[bytes]]:
    """The whole exchange without a wire: what each side's rows say in the common order."""
    sizes = pad or (len(mine), len(theirs))
    asker, other = (
        BlindedSet.prepare(ids, domain=b"test", randomness=RANDOMNESS, padded=size)
        for ids, size in zip((mine, theirs), sizes, strict=True)
    )
    returned = b"".join(other.blinding.multiply_received(block) for block in asker.blinded_blocks())
    multiplied = b"".join(asker.blinding.multiply_received(block) for block in other.blinded_blocks())
    left, right = match(returned, multiplied)
    return [mine[row] for row in asker.rows(left)], [theirs[row] for row in other.rows(right)]


@given(
    st.lists(st.binary(max_size=3), unique=True, max_size=12),
    st.lists(st.binary(max_size=3), unique=True, max_size=12),
    st.integers(0, 4),
)
@settings(max_examples=40, deadline=None)
def test_both_sides_find_the_intersection_in_one_order(
    mine: list[bytes], theirs: list[bytes], pad: int
) -> None:
    left, right = intersect(mine, theirs, (len(mine) + pad, len(theirs) + 2 * pad))
    assert left == right
    assert set(left) == set(mine) & set(theirs)
    assert len(left) == len(set(left))


def test_blocks_do_not_change_the_result_and_the_order_differs_from_run_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blinded_sets, "BLOCK_POINTS", 3)
    ids = [b"%d" % i for i in range(20)]
    left, right = intersect(ids[:13], ids[5:], (17, 15))
    assert left == right and set(left) == set(ids[5:13])
    ids = [b"%d" % i for i in range(12)]
    assert intersect(ids, ids)[0] != intersect(ids, ids)[0]


def test_repeated_ids_points_too_little_padding_and_dummies_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^1 ids are repeated$"):
        BlindedSet.prepare([b"ada", b"ada"], domain=b"test", randomness=RANDOMNESS)
    with pytest.raises(ValueError, match="cannot be padded"):
        BlindedSet.prepare([b"ada", b"grace"], domain=b"test", randomness=RANDOMNESS, padded=1)
    mine = BlindedSet.prepare([b"ada"], domain=b"test", randomness=RANDOMNESS, padded=50)
    with pytest.raises(ValueError, match="dummy"):
        mine.rows(np.arange(50))
    with pytest.raises(ValueError, match="peer's list"):
        match(b"a" * 32, b"b" * 64)
    with pytest.raises(ValueError, match="own list"):
        match(b"a" * 64, b"b" * 32)


@pytest.mark.parametrize(("places", "why"), [([-1], "outside"), ([9], "outside"), ([1, 1], "twice")])
def test_places_that_cannot_be_are_refused(places: list[int], why: str) -> None:
    mine = BlindedSet.prepare([b"%d" % i for i in range(5)], domain=b"test", randomness=RANDOMNESS)
    with pytest.raises(ValueError, match=why):
        mine.rows(np.array(places, dtype=np.int64))


@given(st.lists(st.binary(min_size=32, max_size=32), unique=True, max_size=10), st.data())
def test_matching_is_exact_on_any_bytes(points: list[bytes], data: st.DataObject) -> None:
    """Zero bytes at the end of a point included."""
    both = [*points, bytes(32), b"\x01" + bytes(31)]
    both = list(dict.fromkeys(both))
    left = data.draw(st.permutations(both))
    right = data.draw(st.permutations(both))[: len(both) // 2 + 1]
    mine, theirs = match(b"".join(left), b"".join(right))
    assert [left[i] for i in mine] == [right[i] for i in theirs] == sorted(set(right))
