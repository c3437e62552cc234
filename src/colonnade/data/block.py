"""Some rows of a table, column by column, as declared, and rows in another order on the disk."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import Relation, values_of
from colonnade.data.coding import Coded, Declared, code
from colonnade.data.declaring import nearest_name
from colonnade.data.kinds import Column
from colonnade.errors import CannotWrite, ColumnMissing, DataError

_DIGITS = 5e-4


@dataclass
class ClippingLog:
    """How many values lay outside their bounds and were clipped, in the last whole reading: for the party alone."""

    counts: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    standardised: tuple[str, ...] = ()

    def finish(
        self, counts: Mapping[str, int], *, rows: int, standardised: tuple[str, ...] | None = None
    ) -> None:
        self.counts = {name: int(count) for name, count in counts.items() if count}
        self.rows = rows
        self.standardised = self.standardised if standardised is None else standardised

    @property
    def warning(self) -> str:
        if not self.standardised:
            return ""
        return (
            f"{', '.join(self.standardised)}: mean 0 and deviation 1 to three digits, as if standardised by the mean "
            "of these rows. Then every row depends on everybody, and what is lost is more than any ε printed here. "
            "Give the values as they were measured and declare their bounds: they are scaled by those."
        )

    def __str__(self) -> str:
        if not self.counts:
            return "no value lay outside the declared bounds"
        return "\n".join(
            f"{name}: {count} of {self.rows} values lay outside the declared bounds and were clipped"
            for name, count in self.counts.items()
        )


class Spreads:
    """Mean and deviation of columns with symmetric bounds, as they come: some were standardised by their mean."""

    def __init__(self, declared: Mapping[str, Declared]) -> None:
        bounds = {name: one.bounds for name, one in declared.items() if one.centred and one.bounds}
        self._sums = {name: np.zeros(3) for name, (low, high) in bounds.items() if low == -high}

    def add(self, name: str, values: NDArray[np.float64] | None) -> None:
        if name in self._sums and values is not None:
            present = values[np.isfinite(values)]
            # What is too large to be squared has no deviation of 1.
            with np.errstate(over="ignore"):
                self._sums[name] += np.array([present.size, present.sum(), present @ present])

    def standardised(self) -> tuple[str, ...]:
        """The columns with mean 0 and deviation 1 to three digits, over n or over n − 1."""

        def is_standard(count: float, total: float, squares: float) -> bool:
            if count < 2 or abs(total / count) >= _DIGITS:
                return False
            variance = max(squares / count - (total / count) ** 2, 0.0)
            scales = (1.0, count / (count - 1))
            return any(abs(math.sqrt(variance * scale) - 1) < _DIGITS for scale in scales)

        return tuple(name for name, sums in self._sums.items() if is_standard(*sums.tolist()))


def clamp_columns(rows: NDArray[np.int64], norm_squared: int) -> None:
    """Shorten, in place, every column vector of an integer matrix whose squared norm is above the bound.

    Guarantee: afterwards each column v of `rows` has ‖v‖² ≤ norm_squared, decided in exact integer arithmetic; columns
    within the bound do not change, and no entry changes its sign or grows. A record is a column here.
    """
    if rows.size == 0:
        return
    # Entries beyond this would overflow the 64-bit norms below; they are far past any bound.
    largest = math.isqrt((2**63 - 1) // len(rows))
    if norm_squared > largest**2:
        raise ValueError("this bound is too large for 64-bit norms")
    np.clip(rows, -largest, largest, out=rows)
    over = np.flatnonzero(_norms(rows) > norm_squared)
    if over.size == 0:
        return
    long = rows[:, over]
    # The margin is far above the few 2⁻⁵³ that the square root and the product can add.
    scale = np.sqrt(norm_squared / _norms(long).astype(np.float64)) * (1.0 - 2.0**-40)
    short = np.trunc(long * scale).astype(np.int64)
    short[:, _norms(short) > norm_squared] = 0
    rows[:, over] = short


def _norms(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    norms: NDArray[np.int64] = np.einsum("ij,ij->j", rows, rows)
    return norms


@dataclass(frozen=True)
class Block:
    """Rows in order: float64 within bounds, or int32 numbers of levels; `label` is the first one, if there is one."""

    columns: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None
    rows: int
    more_labels: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        for values in (*self.columns.values(), *self.labels):
            if values.shape != (self.rows,):
                raise ValueError(f"a block of {self.rows} rows holds an array of shape {values.shape}")

    @property
    def labels(self) -> tuple[NDArray[Any], ...]:
        return (*(() if self.label is None else (self.label,)), *self.more_labels)

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], labels: Sequence[NDArray[Any]], rows: int) -> Block:
        return cls(columns, labels[0] if labels else None, rows, tuple(labels[1:]))

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]], rows: int) -> Block:
        """The block with every array of it changed alike, so many rows of it then."""
        columns = {name: change(values) for name, values in self.columns.items()}
        return Block.of(columns, [change(values) for values in self.labels], rows)


def refuse_shape(values: object, where: str) -> None:
    """Raise unless it is a row of values in order: no table, no single value, nothing without an order or an end."""
    shape = getattr(values, "shape", (0,))
    if len(shape) != 1:
        raise DataError(
            f"{where}: it has {len(shape)} dimensions, and a column has one. Give each column by itself."
        )
    if isinstance(values, str | bytes | Set | Mapping) or not hasattr(values, "__len__"):
        raise DataError(
            f"{where}: found {type(values).__name__}; a column is an array or a list with a value for each person."
        )


def code_columns(
    values: Mapping[str, ArrayLike], declared: Mapping[str, Declared], where: str = ""
) -> dict[str, Coded]:
    """Raw values by column, each as declared; `where` begins what is said of one that is not."""
    coded = {}
    for name, one in declared.items():
        if name not in values:
            close = nearest_name(name, map(str, values))
            raise ColumnMissing(f"{where}column {name!r} is declared but missing.{close}")
        refuse_shape(values[name], f"{where}column {name!r}")
        coded[name] = code(values[name], one)
        coded[name].problems.refuse(f"{where}column {name!r}")
    if len({len(column.values) for column in coded.values()}) > 1:
        raise DataError(f"{where}the columns have different lengths.")
    return coded


def code_mapping(values: Mapping[str, ArrayLike], columns: Iterable[Column]) -> Block:
    """Raw values by column as a block without a label, for prediction."""
    coded = code_columns(values, {column.name: column for column in columns})
    arrays = {name: column.values for name, column in coded.items()}
    rows = next((len(np.asarray(one)) for one in [*arrays.values(), *values.values()]), 0)
    return Block(arrays, None, rows)


Wrong = dict[int, str]
"""What is wrong, by the number of its row."""


def usable_blocks(
    relation: Relation, columns: Sequence[Column], *, size: int
) -> Iterator[tuple[Block, Wrong]]:
    """Block by block the rows that are as declared, and why each other one, counted from the first row, is not."""
    names = [column.name for column in columns]
    floats = {column.name for column in columns if column.reads == "numbers"}
    start = 0
    for batch in relation.batches(names, size=size, floats=floats):
        wrong: Wrong = {}
        for column, values in zip(columns, batch.columns, strict=True):
            for row, sentence in wrong_rows(values, column):
                wrong.setdefault(row, f"column {column.name!r}: {sentence}")
        kept = np.array([row for row in range(batch.num_rows) if row not in wrong], dtype=np.intp)
        pairs = zip(columns, batch.columns, strict=True)
        coded = {column.name: code(values, column).values[kept] for column, values in pairs}
        yield Block(coded, None, len(kept)), {start + row: sentence for row, sentence in wrong.items()}
        start += batch.num_rows


def wrong_rows(values: pa.Array, column: Column) -> list[tuple[int, str]]:
    """Halves without a problem are passed over whole, so that few wrong rows are found quickly."""
    values = values_of(values)
    wrong, waiting = [], [(0, len(values))]
    while waiting:
        start, stop = waiting.pop()
        problems = code(values.slice(start, stop - start), column).problems if start < stop else None
        if not problems:
            continue
        if stop - start == 1:
            wrong.append((start, problems.sentence))
        else:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
    return wrong


PIECE_ROWS = 1 << 18
KEPT_BYTES = 1 << 26
"""Rows of a file that was read once are kept in memory up to this size."""
_AT, _ID, _LABEL = "at", "id", "label"
_Place = tuple[int, int, pa.Schema]


class _Spill:
    """Batches of rows on the disk, in a file without a name: nothing is left of it whatever happens."""

    def __init__(self, what: str) -> None:
        self._what, self._end = what, 0
        self._file: IO[bytes] | None = None

    def append(self, batch: pa.RecordBatch) -> _Place:
        content = batch.serialize()
        try:
            self._write(content)
        except OSError as error:
            raise CannotWrite(
                f"{self._what} do not fit into memory and cannot be written to {tempfile.gettempdir()} "
                f"({error.strerror or error}). Make room there, or name another folder in TMPDIR. Nothing was left "
                "there."
            ) from None
        self._end += content.size
        return self._end - content.size, content.size, batch.schema

    def _write(self, content: pa.Buffer) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="colonnade-")  # noqa: SIM115
        self._file.write(content)
        self._file.flush()

    def read(self, place: _Place) -> pa.RecordBatch:
        start, size, schema = place
        content = os.pread(self._file.fileno() if self._file is not None else -1, size, start)
        return pa.ipc.read_record_batch(pa.py_buffer(content), schema)


class SpilledRows:
    """Rows at some positions of a table, which is read from its beginning, in the order of those, on the disk."""

    def __init__(self, table: Any, positions: NDArray[Any]) -> None:
        self.name, self.count = table.name, len(positions)
        purpose = f"the {self.count} rows that are wanted in another order"
        self._spill = _Spill(f"party {table.party!r}, {table.name}: {purpose}")
        places = np.full(table.rows, -1, dtype=np.int64)
        places[positions] = np.arange(self.count)
        self._rows = self._write(map(_arrays, table.blocks()), places)
        self._ids = self._write(({_ID: some} for some in table.id_batches()), places)

    def ids(self) -> Iterator[pa.Array]:
        for piece in self._pieces(self._ids):
            yield piece.column(_ID).combine_chunks()

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        return _blocks(self._pieces(self._rows), size)

    def _write(self, batches: Iterable[Mapping[str, Any]], places: NDArray[np.int64]) -> list[list[_Place]]:
        """Where the parts of each piece lie."""
        index: list[list[_Place]] = [[] for _ in range(-(-self.count // PIECE_ROWS))]
        start = 0
        for columns in batches:
            whole = pa.RecordBatch.from_pydict(columns)
            here = places[start : start + len(whole)]
            for piece in np.unique(here[here >= 0] // PIECE_ROWS).tolist():
                rows = np.flatnonzero((here >= 0) & (here // PIECE_ROWS == piece))
                part = whole.take(pa.array(rows)).append_column(_AT, pa.array(here[rows]))
                index[piece].append(self._spill.append(part))
            start += len(whole)
        return index

    def _pieces(self, index: list[list[_Place]]) -> Iterator[pa.Table]:
        for parts in index:
            yield pa.Table.from_batches(map(self._spill.read, parts)).sort_by(_AT)


class KeptRows:
    """Rows in the order in which they were read once, with their ids: in memory, above `KEPT_BYTES` on the disk."""

    def __init__(self, where: str) -> None:
        self.count, self._size = 0, 0
        self._batches: list[pa.RecordBatch] = []
        self._places: list[_Place] = []
        self._spill = _Spill(f"{where}: its rows")

    def add(self, ids: pa.Array, block: Block) -> None:
        batch = pa.RecordBatch.from_pydict({_ID: ids, **_arrays(block)})
        self.count += len(batch)
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size > KEPT_BYTES:
            self._places += map(self._spill.append, self._batches)
            self._batches = []

    def ids(self) -> Iterator[pa.Array]:
        return (piece.column(_ID) for piece in self._pieces())

    def blocks(self, size: int) -> Iterator[Block]:
        return _blocks((pa.Table.from_batches([piece]) for piece in self._pieces()), size)

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        yield from map(self._spill.read, self._places)
        yield from self._batches


def _blocks(pieces: Iterable[pa.Table], size: int) -> Iterator[Block]:
    """Pieces of any length as blocks of `size` rows, the last of what is left."""
    waiting, rows = [], 0
    for piece in pieces:
        while len(piece):
            part = piece.slice(0, size - rows)
            waiting.append(part)
            rows, piece = rows + len(part), piece.slice(len(part))
            if rows == size:
                yield _block(pa.concat_tables(waiting))
                waiting, rows = [], 0
    if rows:
        yield _block(pa.concat_tables(waiting))


def _arrays(block: Block) -> dict[str, Any]:
    labels = {f"{_LABEL}{place}": values for place, values in enumerate(block.labels)}
    return {f"c{name}": values for name, values in block.columns.items()} | labels


def _block(rows: pa.Table) -> Block:
    arrays = {name: rows.column(name).to_numpy() for name in rows.column_names if name not in (_AT, _ID)}
    for values in arrays.values():
        values.flags.writeable = False
    columns = {name[1:]: values for name, values in arrays.items() if name.startswith("c")}
    return Block.of(columns, [arrays[name] for name in arrays if name.startswith(_LABEL)], rows.num_rows)
