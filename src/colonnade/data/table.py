"""One party's rows: a file, a query or arrays, read in blocks, under a declared schema.

Errors name party, file and column, and count; they never show a value or an id, and are not sent to peers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from colonnade import errors
from colonnade.data.arrays import columns_by_name, of_texts, owned, text_bytes, texts
from colonnade.data.block import (
    Block,
    ClippingLog,
    KeptRows,
    SpilledRows,
    Spreads,
    code_columns,
    refuse_shape,
)
from colonnade.data.coding import Coded, Declared, Problems, code
from colonnade.data.declaring import expand_name, nearest_name
from colonnade.data.documents import Document
from colonnade.data.ids import hashes, missing_ids, refuse_ids, spell_ids
from colonnade.data.schema import PublicSchema, Schema, blanks
from colonnade.data.sources import FileSource, Source
from colonnade.markup import html_table

_IDS = 1 << 16
# What messages call the source of a table in memory.
_ARRAYS = "arrays"
Piece = TypeVar("Piece")


class SourceRows:
    """The rows of one source, in the memory of one block, of sixteen bytes an id and of what is kept of a file."""

    def __init__(self, party: str, source: Source, schema: Schema) -> None:
        self._schema, self.source, self.is_query = schema, source, source.is_query
        self._ids_are_good = False
        self._kept: KeptRows | None = None
        self._readings: dict[str, bytes] = {}
        self._declared = schema.declared
        self._numbers = {name for name, declared in self._declared.items() if declared.reads == "numbers"}
        names = (*schema.id_columns, *self._declared)
        self._rows = source.open(party=party, keys=schema.id_columns, columns=names)
        self.name = self._rows.name
        self._where = owned(party, self.name)
        fields, what = self._rows.fields, "query" if self.is_query else "file"
        for name in names:
            if name not in fields:
                wrong = f"column {name!r} is declared but not in the {what}." + nearest_name(name, fields)
                raise self._wrong(wrong, errors.ColumnMissing)
        for name, declared in self._declared.items():
            self._check_type(name, declared)

    @cached_property
    def count(self) -> int:
        rows = self._rows.count() if self._kept is None else self._kept.count
        if not rows:
            raise self._wrong("there are no rows.")
        return rows

    def ids(self) -> Iterator[pa.Array]:
        if self._kept is not None:
            return self._unchanged(self._kept.ids())
        if not self._ids_are_good:
            self._check_ids(self._spelt_ids())
            self._ids_are_good = True
        return self._spelt_ids()

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        if self._kept is not None:
            return self._unchanged(self._kept.blocks(size))
        return (block for _, block in self._coded((), size, log))

    def keep(self, log: ClippingLog, tell: Callable[[int, int], None]) -> None:
        """Read a file once and keep its rows as declared; what is wrong with ids is told before other mistakes."""
        if self._kept is not None:
            for _ in self.ids():
                pass
            tell(self._kept.count, self._kept.count)
            return
        kept, wrong = KeptRows(self._where), None
        try:
            # Their number, if somebody has asked for it: for a bar of progress alone nothing is read.
            total = vars(self).get("count", 0)
            for ids, block in self._coded(self._schema.id_columns, _IDS, log):
                kept.add(self._spelt(ids), block)
                tell(kept.count, total)
        except errors.DataError as error:
            wrong = error
        self._check_ids(kept.ids() if wrong is None else self._spelt_ids())
        if wrong is not None:
            raise wrong
        self._kept = kept

    def _unchanged(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        yield from pieces
        self._rows.check_unchanged()

    def _coded(
        self, keys: Sequence[str], size: int, log: ClippingLog
    ) -> Iterator[tuple[Sequence[pa.Array], Block]]:
        """The rows in order, `size` at a time, with the columns `keys` as they are."""
        counts = dict.fromkeys(self._declared, 0)
        seen = 0
        digest, spreads = _Digest(), Spreads(self._declared)
        for batch in self._batches([*keys, *self._declared], size):
            arrays: dict[str, NDArray[Any]] = {}
            for name, values in zip(self._declared, batch.columns[len(keys) :], strict=True):
                coded = self._code(name, values)
                arrays[name], counts[name] = coded.values, counts[name] + coded.clipped
                spreads.add(name, coded.raw)
            if self.is_query:
                digest.add(arrays)
            seen += batch.num_rows
            targets = [arrays.pop(label.column) for label in self._schema.labels]
            yield batch.columns[: len(keys)], Block.of(arrays, targets, batch.num_rows)
        if not seen:
            raise self._wrong("there are no rows.")
        self._check_same("values", digest)
        log.finish(counts, rows=seen, standardised=spreads.standardised())

    def read_again(self) -> None:
        """Read a query once more, ids beside values: one that samples gives other rows, and only this shows it."""
        ids, values = _Digest(), _Digest()
        keys = len(self._schema.id_columns)
        for batch in self._batches([*self._schema.id_columns, *self._declared], _IDS):
            ids.add_texts("ids", self._spelt(batch.columns[:keys]))
            coded = zip(self._declared, batch.columns[keys:], strict=True)
            values.add({name: self._code(name, column).values for name, column in coded})
        self._check_same("rows", ids)
        self._check_same("values", values)

    def _batches(self, names: list[str], size: int) -> Iterator[pa.RecordBatch]:
        return self._rows.batches(names, size=size, floats=self._numbers)

    def _code(self, name: str, values: pa.Array) -> Coded:
        coded = code(values, self._declared[name])
        if coded.problems:
            # All rows are counted, so that their owner has to correct them once.
            batches = self._batches([name], _IDS)
            all_rows = (code(batch.columns[0], self._declared[name]).problems for batch in batches)
            problems = sum(all_rows, Problems()) or coded.problems
            problems.refuse(f"{self._where}, column {name!r}")
        return coded

    def _check_type(self, name: str, declared: Declared) -> None:
        field = self._rows.fields[name]
        if field.holds == "nested":
            raise self._wrong(
                f"column {name!r} holds lists or records, and a column here has one value for each person. Unfold it "
                "into columns of their own first, or read it by a query that does.",
                errors.BadValues,
            )
        if field.holds == "binary":
            wrong = f"column {name!r} holds binary values. Leave it out, or turn it into text."
            raise self._wrong(wrong, errors.BadValues)
        if declared.reads == "levels" or field.holds in ("nothing", "text", declared.reads.removesuffix("s")):
            return
        advice = "Declare it binary or categorical, or turn it into numbers."
        if declared.reads == "dates":
            advice = "Declare it as what it holds, or turn it into dates."
        elif field.holds == "date":
            advice = "Declare it as dates."
        raise self._wrong(
            f"column {name!r} is declared as {declared.reads} but holds {field.kind} values. {advice}",
            errors.BadValues,
        )

    def _spelt_ids(self) -> Iterator[pa.Array]:
        digest = _Digest()
        for batch in self._rows.batches(self._schema.id_columns, size=_IDS):
            spelt = self._spelt(batch.columns)
            if self.is_query:
                digest.add_texts("ids", spelt)
            yield spelt
        self._check_same("rows", digest)

    def _spelt(self, ids: Sequence[pa.Array]) -> pa.Array:
        return spell_ids(ids, self._schema.id_columns, self._schema.id_spelling, where=self._where)

    def _check_same(self, what: str, digest: _Digest) -> None:
        """Every complete reading of a query gives what the first one gave. A file shows itself whether it changed."""
        read = b"".join(column.digest() for column in digest.columns.values())
        if self.is_query and self._readings.setdefault(what, read) != read:
            raise self._wrong(
                f"two readings of the query gave different {what}: it samples, draws random numbers, or takes the "
                "first rows of an order that is not fixed. Keep what it gives in a table of its own and select from "
                "that, so that every reading is of the same rows.",
                errors.QueryRefused,
            )

    def _check_ids(self, ids: Iterator[pa.Array]) -> None:
        """Refuse missing and repeated ids. Only where two hashes agree are the ids themselves compared."""
        pieces, missing = [], 0
        for spelt in ids:
            pieces.append(hashes(spelt))
            missing += missing_ids(spelt)
        ranked = np.sort(np.concatenate(pieces)) if pieces else np.zeros(0, dtype=np.int64)
        same = ranked[1:][ranked[1:] == ranked[:-1]]
        suspects: Counter[str] = Counter()
        for spelt in self._spelt_ids() if len(same) else ():
            alike = np.isin(hashes(spelt), same)
            suspects.update(map(str, texts(spelt.filter(pa.array(alike)))))
        suspects.pop("", None)
        repeated = sum(times - 1 for times in suspects.values())
        refuse_ids(missing, repeated, self._schema.id_columns, where=self._where)

    def _wrong(self, message: str, kind: type[errors.DataError] = errors.DataUnreadable) -> errors.DataError:
        return kind(f"{self._where}: {message}")


class _Digest:
    """A digest of columns that does not depend on how their rows are parted into batches."""

    def __init__(self) -> None:
        self.columns: dict[str, Any] = {}

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        for name, values in columns.items():
            self.columns.setdefault(name, hashlib.blake2b(digest_size=16)).update(values.tobytes())

    def add_texts(self, name: str, column: pa.Array) -> None:
        lengths, content = text_bytes(column)
        self.add({f"{name} lengths": lengths, name: content})


BLOCK_ROWS = 1 << 16
MEMORY_BYTES = 1 << 28
"""Rows that are taken out of a table are held in memory up to this size."""


class Rows(Protocol):
    """Where the rows of a table come from."""

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int: ...

    def ids(self) -> Iterator[pa.Array]:
        """The ids in order, some at a time; missing and repeated ones are a `DataError` before the first."""
        ...

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        """The rows in order, at most `size` at a time."""
        ...


class Table:
    """One party's rows and what it declared about them.

    Opening a file reads its header only; `check` reads it once, and keeps its rows in memory or on the disk.

    >>> schema = Schema.parse('''id = "customer"
    ... columns.age = {kind = "numeric", low = 17, high = 90}''')
    >>> table = Table.from_arrays("bank", {"customer": [12, 7], "age": [30, 99]}, schema)
    >>> table.rows, list(table.ids()), str(table.clipping)
    (2, ['12', '7'], 'age: 1 of 2 values lay outside the declared bounds and were clipped')
    """

    # Of several labels the one that its blocks have; all where None.
    _label: int | None = None

    def __init__(self, party: str, source: str | Path | Source, schema: Schema) -> None:
        check_declared(party, schema)
        where = FileSource(Path(source)) if isinstance(source, str | Path) else source
        self.party, self.schema, self.clipping = party, schema, ClippingLog()
        self._rows: Rows = SourceRows(party, where, schema)

    @classmethod
    def of_rows(
        cls,
        party: str,
        rows: Rows,
        schema: Schema,
        clipping: ClippingLog | None = None,
        *,
        label: int | None = None,
    ) -> Table:
        """A table over rows that are already as declared, of several labels perhaps the one at this place only."""
        self = cls.__new__(cls)
        self._label = label
        self.party, self.schema, self._rows = party, schema, rows
        self.clipping = clipping or ClippingLog()
        return self

    @classmethod
    def of(cls, party: str, frame: Any, schema: Schema, *, ids: ArrayLike | None = None) -> Table:
        """A table in memory, of anything with named columns; without any ids rows are numbered from 0."""
        arrays = columns_by_name(frame)
        if arrays is None:
            raise errors.DataError(
                f"party {party!r}, {_ARRAYS}: columns are given by name, as a data frame or {{'age': ages}}, not as "
                f"{type(frame).__name__}."
            )
        rows, clipping = _array_rows(party, arrays, schema, ids)
        return cls.of_rows(party, rows, schema, clipping)

    from_arrays = of

    @property
    def name(self) -> str:
        return self._rows.name

    def _repr_html_(self) -> str:
        """A table for notebooks: what is declared. No row is read for it."""
        rows = [(column.name, column.kind) for column in self.schema.columns]
        rows += [(label.column, f"label: {label.kind}") for label in self.schema.labels]
        return html_table(f"{self.party}'s table, {self.name}", ("column", "declared as"), rows)

    @property
    def rows(self) -> int:
        return self._rows.count

    def ids(self) -> Iterator[str]:
        """The ids in order, as text. Missing or repeated ids are refused."""
        for batch in self._rows.ids():
            yield from map(str, texts(batch))

    def id_batches(self) -> Iterator[pa.Array]:
        return self._rows.ids()

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[Block]:
        """The rows in order, at most `size` at a time; every block but the last has exactly `size`."""
        if size < 1:
            raise ValueError(f"a block has at least one row, not {size}")
        blocks = self._rows.blocks(size, self.clipping)
        if self._label is None:
            return blocks
        return (Block(block.columns, block.labels[self._label], block.rows) for block in blocks)

    def check(self, progress: Callable[[str, int, int], None] | None = None) -> Table:
        """Read everything, a query twice, so that what is wrong is found before anything is charged."""

        def tell(seen: int, total: int) -> None:
            if progress is not None:
                progress(f"checking {self.party}", seen, max(seen, total))

        if isinstance(self._rows, SourceRows) and not self._rows.is_query:
            self._rows.keep(self.clipping, tell)
            return self
        for _ in self._rows.ids():
            pass
        seen = 0
        for block in self.blocks():
            seen += block.rows
            tell(seen, self.rows)
        if isinstance(self._rows, SourceRows):
            self._rows.read_again()
        return self

    def take(self, positions: ArrayLike) -> Table:
        """The rows at these positions, in any order, from one reading; above `MEMORY_BYTES` they are on the disk."""
        places = np.asarray(positions)
        if places.ndim != 1 or places.dtype.kind not in "iu" or not places.size:
            raise ValueError("positions are a list of row numbers, at least one")
        if not 0 <= places.min() <= places.max() < self.rows:
            raise ValueError(f"positions run from 0 to {self.rows - 1}")
        named = np.zeros(self.rows, dtype=bool)
        named[places] = True
        if int(np.count_nonzero(named)) != len(places):
            raise ValueError("a row cannot be taken twice")
        values = len(self.schema.columns) + len(self.schema.labels)
        large = len(places) * 8 * (values + 2) > MEMORY_BYTES
        rows: Rows
        if large:
            rows = SpilledRows(self, places)
        elif isinstance(self._rows, ArrayRows) and self._label is None:
            rows = self._rows.take(places)
        else:
            rows = _gather(self, places)
        return Table.of_rows(self.party, rows, self.schema, self.clipping)

    def for_label(self, label: str) -> Table:
        schema = self.schema.for_label(label)
        if schema is self.schema:
            return self
        if isinstance(self._rows, SourceRows):
            return Table(self.party, self._rows.source, schema)
        place = [one.column for one in self.schema.labels].index(label)
        return Table.of_rows(self.party, self._rows, schema, self.clipping, label=place)

    def public(self) -> PublicSchema:
        return self.schema.public(self.party)


class ArrayRows:
    def __init__(self, name: str, block: Block, ids: Sequence[str] | pa.Array) -> None:
        self.name = name
        self.count = block.rows
        self._block = block
        self._ids = ids if isinstance(ids, pa.Array) else of_texts(list(ids))

    def ids(self) -> Iterator[pa.Array]:
        for start in range(0, self.count, BLOCK_ROWS):
            yield self._ids.slice(start, BLOCK_ROWS)

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        """Slices, without copying; they cannot be written to."""
        for start in range(0, self.count, size):
            part = slice(start, min(start + size, self.count))
            yield self._block.each(itemgetter(part), part.stop - start)

    def take(self, positions: NDArray[Any]) -> ArrayRows:
        block = self._block.each(lambda values: _frozen(values[positions]), len(positions))
        return ArrayRows(self.name, block, self._ids.take(pa.array(positions)))


def _array_rows(
    party: str, arrays: Mapping[str, ArrayLike], schema: Schema, ids: ArrayLike | None
) -> tuple[ArrayRows, ClippingLog]:
    check_declared(party, schema)
    where, declared = f"party {party!r}, {_ARRAYS}", schema.declared
    coded = code_columns(arrays, declared, f"{where}, ")
    spreads = Spreads(declared)
    for column, result in coded.items():
        spreads.add(column, result.raw)
    rows = len(next(iter(coded.values())).values)
    if not rows:
        raise errors.DataUnreadable(f"{where}: there are no rows.")
    spelt = _array_ids(where, arrays, schema, ids)
    spelt = of_texts([str(number) for number in range(rows)]) if spelt is None else spelt
    if len(spelt) != rows:
        raise errors.DataError(f"{where}: {len(spelt)} ids for {rows} rows.")
    repeated = rows - len(set(texts(spelt)))
    refuse_ids(missing_ids(spelt), repeated, schema.id_columns, where=where)
    log = ClippingLog()
    counts = {column: result.clipped for column, result in coded.items()}
    log.finish(counts, rows=rows, standardised=spreads.standardised())
    frozen = {column: _frozen(result.values) for column, result in coded.items()}
    labels = [frozen.pop(label.column) for label in schema.labels]
    return ArrayRows(_ARRAYS, Block.of(frozen, labels, rows), spelt), log


def _array_ids(
    where: str, arrays: Mapping[str, ArrayLike], schema: Schema, ids: ArrayLike | None
) -> pa.Array | None:
    """The ids that are given, or those of the schema's id columns; None where none of these is there."""
    # Ids that are given by themselves are one column, whatever the schema makes them of.
    columns = schema.id_columns if ids is None else (schema.id_name,)
    given = [ids] if ids is not None else [arrays[key] for key in columns if key in arrays]
    if not given:
        return None
    if len(given) < len(columns):
        absent = next(key for key in columns if key not in arrays)
        close = nearest_name(absent, arrays)
        raise errors.ColumnMissing(f"{where}: id column {absent!r} is declared but missing.{close}")
    for key, values in zip(columns, given, strict=True):
        refuse_shape(values, f"{where}, id column {key!r}")
    return spell_ids(given, columns, schema.id_spelling, where=where)


