"""Pseudonyms: what a list of them has, and what lists have in common, beside sets."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.crypto import pseudonyms as module
from colonnade.crypto.blake2 import digest_texts
from colonnade.crypto.pseudonyms import (
    DUMMIES,
    PSEUDONYM_BYTES,
    PseudonymList,
    Strings,
    ascending,
    common,
    keyed_digests,
    numbered,
    pseudonyms,
    subkey,
)
from colonnade.crypto.sorted_strings import sort_strings, strings_within
from colonnade.data.arrays import of_texts, packed
from colonnade.data.declaring import Spelling
from colonnade.ledger.release import HoldoutSplit
from colonnade.models.files.membership import IdRules, TrainingMembership
from colonnade.randomness import SeededRandomness, SystemRandomness

KEY = bytes(range(32))


def of_ids(ids: list[str], size: int | None = None, *, key: bytes = KEY) -> PseudonymList:
    listed = of_texts(ids)
    strings = np.empty(((len(ids) if size is None else size) + DUMMIES, PSEUDONYM_BYTES), dtype=np.uint8)
    strings[: len(ids)] = pseudonyms(*packed(listed), subkey(key, "ids"))
    return PseudonymList.of(strings, len(ids), key=key, padding=SystemRandomness().bytes(32))


def strings(*content: bytes) -> Strings:
    joined = b"".join(one.ljust(PSEUDONYM_BYTES, b"\0") for one in content)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, PSEUDONYM_BYTES).copy()


def texts(rows: Strings) -> list[bytes]:
    return [row.tobytes() for row in rows]


def test_a_pseudonym_is_keyed_blake2b_of_the_id() -> None:
    ids = ["ada", "", "grace", "ü" * 90, "x" * 300]
    listed = of_texts(["left out", *ids]).slice(1, 5)
    made = pseudonyms(*packed(listed), KEY)
    expected = [hashlib.blake2b(b"\0" + one.encode(), key=KEY, digest_size=16).digest() for one in ids]
    assert texts(made) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 40), max_size=30), min_size=2, max_size=4), st.integers(0, 20))
def test_what_lists_have_in_common_is_what_sets_have(sets: list[set[int]], more: int) -> None:
    held = [[f"p{number}" for number in one] for one in sets]
    lists = [of_ids(ids, len(ids) + more) for ids in held]
    assert all(ascending(one.strings) and not one.repeated for one in lists)
    found = common([one.strings for one in lists])
    people = []
    for ids, listed, named in zip(held, lists, found, strict=True):
        rows, sound = listed.rows(named)
        assert sound and named.sum() == len(rows) + DUMMIES
        people.append([ids[row] for row in rows])
    assert set(people[0]) == {f"p{number}" for number in set.intersection(*sets)}
    assert all(order == people[0] for order in people)


# Spread evenly, as digests are; of few first bytes, so that most have to be put in order one by one; and repeated.
CONTENT = st.one_of(
    st.binary(min_size=16, max_size=16),
    st.lists(st.sampled_from([0, 1, 127, 128, 255]), min_size=16, max_size=16).map(bytes),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(CONTENT, max_size=60), st.lists(CONTENT, max_size=60))
def test_strings_are_sorted_and_found_as_bytes_are(left: list[bytes], right: list[bytes]) -> None:
    given, others = strings(*left), strings(*sorted(right))
    order = sort_strings(given)
    assert texts(given) == sorted(left) == [left[place] for place in order]
    assert sorted(order) == list(range(len(left)))
    assert strings_within(given, others).tolist() == [one in right for one in sorted(left)]


def test_many_strings_are_sorted_whatever_their_first_bits_are() -> None:
    drawn = np.random.default_rng(1).integers(0, 256, (20_000, PSEUDONYM_BYTES), dtype=np.uint8)
    for alike in (0, 1, 3):
        drawn[:, :alike] = 7
        given = drawn.copy()
        order = sort_strings(given)
        assert np.array_equal(given, drawn[order]) and ascending(given)


def test_an_order_is_strict_and_an_empty_list_has_nothing_in_common() -> None:
    assert not ascending(strings(b"a", b"a")) and not ascending(strings(b"b", b"a"))
    assert [named.tolist() for named in common([strings(b"a"), strings()])] == [[False], []]
    assert [named.tolist() for named in common([strings(), strings(b"a")])] == [[], [False]]


def test_ids_dummies_and_padding_have_keys_of_their_own_and_repetitions_are_counted() -> None:
    """The id "\\0…\\0" is no dummy: else an owner could list a dummy as a person, and be believed."""
    counters = [number.to_bytes(8, "little").decode() for number in range(3)]
    assert len(set(texts(of_ids(counters).strings))) == len(counters) + DUMMIES
    dummies = set(texts(numbered(DUMMIES, subkey(KEY, "dummies"))))
    listed = of_ids(["ada"], 9)
    assert len(dummies & set(texts(listed.strings))) == DUMMIES
    assert not set(texts(of_ids([], 9).strings)) & set(texts(of_ids([], 9).strings)) - dummies
    assert of_ids(["a", "b", "a", "a"]).repeated == 2


@pytest.mark.parametrize(
    ("spoil", "sound"),
    [
        (lambda named, order: None, True),
        (lambda named, order: named.__setitem__(order == 0, False), True),
        (lambda named, order: named.__setitem__(order == 2 + 5, False), False),
        (lambda named, order: named.__setitem__(order == 2 + DUMMIES, True), False),
        (lambda named, order: named.__setitem__(slice(None), False), False),
        (lambda named, order: named.__setitem__(slice(None), True), False),
    ],
    ids=["as it is", "a person left out", "a dummy left out", "padding named", "nothing", "everything"],
)
def test_places_are_sound_only_with_every_dummy_and_no_padding(spoil: object, sound: bool) -> None:
    listed = of_ids(["ada", "grace"], 4)
    named = listed.order < 2 + DUMMIES
    spoil(named, listed.order)  # type: ignore[operator]
    assert listed.rows(named)[1] is sound


def test_padding_takes_as_long_as_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quicker hash of padding would show in time how many ids there are."""
    hashed: list[int] = []
    honest = pseudonyms

    def counting(store: Strings, ends: Strings, key: bytes) -> Strings:
        hashed.append(len(ends) - 1)
        return honest(store, ends, key)

    monkeypatch.setattr(module, "pseudonyms", counting)
    for ids in ([], ["a"], ["a", "b", "c"]):
        hashed.clear()
        of_ids(ids, 3)
        assert sum(hashed) + len(ids) == 3 + DUMMIES


