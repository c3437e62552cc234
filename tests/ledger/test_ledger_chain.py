"""The hash chain by itself: what it lets pass, and that it lets nothing else pass."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import LedgerAltered
from colonnade.ledger.entry_store import GENESIS, Entry, Row, canonical, follow, link, write

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=3,
)
bodies = st.dictionaries(st.text(max_size=5), json_values, max_size=2)


@st.composite
def chains(draw: st.DrawFn, least: int = 1) -> list[Entry]:
    head, entries = GENESIS, []
    for seq, body in enumerate(draw(st.lists(bodies, min_size=least, max_size=4)), start=1):
        entry = write(
            seq, head, kind=draw(st.sampled_from(("charge", "budget"))), time="2030-01-01", body=body
        )
        entries.append(entry)
        head = entry.hash
    return entries


def rows_of(entries: list[Entry]) -> list[Row]:
    return [Row(entry.seq, entry.text.encode(), entry.hash.encode()) for entry in entries]


def read(rows: list[Row]) -> list[Entry]:
    return list(follow(rows, seq=0, head=GENESIS, where="a test"))


@given(chains(), st.data())
def test_reading_may_stop_and_go_on_anywhere(entries: list[Entry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    head = entries[cut - 1].hash if cut else GENESIS
    rest = list(follow(rows_of(entries)[cut:], seq=cut, head=head, where="a test"))
    assert rest == entries[cut:]


@given(chains(), st.data())
def test_one_changed_byte_is_noticed_at_its_entry(entries: list[Entry], data: st.DataObject) -> None:
    rows = rows_of(entries)
    place = data.draw(st.integers(0, len(rows) - 1))
    seq, parts = rows[place].seq, {"text": rows[place].text, "hash": rows[place].hash}
    column = data.draw(st.sampled_from(("text", "hash")))
    original = parts[column]
    assert isinstance(original, bytes)
    at = data.draw(st.integers(0, len(original) - 1))
    flip = data.draw(st.integers(1, 255))
    parts[column] = original[:at] + bytes([original[at] ^ flip]) + original[at + 1 :]
    rows[place] = Row(seq, parts["text"], parts["hash"])
    with pytest.raises(LedgerAltered, match=rf"entry {place + 1} does not match"):
        read(rows)


@given(chains(least=2), st.data())
def test_a_missing_entry_is_noticed_even_if_renumbered(entries: list[Entry], data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, len(entries) - 2))
    kept = rows_of(entries[:gone] + entries[gone + 1 :])
    with pytest.raises(LedgerAltered, match=rf"entry {gone + 1} is missing"):
        read(kept)
    renumbered = [Row(seq, row.text, row.hash) for seq, row in enumerate(kept, start=1)]
    if kept[gone].text != rows_of(entries)[gone].text:
        with pytest.raises(LedgerAltered, match=rf"entry {gone + 1} does not match"):
            read(renumbered)


@given(chains(least=2), st.data())
def test_two_entries_in_each_others_place_are_noticed(entries: list[Entry], data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.permutations(range(len(entries))))[:2])
    rows = rows_of(entries)
    if rows[first].text == rows[second].text:
        return
    rows[first], rows[second] = (
        Row(first + 1, rows[second].text, rows[second].hash),
        Row(second + 1, rows[first].text, rows[first].hash),
    )
    with pytest.raises(LedgerAltered, match=rf"entry {first + 1} "):
        read(rows)


@given(chains(least=2), bodies, st.data())
def test_an_entry_rewritten_with_its_own_right_hash_is_noticed_at_the_next(
    entries: list[Entry], body: dict[str, Any], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(entries) - 2))
    before = entries[place - 1].hash if place else GENESIS
    forged = write(place + 1, before, kind="forged", time="2030-01-01", body=body)
    with pytest.raises(LedgerAltered, match=rf"entry {place + 2} does not match"):
        read(rows_of([*entries[:place], forged, *entries[place + 1 :]]))


@pytest.mark.parametrize("text", [None, 7, "text where bytes are due"])
def test_a_text_that_is_no_text_is_noticed(text: object) -> None:
    with pytest.raises(LedgerAltered):
        read([Row(1, text, link(GENESIS, b"").encode())])


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"kind":1,"time":"","body":{}}', b"\xff"])
def test_a_text_with_a_right_hash_that_is_no_entry_is_noticed(text: bytes) -> None:
    with pytest.raises(LedgerAltered, match="is not written as ledger entries are"):
        read([Row(1, text, link(GENESIS, text).encode())])


def test_the_hashes_are_those_that_sha256sum_gives_and_no_number_has_no_text() -> None:
    # head -c 32 /dev/zero > p
    # printf '{"body":{"party":"bank"},"kind":"opened","time":"2030-01-01"}' | cat p - | sha256sum
    first = write(1, GENESIS, kind="opened", time="2030-01-01", body={"party": "bank"})
    assert first.hash == "81a8ad9364b7c767a332f814a60c82fba57a0b948ffa6d1522b6044a3e5f13aa"
    # xxd -r -p <<< FIRST > p; printf '{"body":{"ε":1.5},"kind":"budget","time":"2030-01-02"}' | cat p - | sha256sum
    second = write(2, first.hash, kind="budget", time="2030-01-02", body={"ε": 1.5})
    assert second.hash == "1b108be47f1777f2e74f6375824f33a8bde426ea50cb10d8e61c43d4be2e37f5"
    assert hashlib.sha256(bytes.fromhex(first.hash) + second.text.encode()).hexdigest() == second.hash
    with pytest.raises(ValueError, match="JSON"):
        canonical({"epsilon": float("nan")})


@given(bodies)
def test_a_value_has_one_canonical_text_whatever_the_order_of_its_keys(body: dict[str, Any]) -> None:
    assert canonical(body) == canonical(dict(reversed(body.items())))
