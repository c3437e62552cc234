"""Rows in another order than their source has them, on the disk where memory is too small for them.

One streamed reading parts the rows by where they are to stand, into pieces of some hundred thousand rows each, and
appends them to a file without a name; reading them in order takes one piece at a time into memory. The file is gone
with the process, however that ends. It is the party's own data on the party's own disk, readable by its user alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.data.clipping import ClippingLog
from colonnade.errors import CannotWrite

PIECE_ROWS = 1 << 18
_AT, _ID, _LABEL = "at", "id", "label"


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

    def id_batches(self) -> Iterator[pa.Array]:
        """The ids in order."""
        ...


class SpilledRows:
    """The rows of a table at some positions, in the order of those, on the disk."""

    def __init__(self, table: Streamed, positions: NDArray[Any]) -> None:
        self.name = table.name
        self.count = len(positions)
        self._end = 0
        try:
            # It has no name, or loses it at once: nothing is left of it whatever happens.
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="colonnade-")  # noqa: SIM115
            places = np.full(table.rows, -1, dtype=np.int64)
            places[positions] = np.arange(self.count)
            self._rows = self._write(map(_arrays, table.blocks()), places)
            self._ids = self._write(({_ID: ids} for ids in table.id_batches()), places)
            self._file.flush()
        except OSError as error:
            raise CannotWrite(
                f"party {table.party!r}, {table.name}: the {self.count} rows that are wanted in another order do not "
                f"fit into memory and cannot be written to {tempfile.gettempdir()} ({error.strerror or error}). Make "
                "room there, or name another folder in TMPDIR. Nothing was left there."
            ) from None

    def ids(self) -> Iterator[pa.Array]:
        """The ids in order, a piece at a time."""
        for piece in self._pieces(self._ids):
            yield piece.column(_ID).combine_chunks()

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        """The rows in order, `size` at a time."""
        waiting, rows = [], 0
        for piece in self._pieces(self._rows):
            while len(piece):
                part = piece.slice(0, size - rows)
                waiting.append(part)
                rows, piece = rows + len(part), piece.slice(len(part))
                if rows == size:
                    yield _block(pa.concat_tables(waiting))
                    waiting, rows = [], 0
        if rows:
            yield _block(pa.concat_tables(waiting))

    def _write(self, batches: Iterable[Mapping[str, Any]], places: NDArray[np.int64]) -> _Index:
        """Append these rows piece by piece; where each part of a piece lies, and what it holds."""
        index: _Index = [[] for _ in range(-(-self.count // PIECE_ROWS))]
        start = 0
        for columns in batches:
            whole = pa.RecordBatch.from_pydict(columns)
            here = places[start : start + len(whole)]
            for piece in np.unique(here[here >= 0] // PIECE_ROWS).tolist():
                wanted = np.flatnonzero((here >= 0) & (here // PIECE_ROWS == piece))
                part = whole.take(pa.array(wanted)).append_column(_AT, pa.array(here[wanted]))
                content = part.serialize()
                index[piece].append((self._end, content.size, part.schema))
                self._append(content)
            start += len(whole)
        return index

    def _append(self, content: pa.Buffer) -> None:
        self._file.write(content)
        self._end += content.size

    def _pieces(self, index: _Index) -> Iterator[pa.Table]:
        """The rows of each piece, in order."""
        for parts in index:
            read = [
                pa.ipc.read_record_batch(pa.py_buffer(os.pread(self._file.fileno(), size, start)), schema)
                for start, size, schema in parts
            ]
            yield pa.Table.from_batches(read).sort_by(_AT)


_Index = list[list[tuple[int, int, pa.Schema]]]


def _arrays(block: Block) -> dict[str, Any]:
    labels = {f"{_LABEL}{place}": values for place, values in enumerate(block.labels)}
    return {f"c{name}": values for name, values in block.columns.items()} | labels


def _block(rows: pa.Table) -> Block:
    arrays = {name: rows.column(name).to_numpy() for name in rows.column_names if name != _AT}
    for values in arrays.values():
        values.flags.writeable = False
    columns = {name[1:]: values for name, values in arrays.items() if name.startswith("c")}
    return Block.of(columns, [arrays[name] for name in arrays if name.startswith(_LABEL)], rows.num_rows)