def _gather(table: Table, positions: NDArray[Any]) -> ArrayRows:
    into_all = np.full(table.rows, -1, dtype=np.int32)
    into_all[positions] = np.arange(len(positions), dtype=np.int32)
    columns: dict[str, NDArray[Any]] = {}
    labels: dict[int, NDArray[Any]] = {}
    start = 0
    for block in table.blocks():
        into = into_all[start : start + block.rows]
        here = np.flatnonzero(into >= 0)
        into = into[here]
        for name, values in block.columns.items():
            columns.setdefault(name, np.empty(len(positions), dtype=values.dtype))[into] = values[here]
        for place, values in enumerate(block.labels):
            labels.setdefault(place, np.empty(len(positions), dtype=values.dtype))[into] = values[here]
        start += block.rows
    ids = pa.concat_arrays(list(table.id_batches()))
    used = Block.of(columns, list(labels.values()), len(positions)).each(_frozen, len(positions))
    return ArrayRows(table.name, used, ids.take(pa.array(positions)))


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    view = values.view()
    view.flags.writeable = False
    return view


def check_declared(party: object, schema: object) -> None:
    if not isinstance(party, str):
        raise errors.DataError(f"a table belongs to a party; found {party!r}. Give the party's name.")
    if not isinstance(schema, Schema):
        raise errors.SchemaError(
            f"a table is declared by a Schema, not by {type(schema).__name__}. `Schema.load` reads one from a file, "
            "`Schema.parse` from a text."
        )