@pytest.mark.parametrize("size", [8, 16, 64])
@pytest.mark.parametrize("key", [b"k", b"key" * 11, bytes(range(64))], ids=len)
def test_digests_of_many_texts_are_those_of_hashlib(size: int, key: bytes) -> None:
    # With the zero byte before it a text fills one block, two or three exactly, or one byte more.
    lengths = [0, 1, 7, 8, 15, 126, 127, 128, 254, 255, 256, 383, 1000, 0]
    texts = [np.random.default_rng(length).bytes(length) for length in lengths]
    store = np.frombuffer(b"before" + b"".join(texts), dtype=np.uint8)
    made = digest_texts(store, 6 + np.cumsum([0, *lengths]), key, size)
    assert [one.tobytes() for one in made] == [
        hashlib.blake2b(b"\0" + text, key=key, digest_size=size).digest() for text in texts
    ]


# Keyed digests of ids: what BLAKE2b says, with the key hashed once for all of them.


IDS = ["", "ann", "Łódź 7", "x" * 300, *(str(number) for number in range(500))]


@pytest.mark.parametrize("person", [b"", b"colonnade cut"])
def test_each_is_blake2b_of_its_text_under_the_key(person: bytes) -> None:
    key = bytes(range(32))
    expected = [
        int.from_bytes(
            hashlib.blake2b(text.encode(), digest_size=8, key=key, person=person).digest(), "little"
        )
        for text in IDS
    ]
    found = keyed_digests(key, iter(IDS), person=person)
    assert found.dtype == np.uint64
    assert found.tolist() == expected
    assert keyed_digests(key, []).shape == (0,)


def test_lists_of_people_and_splits_hash_their_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted:
        @staticmethod
        def blake2b(*arguments: Any, **named: Any) -> Any:
            made.append(named)
            return hashlib.blake2b(*arguments, **named)

    monkeypatch.setattr(module, "hashlib", Counted)
    people = TrainingMembership.of(IDS, IdRules("n", Spelling()), SeededRandomness("people"))
    assert (len(people), len(made)) == (len(IDS), 1)
    HoldoutSplit(bytes(32), share=0.5, rules="column n").held_out(IDS)
    assert len(made) == 2
