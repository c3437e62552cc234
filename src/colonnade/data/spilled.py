"""Rows in another order than their source has them, on the disk where memory is too small for them.

One streamed reading parts the rows by where they are to stand, into pieces of some hundred thousand rows each, and
appends them to a file without a name; reading them in order takes one piece at a time into memory. The file is gone
with the process, however that ends. It is the party's own data on the party's own disk, readable by its user alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.data.clipping import ClippingLog
from colonnade.data.packed_text import Text
from colonnade.errors import CannotWrite

PIECE_ROWS = 1 << 18
_AT, _LABEL = "at", "label"


class Streamed(Protocol):
    """A table that is read from its beginning to its end."""

    @property
    def name(self) -> str: ...

    @property
    def party(self) -> str: ...

    @property
    def rows(self) -> int: ...

    def blocks(self) -> Iterator[Block]:
        """The rows in order."""
        ...

    def id_batches(self) -> Iterator[Text]:
        """The ids in order."""
        ...


class SpilledRows:
    """The rows of a table at some positions, in the order of those, on the disk."""

    def __init__(self, table: Streamed, positions: NDArray[Any]) -> None:
        self.name = table.name
        self.count = len(positions)
        self._columns: list[str] = []
        self._layout = np.dtype([(_AT, "<u4")])
        pieces = -(-self.count // PIECE_ROWS)
        self._rows: list[list[tuple[int, int]]] = [[] for _ in range(pieces)]
        self._ids: list[list[tuple[int, int, int]]] = [[] for _ in range(pieces)]
        self._end = 0
        try:
            # It has no name, or loses it at once: nothing is left of it whatever happens.
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="colonnade-")  # noqa: SIM115
            places = np.full(table.rows, -1, dtype=np.int64)
            places[positions] = np.arange(self.count)
            self._write_rows(table, places)
            self._write_ids(table, places)
            self._file.flush()
        except OSError as error:
            raise CannotWrite(
                f"party {table.party!r}, {table.name}: the {self.count} rows that are wanted in another order do not "
                f"fit into memory and cannot be written to {tempfile.gettempdir()} ({error.strerror or error}). Make "
                "room there, or name another folder in TMPDIR. Nothing was left there."
            ) from None

    def ids(self) -> Iterator[Text]:
        """The ids in order, a piece at a time."""
        for number, parts in enumerate(self._ids):
            pieces = []
            for start, count, size in parts:
                content = self._read(start, 8 * count + size)
                at, lengths = content[: 4 * count].view("<u4"), content[4 * count : 8 * count].view("<u4")
                ends = np.zeros(count + 1, dtype=np.int64)
                np.cumsum(lengths, out=ends[1:])
                pieces.append((at.astype(np.int64) - number * PIECE_ROWS, Text(ends, content[8 * count :])))
            order = np.argsort(np.concatenate([at for at, _ in pieces]))
            yield Text.joined([text for _, text in pieces]).take(order)

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        """The rows in order, `size` at a time."""
        waiting: list[NDArray[Any]] = []
        rows = 0
        for number in range(len(self._rows)):
            piece = self._piece(number)
            while len(piece):
                part = piece[: size - rows]
                waiting.append(part)
                rows, piece = rows + len(part), piece[len(part) :]
                if rows == size:
                    yield self._block(waiting)
                    waiting, rows = [], 0
        if rows:
            yield self._block(waiting)

    def _write_rows(self, table: Streamed, places: NDArray[np.int64]) -> None:
        start = 0
        for block in table.blocks():
            if not self._columns:
                self._columns = list(block.columns)
                fields: list[tuple[str, Any]] = [(_AT, "<u4")]
                fields += [(f"c{place}", values.dtype) for place, values in enumerate(block.columns.values())]
                fields += [(f"{_LABEL}{place}", values.dtype) for place, values in enumerate(block.labels)]
                self._layout = np.dtype(fields)
            order, at, cuts = self._parted(places[start : start + block.rows])
            rows = np.empty(len(order), dtype=self._layout)
            rows[_AT] = at
            for place, values in enumerate(block.columns.values()):
                rows[f"c{place}"] = values[order]
            for place, values in enumerate(block.labels):
                rows[f"{_LABEL}{place}"] = values[order]
            for piece, first, last in cuts:
                self._rows[piece].append((self._end + first * self._layout.itemsize, last - first))
            self._append(rows.tobytes())
            start += block.rows

    def _write_ids(self, table: Streamed, places: NDArray[np.int64]) -> None:
        start = 0
        for batch in table.id_batches():
            order, at, cuts = self._parted(places[start : start + len(batch)])
            taken = batch.take(order)
            lengths = taken.lengths().astype("<u4")
            for piece, first, last in cuts:
                texts = taken.part(first, last).bytes()
                self._ids[piece].append((self._end, last - first, len(texts)))
                self._append(at[first:last].tobytes() + lengths[first:last].tobytes() + texts.tobytes())
            start += len(batch)

    def _parted(
        self, places: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.uint32], list[tuple[int, int, int]]]:
        """Which of some rows are wanted, by piece; where each is to stand; and from where to where each piece is."""
        wanted = np.flatnonzero(places >= 0)
        pieces = places[wanted] // PIECE_ROWS
        by_piece = np.argsort(pieces, kind="stable")
        order, ranked = wanted[by_piece], pieces[by_piece]
        firsts = np.flatnonzero(np.diff(ranked, prepend=-1))
        lasts = [*firsts[1:].tolist(), len(ranked)]
        cuts = list(zip(ranked[firsts].tolist(), firsts.tolist(), lasts, strict=True))
        return order, places[order].astype("<u4"), cuts

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._end += len(content)

    def _read(self, start: int, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(os.pread(self._file.fileno(), size, start), dtype=np.uint8)

    def _piece(self, number: int) -> NDArray[Any]:
        first = number * PIECE_ROWS
        rows = np.empty(min(PIECE_ROWS, self.count - first), dtype=self._layout)
        for start, count in self._rows[number]:
            part = self._read(start, count * self._layout.itemsize).view(self._layout)
            rows[part[_AT] - first] = part
        return rows

    def _block(self, parts: list[NDArray[Any]]) -> Block:
        def joined(field: str) -> NDArray[Any]:
            values = np.concatenate([part[field] for part in parts])
            values.flags.writeable = False
            return values

        columns = {name: joined(f"c{place}") for place, name in enumerate(self._columns)}
        labels = [joined(name) for name in self._layout.names or () if name.startswith(_LABEL)]
        return Block.of(columns, labels, sum(len(part) for part in parts))