@dataclass(frozen=True)
class AlignedTable:
    """What protocols take: only alignment makes one.

    `digest` is what the parties compared; equal digests mean equal ids in equal order. `rows` is public.
    """

    table: Table
    rows: int
    digest: bytes

    def __post_init__(self) -> None:
        if self.rows != self.table.rows:
            raise errors.DataError(
                f"party {self.party!r}: {self.rows} rows were aligned, but {self.table.name} has {self.table.rows}."
            )

    @property
    def party(self) -> str:
        return self.table.party

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[Block]:
        return self.table.blocks(size)


@dataclass(frozen=True)
class Findings:
    """What a schema lacks: places left blank, columns that its data does not have, or one mistake."""

    name: str
    blank: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    mistake: str | None = None

    @property
    def complete(self) -> bool:
        return not (self.blank or self.absent or self.mistake)


def check_schema(path: Path, source: Source | None = None, *, party: str = "") -> Findings:
    """What a schema file lacks, by itself or beside the columns of its data; no row is read."""
    document = Document.load(path)
    blank = tuple(document.where(path) for path in blanks(document.data))
    absent: tuple[str, ...] = ()
    if source is not None:
        fields = source.open(party=party, columns=tuple(_declared(document.data))).fields
        absent = tuple(
            f"column {name!r} is declared but not in the {source}." + nearest_name(name, fields)
            for name in _declared(document.data)
            if name not in fields
        )
    mistake = None
    try:
        if not blank:
            schema = Schema.load(path)
            if source is not None and not absent:
                SourceRows(party, source, schema)
    except errors.InputError as wrong:
        mistake = str(wrong)
    return Findings(document.name, blank, absent, mistake)


def _declared(data: Mapping[str, Any]) -> list[str]:
    identity, columns, label = data.get("id"), data.get("columns"), data.get("label")
    named = [identity.get("column") if isinstance(identity, Mapping) else identity]
    # Where a name is wrong, reading the schema says so.
    with suppress(errors.Misdeclared):
        names = columns if isinstance(columns, Mapping) else ()
        named += [name for written in names for name in expand_name(written, ("columns", written))]
    named += [label.get("column")] if isinstance(label, Mapping) else []
    return [name for name in named if isinstance(name, str) and name]
