"""The parts of transfer extension: equal to their definitions, and with the failure rates that the proof states."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.special import gammaln

from colonnade.crypto.blake2s import digests, start_state
from colonnade.crypto.curve import InvalidPoint
from colonnade.crypto.oprf import parameters
from colonnade.crypto.oprf.base_transfers import Chooser, Dealer
from colonnade.crypto.oprf.extension import Receiver, Sender
from colonnade.crypto.oprf.kernels import hash_rows, transpose
from colonnade.crypto.oprf.matching import Matching
from colonnade.crypto.oprf.parameters import code_bits, third_of, value_bytes
from colonnade.crypto.oprf.table import EMPTY, _fill, bins_of, filled
from colonnade.data.packed_text import Text
from colonnade.randomness import SystemRandomness

COINS = SystemRandomness()


def hashed(*ids: str) -> np.ndarray:
    packed = Text.of(ids)
    return digests(packed.store, packed.ends, b"test")


def transferred(width: int) -> tuple[list[tuple[bytes, bytes]], Chooser]:
    dealer, chooser = Dealer.draw(COINS, domain=b"t"), Chooser.draw(width, COINS, domain=b"t")
    return dealer.seeds(chooser.answer(dealer.key)), chooser


@pytest.mark.parametrize("domain", [b"short", b"x" * 64, b"long" * 40])
def test_digests_are_those_of_hashlib(domain: bytes) -> None:
    ids = ["a", "é", "x" * 63, "x" * 64, "x" * 65, "q" * 300, *map(str, range(40))]
    start = (domain if len(domain) <= 64 else hashlib.sha256(domain).digest()).ljust(64, b"\0")
    packed = Text.of(["left out", *ids]).part(1, len(ids) + 1)
    for one, found in zip(ids, digests(packed.store, packed.ends, domain), strict=True):
        assert found.tobytes() == hashlib.blake2s(start + one.encode(), digest_size=16).digest()


@pytest.mark.parametrize("words", [7, 8])
def test_values_are_blake2s_of_rows_with_the_bin_as_person(words: int) -> None:
    rng = np.random.default_rng(words)
    rows = rng.integers(0, 1 << 63, (40, words), dtype=np.uint64)
    codes = rng.integers(0, 1 << 63, (4, 40, 2), dtype=np.uint64)
    chosen = rng.integers(0, 1 << 63, words, dtype=np.uint64)
    index, into = np.arange(39, -1, -1, dtype=np.int32), np.arange(40)
    for coded in (False, True):
        out = np.zeros((40, 3), dtype=np.uint32)
        hash_rows(rows, index, codes, chosen, coded, 1000, start_state(12, person=b"\0\0\0\0oprf"), out, into)
        for place, row in enumerate(index):
            code = np.concatenate([codes[key, place] for key in range(4)])[:words]
            content = rows[row] ^ (code & chosen if coded else np.uint64(0))
            person = int(1000 + row).to_bytes(4, "little") + b"oprf"
            assert (
                out[place].tobytes()
                == hashlib.blake2s(content.tobytes(), digest_size=12, person=person).digest()
            )


def test_transposing_turns_columns_of_bits_into_rows() -> None:
    columns = np.random.default_rng(0).integers(0, 1 << 63, (448, 2), dtype=np.uint64)
    rows = np.empty((128, 7), dtype=np.uint64)
    transpose(columns, rows)
    bits = np.unpackbits(columns.view(np.uint8), axis=1, bitorder="little")
    assert (np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little") == bits.T).all()


def test_a_chooser_has_the_chosen_seed_and_not_the_other() -> None:
    pairs, chooser = transferred(64)
    assert 0 < int(chooser.bits.sum()) < 64
    for pair, bit, seed in zip(pairs, chooser.bits, chooser.seeds, strict=True):
        assert pair[bit] == seed != pair[1 - bit]
    assert len({seed for pair in pairs for seed in pair}) == 128


@pytest.mark.parametrize(
    "point", [bytes(32), b"\x01" + bytes(31), b"\x02" + bytes(31), b"\xff" * 32], ids=["0", "1", "twist", "p"]
)
def test_points_that_are_none_are_refused(point: bytes) -> None:
    with pytest.raises(InvalidPoint):
        Chooser.draw(2, COINS, domain=b"t").answer(point)
    with pytest.raises(InvalidPoint):
        Dealer.draw(COINS, domain=b"t").seeds(point)


@pytest.mark.parametrize("load", [0.6, 0.85, 0.92])
def test_filling_fails_only_where_no_placing_exists(load: float) -> None:
    outcomes = set()
    for seed in range(30):
        third = 40
        count = int(load * 3 * third)
        words = np.random.default_rng(seed).integers(0, 1 << 63, (count, 2), dtype=np.uint64)
        bins = bins_of(words, seed.to_bytes(32, "little"), third)
        table = np.full(3 * third, EMPTY, dtype=np.int32)
        done = _fill(bins, table, np.uint64(seed | 1))
        graph = csr_array((np.ones(3 * count), (np.repeat(np.arange(count), 3), bins.reshape(-1))))
        assert done == bool((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum() == count)
        if done:
            held = table[table != EMPTY]
            assert sorted(held.tolist()) == list(range(count))
            assert all(place in bins[row] for place, row in enumerate(table) if row != EMPTY)
        outcomes.add(done)
    assert outcomes == ({True} if load == 0.6 else {True, False} if load == 0.92 else outcomes)


def failure_bits(ids: int) -> float:
    """log₂ of the bound of docs/proofs/psi-transfer.md on the chance that a table for so many ids has no placing."""
    third = third_of(ids)
    k = np.arange(3, min(max(ids, parameters.LEAST_ROOM), 3 * third + 1), dtype=float)
    share, crowd = k / 3, k + 1
    # Any x gives a bound; this one is near the best.
    x = np.clip(crowd / share, 2.0001, None) - 2
    for _ in range(40):
        grown = np.expm1(x)
        slope = (grown + x * (grown + 1)) / (grown - x) - x * grown**2 / (grown - x) ** 2
        x = np.clip(x - (x * grown / (grown - x) - crowd / share) / np.maximum(slope, 1e-3), 1e-6, 50)
    spread = gammaln(crowd + 1) + share * np.log(np.expm1(x) - x) - crowd * np.log(x)
    ways = gammaln(third + 1) - gammaln(share + 1) - gammaln(third - share + 1)
    room = max(ids, parameters.LEAST_ROOM)
    who = gammaln(room + 1) - gammaln(crowd + 1) - gammaln(room - crowd + 1)
    terms = np.log(k * k / 2) + who + 3 * (ways + spread - crowd * np.log(third))
    return float(np.logaddexp.reduce(terms) / np.log(2))


@pytest.mark.parametrize("ids", [1, 2048, 3000, 10_000, 100_000])
def test_a_table_is_filled_but_for_two_to_the_minus_forty(ids: int) -> None:
    assert failure_bits(ids) <= -40


def test_this_bound_would_not_hold_for_smaller_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "LEAST_ROOM", 512)
    assert failure_bits(512) > -40
    monkeypatch.setattr(parameters, "EXPANSION", 1.27)
    assert failure_bits(20_000) > 0


@pytest.mark.parametrize("records", [1, 10**6, 10**7, 10**8, (1 << 27)])
def test_code_words_are_far_apart_but_for_two_to_the_minus_forty(records: int) -> None:
    width = code_bits(records)
    near = sum(math.comb(width, ones) for ones in range(128))
    assert math.log2(3 * records) + math.log2(near) - width <= -40
    assert width in (448, 512) and width % 64 == 0


@pytest.mark.parametrize(("ids", "records"), [(1, 1), (10**5, 10**5), (10**7, 10**7), (1 << 27, 1 << 27)])
def test_values_meet_by_chance_with_two_to_the_minus_forty(ids: int, records: int) -> None:
    size = value_bytes(ids, records)
    assert ids * records * 2**40 <= 2 ** (8 * size)
    assert size <= parameters.MOST_VALUE_BYTES


@pytest.mark.parametrize("size", [5, 7, 8, 9, 12])
def test_values_of_any_size_are_found(size: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.integers(0, 1 << 32, (50, 3), dtype=np.uint32)
    thirds = rng.integers(0, 3, 50).astype(np.uint8)
    records = rng.integers(0, 256, (60, 3, size), dtype=np.uint8)
    content = values.view(np.uint8).reshape(50, 12)
    for row in range(20):
        records[row + 5, thirds[row]] = content[row, :size]
        # In the bin of another third it is another value that happens to be equal.
        records[row + 30, (thirds[row + 20] + 1) % 3] = content[row + 20, :size]
    matching = Matching(values, thirds, size=size)
    matching.look_up(records[:30], first=0)
    matching.look_up(records[30:], first=30)
    assert matching.places.tolist() == [*range(5, 25), *[-1] * 30]


@pytest.mark.parametrize("shown", [600, 700])
def test_values_agree_for_common_ids_and_no_others(shown: int) -> None:
    mine, theirs = (hashed(*(f"p{n}" for n in numbers)) for numbers in (range(500), range(300, 900)))
    pairs, chooser = transferred(code_bits(shown))
    seed, table = filled(mine, 500, COINS)
    receiver = Receiver(mine, table, seed, pairs, COINS)
    sender = Sender(
        theirs,
        shown=shown,
        their_size=500,
        seed=seed,
        chosen_seeds=chooser.seeds,
        bits=chooser.bits,
        randomness=COINS,
    )
    for number in range(receiver.blocks):
        sender.take(number, receiver.block(number))
    size = value_bytes(500, shown)
    matching = Matching(receiver.values, receiver.thirds, size=size)
    matching.look_up(sender.records(0, shown, size), first=0)
    found = np.flatnonzero(matching.places >= 0)
    assert found.tolist() == list(range(300, 500))
    assert sender.order[matching.places[found]].tolist() == list(range(200))
