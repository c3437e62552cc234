"""One party's ids on their way into an intersection: read in pieces, never held as a list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from colonnade.crypto.pseudonyms import Strings, pseudonyms
from colonnade.data.arrays import of_texts, packed, text_bytes, texts
from colonnade.data.table import Table
from colonnade.errors import BadIds


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids in the order of a party's rows; each reading gives the same."""

    count: int
    read: Callable[[], Iterable[pa.Array]]

    @classmethod
    def of(cls, ids: Sequence[str]) -> Ids:
        column = of_texts(ids)
        return cls(len(ids), lambda: [column])

    @classmethod
    def of_table(cls, table: Table) -> Ids:
        return cls(table.rows, table.id_batches)

    def encoded(self, party: str) -> list[bytes]:
        """Every id by itself; repeated and empty ones are refused."""
        ids = [str(one).encode("utf-8", "surrogatepass") for batch in self.read() for one in texts(batch)]
        refuse(party, sum(not one for one in ids), len(ids) - len(set(ids)))
        return ids

    def pseudonyms(self, party: str, key: bytes, out: Strings, seen: Callable[[int], None]) -> None:
        """The pseudonym of every id under a key, into `out`; empty ids are refused.

        `seen` is told how many were read.
        """
        at = empty = 0
        for batch in self.read():
            store, ends = packed(batch)
            out[at : at + len(batch)] = pseudonyms(store, ends, key)
            empty += int(np.count_nonzero(np.diff(ends) == 0))
            at += len(batch)
            seen(at)
        refuse(party, empty, 0)

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """The lengths and the bytes of all ids, some at a time: together they say the list, however it is parted."""
        for batch in self.read():
            lengths, content = text_bytes(batch)
            yield lengths.astype("<i8").tobytes(), content.tobytes()


def refuse(party: str, empty: int, repeated: int) -> None:
    """Raise a `BadIds` that counts them, if there are any."""
    if empty or repeated:
        raise BadIds(
            f"party {party!r}: {empty} ids are empty and {repeated} are repeated. Every row needs an id of its own; "
            "correct the table, or its id rules in the schema."
        )
