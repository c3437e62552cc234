"""The rows of a source under a schema, streaming, only the declared columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.data.arrays import text_bytes, texts
from colonnade.data.block import Block
from colonnade.data.clipping import ClippingLog
from colonnade.data.coding import Coded, code, holds_numbers, symmetric_numbers
from colonnade.data.columns import Column, DateColumn, nearest
from colonnade.data.databases import DuckDBRelation, SQLiteRelation
from colonnade.data.files import open_file
from colonnade.data.ids import hashes, missing_ids, refuse_ids, spell_ids
from colonnade.data.postgresql import PostgreSQLRelation
from colonnade.data.problems import Problems
from colonnade.data.relation import Relation, refusal
from colonnade.data.schema import Schema
from colonnade.data.sources import DuckDBSource, FileSource, PostgreSQLSource, Source, SQLiteSource
from colonnade.data.targets import Label
from colonnade.errors import BadValues, ColumnMissing, DataError, DataUnreadable, QueryRefused

_IDS = 1 << 16


def open_source(
    source: Source, *, party: str, keys: tuple[str, ...] = (), wanted: tuple[str, ...] = ()
) -> Relation:
    """The rows of a source, none of them read yet; `keys` are the id columns that order a query's rows."""
    match source:
        case FileSource(path=path):
            return open_file(path, party=party, wanted=wanted)
        case DuckDBSource():
            return DuckDBRelation(source, party=party, keys=keys)
        case SQLiteSource():
            return SQLiteRelation(source, party=party, keys=keys)
        case PostgreSQLSource():
            return PostgreSQLRelation(source, party=party, keys=keys)


