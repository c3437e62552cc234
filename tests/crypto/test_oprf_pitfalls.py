"""What each shortcut in transfer extension would show, as an attack on the wrong version; the right one shows nothing.

The attacker is one side of an exchange with what it sees and knows; every attack works on a version that differs from
ours in the one step that the test names.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from test_oprf_laws import COINS, hashed, transferred

from colonnade.crypto.oprf.extension import Receiver, Sender, _Code, _stream
from colonnade.crypto.oprf.kernels import by_block
from colonnade.crypto.oprf.parameters import ROWS, code_bits, third_of
from colonnade.crypto.oprf.table import EMPTY, bins_of, filled
from colonnade.data.packed_text import Text
from colonnade.errors import BadIds
from colonnade.protocols.id_list import Ids
from colonnade.randomness import shuffled

SHOWN = 2048
COMMON = [f"common {n}" for n in range(60)]
FEW, MANY = COMMON, [*(f"own {n}" for n in range(SHOWN - 60)), *COMMON]
"""Two lists that the asker may hold and shows as equally long: whoever tells them apart knows what padding hides."""


def exchanged(mine: Sequence[str], theirs: Sequence[str]) -> tuple[Receiver, Sender]:
    pairs, chooser = transferred(code_bits(len(theirs)))
    digests = hashed(*mine)
    seed, table = filled(digests, SHOWN, COINS)
    receiver = Receiver(digests, table, seed, pairs, COINS)
    sender = Sender(
        hashed(*theirs),
        shown=len(theirs),
        their_size=SHOWN,
        seed=seed,
        chosen_seeds=chooser.seeds,
        bits=chooser.bits,
        randomness=COINS,
    )
    for number in range(receiver.blocks):
        sender.take(number, receiver.block(number))
    return receiver, sender


def values_of(sender: Sender) -> np.ndarray:
    """The three values of each of the sender's ids, by id, as it knows them."""
    records = sender._records.reshape(len(sender.order), 3, 3)
    by_id = np.empty_like(records)
    by_id[sender.order] = records
    return by_id


def test_three_lists_would_show_how_full_the_table_is() -> None:
    """The lists are shuffled apart and the asker names list and place: each common id's third is seen.

    An id that meets no other lies in its first bin, so a table that is nearly empty has everybody in the first third.
    """

    def seen(mine: list[str]) -> float:
        receiver, _ = exchanged(mine, COMMON)
        return float(np.mean(receiver.thirds[-len(COMMON) :] > 0))

    assert seen(FEW) < 0.2 < 0.4 < seen(MANY)


def test_the_order_of_the_values_would_show_how_full_the_table_is() -> None:
    """The sender looks whether the common order is that of its values in the first third."""

    def sorted_share(mine: list[str], *, fresh: bool) -> float:
        receiver, sender = exchanged(mine, COMMON)
        keys = receiver.values[-len(COMMON) :, 0]
        order = shuffled(len(COMMON), COINS) if fresh else np.argsort(keys)
        first = values_of(sender)[order, 0, 0].astype(np.int64)
        return float(np.mean(np.diff(first) > 0))

    assert sorted_share(FEW, fresh=False) > 0.85 > 0.8 > sorted_share(MANY, fresh=False)
    shares = [sorted_share(mine, fresh=True) for mine in (FEW, MANY)]
    assert all(0.2 < share < 0.8 for share in shares)


def test_one_set_of_seeds_for_two_owners_would_open_the_rows_to_both_together() -> None:
    """Where the two chose differently they hold both seeds, read the code of every bin there, and try ids at home."""
    digests = hashed(*COMMON)
    pairs, first = transferred(448)
    second = 1 - first.bits[:224]
    differ = np.arange(224)
    seed, table = filled(digests, SHOWN, COINS)
    row = int(np.flatnonzero(table != EMPTY)[0])
    sent = Receiver(digests, table, seed, pairs, COINS).block(0)
    assert row < ROWS and (second != first.bits[:224]).all()
    bits = np.unpackbits(sent[row].view(np.uint8), bitorder="little")[differ]
    for place in differ:
        for one in pairs[place]:
            stream = np.frombuffer(_stream(one).update(bytes(ROWS // 8)), dtype=np.uint8)
            bits[place] ^= np.unpackbits(stream, bitorder="little")[row]
    guesses = [*COMMON, "nobody"]
    codes = _Code(seed, len(guesses)).of(hashed(*guesses))
    words = np.concatenate([codes[key, : len(guesses)] for key in range(4)], axis=1)
    code_bits_of = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, differ]
    (found,) = np.flatnonzero((code_bits_of == bits).all(axis=1))
    assert found == table[row]


def test_records_sent_block_by_block_would_show_a_histogram_of_ids() -> None:
    """The asker, who drew the seed, counts records a block, and sees which of two lists gives that."""
    seed, size = COINS.bytes(32), 3 * third_of(10 * ROWS)

    def counts(ids: np.ndarray) -> np.ndarray:
        return np.diff(by_block(bins_of(ids, seed, size // 3), -(-size // ROWS), ROWS)[0])

    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 1 << 63, (2, 5000, 2), dtype=np.uint64)
    assert (counts(first) == counts(first[::-1].copy())).all()
    assert (counts(first) != counts(second)).any()


def test_padding_that_is_not_random_would_be_counted() -> None:
    theirs = [f"t{n}" for n in range(20)]
    pairs, chooser = transferred(448)
    seed, table = filled(hashed(*COMMON), SHOWN, COINS)
    receiver = Receiver(hashed(*COMMON), table, seed, pairs, COINS)
    sender = Sender(
        hashed(*theirs),
        shown=100,
        their_size=SHOWN,
        seed=seed,
        chosen_seeds=chooser.seeds,
        bits=chooser.bits,
        randomness=COINS,
    )
    for number in range(receiver.blocks):
        sender.take(number, receiver.block(number))
    wrong = sender._records.copy().reshape(100, 9)
    wrong[sender.order >= len(theirs)] = 0
    assert int((wrong == 0).all(axis=1).sum()) == 80
    records = sender.records(0, 100, 8).reshape(300, 8)
    assert len(np.unique(records, axis=0)) == 300
    assert abs(float(np.unpackbits(records).mean()) - 0.5) < 0.02


def test_a_table_of_the_true_size_would_show_it() -> None:
    assert third_of(3000) < third_of(30_000)
    sizes = {len(filled(hashed(*mine), SHOWN, COINS)[1]) for mine in (FEW, MANY)}
    assert sizes == {3 * third_of(SHOWN)}


def test_equal_ids_would_both_be_placed_so_they_are_refused_before() -> None:
    twice = hashed("a", "b", "a")
    _, table = filled(twice, 3, COINS)
    assert sorted(table[table != EMPTY].tolist()) == [0, 1, 2]
    with pytest.raises(BadIds, match="1 are repeated"):
        Ids.of(["a", "b", "a"]).digests("bank", b"test", lambda done: None)


def test_ids_are_hashed_in_pieces_and_never_held_as_texts() -> None:
    """A set of 50,000 texts takes 6 MB and more; sixteen bytes each are less than 1 MB, sorted once."""
    count = 50_000

    def pieces() -> Iterator[Text]:
        return (
            Text.of([f"person {n}" for n in range(start, start + 5000)]) for start in range(0, count, 5000)
        )

    ids = Ids(count, pieces)
    Ids.of(["warm"]).digests("bank", b"test", lambda done: None)
    tracemalloc.start()
    found = ids.digests("bank", b"test", lambda done: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.nbytes == 16 * count
    assert peak < 4_000_000
