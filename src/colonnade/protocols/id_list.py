"""One party's ids on their way into an intersection: read in pieces, never held as a list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.packed_text import Text
from colonnade.data.table import Table
from colonnade.errors import BadIds


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids in the order of a party's rows; each reading gives the same.

    >>> Ids.of(["ada", "grace"]).encoded("bank")
    [b'ada', b'grace']
    """

    count: int
    read: Callable[[], Iterable[Text]]

    @classmethod
    def of(cls, ids: Sequence[str]) -> Ids:
        """From a list."""
        packed = Text.of(ids)
        return cls(len(ids), lambda: [packed])

    @classmethod
    def of_table(cls, table: Table) -> Ids:
        """Of the rows of a table."""
        return cls(table.rows, table.id_batches)

    def encoded(self, party: str) -> list[bytes]:
        """Every id by itself; repeated and empty ones are refused."""
        ids = [str(one).encode("utf-8", "surrogatepass") for batch in self.read() for one in batch.texts()]
        _refuse(party, sum(not one for one in ids), len(ids) - len(set(ids)))
        return ids

    def digests(self, party: str, domain: bytes, seen: Callable[[int], None]) -> NDArray[np.uint64]:
        """A 128-bit digest of every id, sixteen bytes each; repeated and empty ids are refused.

        Equal digests are equal ids but with a probability that is negligible for any list. `seen` is told how many were
        read.
        """
        from colonnade.crypto.blake2s import digests

        made = np.empty((self.count, 2), dtype=np.uint64)
        at = empty = 0
        for batch in self.read():
            made[at : at + len(batch)] = digests(batch.store, batch.ends, domain)
            empty += int(np.count_nonzero(batch.lengths() == 0))
            at += len(batch)
            seen(at)
        _refuse(party, empty, repeated_digests(made))
        return made

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """The lengths and the bytes of all ids, some at a time: together they say the list, however it is parted."""
        for batch in self.read():
            yield batch.lengths().astype("<i8").tobytes(), batch.bytes().tobytes()


def repeated_digests(digests: NDArray[np.uint64]) -> int:
    """How many digests stand in a list once more.

    >>> repeated_digests(np.array([[1, 2], [1, 3], [1, 2]], dtype=np.uint64))
    1
    """
    first = np.sort(digests[:, 0])
    twice = first[1:][first[1:] == first[:-1]]
    if not len(twice):
        return 0
    suspects = digests[np.isin(digests[:, 0], twice)]
    return len(suspects) - len(np.unique(suspects, axis=0))


def _refuse(party: str, empty: int, repeated: int) -> None:
    if empty or repeated:
        raise BadIds(
            f"party {party!r}: {empty} ids are empty and {repeated} are repeated. Every row needs an id of its own; "
            "correct the table, or its id rules in the schema."
        )