class SourceRows:
    """The rows of one source. Opening it looks at its columns only.

    Memory is one block, plus sixteen bytes a row while ids are checked for repetition.
    """

    def __init__(self, party: str, source: Source, schema: Schema) -> None:
        self._party, self._schema, self.source = party, schema, source
        self._ids_are_good = False
        self.is_query = not isinstance(source, FileSource)
        self._readings: dict[str, bytes] = {}
        self._declared: dict[str, Column | Label] = {column.name: column for column in schema.columns}
        self._declared |= {label.column: label for label in schema.labels}
        self._numbers = {name for name, declared in self._declared.items() if holds_numbers(declared)}
        names = (*schema.id_columns, *self._declared)
        self._rows = open_source(source, party=party, keys=schema.id_columns, wanted=names)
        self.name = self._rows.name
        what = "query" if self.is_query else "file"
        for name in names:
            if name not in self._rows.fields:
                raise self._wrong(
                    f"column {name!r} is declared but not in the {what}." + nearest(name, self._rows.fields),
                    ColumnMissing,
                )
        for name, declared in self._declared.items():
            self._check_type(name, declared)

    @cached_property
    def count(self) -> int:
        """The number of rows; a source without any is refused."""
        rows = self._rows.count()
        if not rows:
            raise self._wrong("there are no rows.")
        return rows

    def ids(self) -> Iterator[pa.Array]:
        """The ids in order, some at a time."""
        if not self._ids_are_good:
            self._check_ids()
            self._ids_are_good = True
        return self._spelt_ids()

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        """The rows in order, `size` at a time."""
        counts = dict.fromkeys(self._declared, 0)
        seen = 0
        digest, spreads = _Digest(), symmetric_numbers(self._declared)
        for batch in self._batches(list(self._declared), size):
            arrays: dict[str, NDArray[Any]] = {}
            for name, values in zip(self._declared, batch.columns, strict=True):
                coded = self._code(name, values)
                arrays[name], counts[name] = coded.values, counts[name] + coded.clipped
                spreads.add(name, coded.raw)
            if self.is_query:
                digest.add(arrays)
            seen += batch.num_rows
            targets = [arrays.pop(label.column) for label in self._schema.labels]
            yield Block.of(arrays, targets, batch.num_rows)
        if not seen:
            raise self._wrong("there are no rows.")
        self._check_same("values", digest)
        log.finish(counts, rows=seen, standardised=spreads.standardised())

    def read_again(self) -> None:
        """Read a query once more, ids beside values: what differs from the first reading would differ from the next.

        Ids and values are read one after another, and a run reads them several times. A query that samples or draws
        random numbers gives other rows each time, and nothing else would show it.
        """
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
            problems = self._problems(name) or coded.problems
            problems.refuse(party=self._party, source=self.name, column=name)
        return coded

    def _problems(self, name: str) -> Problems:
        total = Problems()
        for batch in self._batches([name], _IDS):
            total += code(batch.columns[0], self._declared[name]).problems
        return total

    def _check_type(self, name: str, declared: Column | Label) -> None:
        field = self._rows.fields[name]
        if field.is_nested:
            raise self._wrong(
                f"column {name!r} holds lists or records, and a column here has one value for each person. Unfold it "
                "into columns of their own first, or read it by a query that does.",
                BadValues,
            )
        if field.kind == "BLOB":
            raise self._wrong(
                f"column {name!r} holds binary values. Leave it out, or turn it into text.", BadValues
            )
        if field.is_empty:
            return
        if holds_numbers(declared) and not (field.is_text or field.is_number):
            raise self._wrong(
                f"column {name!r} is declared as numbers but holds {field.kind} values. "
                + (
                    "Declare it as dates."
                    if field.is_date
                    else "Declare it binary or categorical, or turn it into numbers."
                ),
                BadValues,
            )
        if isinstance(declared, DateColumn) and not (field.is_text or field.is_date):
            raise self._wrong(
                f"column {name!r} is declared as dates but holds {field.kind} values. Declare it as what it holds, or "
                "turn it into dates.",
                BadValues,
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
        return spell_ids(
            ids,
            party=self._party,
            source=self.name,
            columns=self._schema.id_columns,
            spelling=self._schema.id_spelling,
        )

    def _check_same(self, what: str, digest: _Digest) -> None:
        """Every complete reading of a query gives what the first one gave. A file shows itself whether it changed."""
        read = digest.of_all()
        if self.is_query and self._readings.setdefault(what, read) != read:
            raise self._wrong(
                f"two readings of the query gave different {what}: it samples, draws random numbers, or takes the "
                "first rows of an order that is not fixed. Keep what it gives in a table of its own and select from "
                "that, so that every reading is of the same rows.",
                QueryRefused,
            )

    def _check_ids(self) -> None:
        """Refuse missing and repeated ids. Only where two hashes agree are the ids themselves compared."""
        pieces, missing = [], 0
        compiled = False
        for spelt in self._spelt_ids():
            # Of a long list the first piece is a full one.
            compiled = compiled or len(spelt) == _IDS
            pieces.append(hashes(spelt, compiled=compiled))
            missing += missing_ids(spelt)
        ranked = np.sort(np.concatenate(pieces)) if pieces else np.zeros(0, dtype=np.int64)
        same = ranked[1:][ranked[1:] == ranked[:-1]]
        suspects: Counter[str] = Counter()
        for spelt in self._spelt_ids() if len(same) else ():
            alike = np.isin(hashes(spelt, compiled=compiled), same)
            suspects.update(map(str, texts(spelt.filter(pa.array(alike)))))
        suspects.pop("", None)
        repeated = sum(times - 1 for times in suspects.values())
        refuse_ids(missing, repeated, party=self._party, source=self.name, columns=self._schema.id_columns)

    def _wrong(self, message: str, kind: type[DataError] = DataUnreadable) -> DataError:
        return refusal(self._party, self.name, message, kind=kind)


class _Digest:
    """A digest of columns that does not depend on how their rows are parted into batches."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        for name, values in columns.items():
            self._columns.setdefault(name, hashlib.blake2b(digest_size=16)).update(values.tobytes())

    def add_texts(self, name: str, column: pa.Array) -> None:
        lengths, content = text_bytes(column)
        self.add({f"{name} lengths": lengths, name: content})

    def of_all(self) -> bytes:
        return b"".join(column.digest() for column in self._columns.values())
