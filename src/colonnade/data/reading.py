"""Files read through DuckDB, streaming: CSV (plain or gzip) and Parquet, only the declared columns.

DuckDB's own messages about a bad file quote its rows, so none of them is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.data.clipping import ClippingLog
from colonnade.data.coding import Coded, Problems, code, refuse_ids, spell_ids
from colonnade.data.columns import Column, NumericColumn, nearest
from colonnade.data.query import BLANKS, File
from colonnade.data.schema import Schema
from colonnade.data.targets import CountLabel, Label, RealLabel
from colonnade.errors import DataError

_IDS = 1 << 16


class FileRows:
    """The rows of one file. Opening it looks at its header only.

    Memory is one block, plus sixteen bytes a row while ids are checked for repetition.

    >>> schema = Schema.parse('''id = "customer"
    ... columns.age = {kind = "numeric", low = 17, high = 90}''')
    >>> FileRows("bank", Path("no such file.csv"), schema)
    Traceback (most recent call last):
    colonnade.errors.DataError: party 'bank', file no such file.csv does not exist.
    """

    def __init__(self, party: str, path: Path, schema: Schema) -> None:
        self.name = f"file {path}"
        self._party, self._schema = party, schema
        self._ids_are_good = False
        self._declared: dict[str, Column | Label] = {column.name: column for column in schema.columns}
        if schema.label is not None:
            self._declared[schema.label.column] = schema.label
        names = (schema.id, *self._declared)
        self._file = File.open(path, party=party, wanted=names)
        for name in names:
            if name not in self._file.columns:
                raise self._wrong(
                    f"column {name!r} is declared but not in the file." + nearest(name, self._file.columns)
                )
        for name, declared in self._declared.items():
            column = self._file.columns[name]
            if _is_number(declared) and not (column.is_text or column.is_number):
                raise self._wrong(
                    f"column {name!r} is declared as numbers but holds {column.kind} values. "
                    "Declare it binary or categorical, or turn it into numbers."
                )

    @cached_property
    def count(self) -> int:
        """The number of rows; a file without any is refused."""
        rows = self._file.count()
        if not rows:
            raise self._wrong("there are no rows.")
        return rows

    def ids(self) -> Iterator[list[str]]:
        """The ids in order, some at a time."""
        if not self._ids_are_good:
            self._check_ids()
            self._ids_are_good = True
        return self._spelt_ids()

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        """The rows in order, `size` at a time."""
        counts = dict.fromkeys(self._declared, 0)
        label, seen = self._schema.label, 0
        for batch in self._file.batches([self._select(name) for name in self._declared], size):
            arrays: dict[str, NDArray[Any]] = {}
            for name, values in zip(self._declared, batch.columns, strict=True):
                coded = self._code(name, values)
                arrays[name], counts[name] = coded.values, counts[name] + coded.clipped
            seen += batch.num_rows
            target = arrays.pop(label.column) if label else None
            yield Block(arrays, target, batch.num_rows)
        if not seen:
            raise self._wrong("there are no rows.")
        log.finish(counts, rows=seen)

    def _code(self, name: str, values: pa.Array) -> Coded:
        coded = code(values, self._declared[name])
        if coded.problems:
            # The whole file is counted, so that its owner has to correct it once.
            problems = self._problems(name) or coded.problems
            problems.refuse(party=self._party, source=self.name, column=name)
        return coded

    def _problems(self, name: str) -> Problems:
        total = Problems()
        for batch in self._file.batches([self._select(name)], _IDS):
            total += code(batch.column(0), self._declared[name]).problems
        column = self._file.columns[name]
        if _is_number(self._declared[name]) and column.is_text:
            # A text that is no number reads as missing.
            text = self._file.count(
                f"{self._select(name)} IS NULL AND trim({column.identifier}, {BLANKS}) <> ''"
            )
            total += Problems(missing=-text, text=text)
        return total

    def _select(self, name: str) -> str:
        column = self._file.columns[name]
        if not _is_number(self._declared[name]):
            return column.identifier
        if column.is_text:
            return f"TRY_CAST(trim({column.identifier}, {BLANKS}) AS DOUBLE)"
        return f"CAST({column.identifier} AS DOUBLE)"

    def _spelt_ids(self) -> Iterator[list[str]]:
        for batch in self._file.batches([self._file.columns[self._schema.id].identifier], _IDS):
            yield spell_ids(batch.column(0), party=self._party, source=self.name, column=self._schema.id)

    def _check_ids(self) -> None:
        """Refuse missing and repeated ids. Only where two hashes agree are the ids themselves compared."""
        pieces, missing = [], 0
        for spelt in self._spelt_ids():
            pieces.append(np.fromiter(map(hash, spelt), dtype=np.int64, count=len(spelt)))
            missing += spelt.count("")
        hashes = np.sort(np.concatenate(pieces)) if pieces else np.zeros(0, dtype=np.int64)
        same = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
        suspects: dict[str, int] = {}
        for spelt in self._spelt_ids() if same else ():
            for one in spelt:
                if hash(one) in same:
                    suspects[one] = suspects.get(one, 0) + 1
        suspects.pop("", None)
        repeated = sum(times - 1 for times in suspects.values())
        refuse_ids(missing, repeated, party=self._party, source=self.name, column=self._schema.id)

    def _wrong(self, message: str) -> DataError:
        return DataError(f"party {self._party!r}, {self.name}: {message}")


def _is_number(declared: Column | Label) -> bool:
    return isinstance(declared, NumericColumn | RealLabel | CountLabel)
