"""Blinded sets: the intersection, its order, and everything a dishonest list of places could try."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.crypto import curve as blinded_sets
from colonnade.crypto.curve import BlindedSet, match
from colonnade.randomness import SystemRandomness, shuffled

FALSE_ALARM = 1e-9
RANDOMNESS = SystemRandomness()


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


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blinded_sets, "BLOCK_POINTS", 3)
    ids = [b"%d" % i for i in range(20)]
    left, right = intersect(ids[:13], ids[5:], (17, 15))
    assert left == right and set(left) == set(ids[5:13])


def test_the_common_order_differs_from_run_to_run() -> None:
    ids = [b"%d" % i for i in range(12)]
    assert intersect(ids, ids)[0] != intersect(ids, ids)[0]


def test_padding_hides_how_many_ids_there_are() -> None:
    sizes = set()
    for count in (0, 1, 7):
        ids = [b"%d" % i for i in range(count)]
        padded = BlindedSet.prepare(ids, domain=b"test", randomness=RANDOMNESS, padded=7)
        sizes.add(sum(len(block) for block in padded.blinded_blocks()))
    assert sizes == {7 * 32}


def test_what_is_sent_is_in_a_random_order() -> None:
    """Where the first id of the file stands in what is sent: uniform over the places."""
    places = [int(np.flatnonzero(shuffled(8, RANDOMNESS) == 0)[0]) for _ in range(4000)]
    assert stats.chisquare(np.bincount(places, minlength=8)).pvalue > FALSE_ALARM
    kept = [place if draw % 10 else 0 for draw, place in enumerate(places)]
    assert stats.chisquare(np.bincount(kept, minlength=8)).pvalue < FALSE_ALARM


def test_repeated_ids_are_refused_by_count_and_not_by_name() -> None:
    with pytest.raises(ValueError, match=r"^1 ids are repeated$"):
        BlindedSet.prepare([b"ada", b"ada"], domain=b"test", randomness=RANDOMNESS)


def test_padding_below_the_number_of_ids_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be padded"):
        BlindedSet.prepare([b"ada", b"grace"], domain=b"test", randomness=RANDOMNESS, padded=1)


@pytest.mark.parametrize(("places", "why"), [([-1], "outside"), ([9], "outside"), ([1, 1], "twice")])
def test_places_that_cannot_be_are_refused(places: list[int], why: str) -> None:
    mine = BlindedSet.prepare([b"%d" % i for i in range(5)], domain=b"test", randomness=RANDOMNESS)
    with pytest.raises(ValueError, match=why):
        mine.rows(np.array(places, dtype=np.int64))


def test_a_place_that_names_a_dummy_is_refused() -> None:
    mine = BlindedSet.prepare([b"ada"], domain=b"test", randomness=RANDOMNESS, padded=50)
    with pytest.raises(ValueError, match="dummy"):
        mine.rows(np.arange(50))


def test_a_list_that_repeats_a_point_is_refused() -> None:
    with pytest.raises(ValueError, match="peer's list"):
        match(b"a" * 32, b"b" * 64)
    with pytest.raises(ValueError, match="own list"):
        match(b"a" * 64, b"b" * 32)


@given(st.lists(st.binary(min_size=32, max_size=32), unique=True, max_size=10), st.data())
def test_matching_is_exact_on_any_bytes(points: list[bytes], data: st.DataObject) -> None:
    """Zero bytes at the end of a point included."""
    both = [*points, bytes(32), b"\x01" + bytes(31)]
    both = list(dict.fromkeys(both))
    left = data.draw(st.permutations(both))
    right = data.draw(st.permutations(both))[: len(both) // 2 + 1]
    mine, theirs = match(b"".join(left), b"".join(right))
    assert [left[i] for i in mine] == [right[i] for i in theirs] == sorted(set(right))
