"""A party's own function of its columns, with a declared norm: for embeddings, scores or formulas that it trusts.

It runs at home; peers see its name and the digest of its source in the plan, and never the function.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from colonnade.data.block import Block, ClippingLog, code_mapping
from colonnade.data.declaring import nearest_name
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.maps import DECLARED, MOST_FEATURES, Ball, FeatureMap
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import DataError, Misdeclared

Person = Mapping[str, Any]
_LARGEST = 1e150


@dataclass(frozen=True)
class OwnMap:
    """A function of one person's columns to so many numbers, whose norm is at most `bound`; longer ones are shortened.

    `function` takes a mapping from names to values: numbers within bounds, days for dates, names of categories. It must
    give the same numbers each time and keep nothing in mind from one person to the next, because the price of a release
    assumes that one person changes one row. The columns that it `reads`, none named for all, are replaced. `sha256` is
    by default the digest of its source; give your own where that does not tell, as with a model's weights.
    """

    name: str
    function: Callable[[Person], ArrayLike]
    features: int
    bound: float
    reads: tuple[str, ...] = ()
    weight: int | None = None
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise DECLARED.wrong("name", "a function needs a name by which peers know it.")
        DECLARED.check_whole("features", self.features, low=1, high=MOST_FEATURES)
        if not self.sha256:
            try:
                source = inspect.getsource(self.function)
            except (OSError, TypeError):
                said = f"the source of the function {self.name!r} is not at hand to be hashed."
                advice = "Give sha256, a digest that says which function it is."
                raise DECLARED.wrong("sha256", f"{said} {advice}") from None
            object.__setattr__(self, "sha256", hashlib.sha256(source.encode()).hexdigest())
        Ball(self.bound, self.name, self.sha256)

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        return tuple(
            NumericColumn(f"{self.name}{number}", -self.bound, self.bound) for number in range(self.features)
        )

    def schema(self, declared: Schema) -> Schema:
        """The schema of the mapped table: columns that the function does not read, then what comes out of it."""
        if declared.map is not None:
            raise Misdeclared(("map",), f"map: the columns go through {declared.map.rule.kind!r} already.")
        names = [column.name for column in declared.columns]
        for name in self.reads:
            if name not in names:
                raise Misdeclared(
                    ("map",), f"map: column {name!r} is not declared." + nearest_name(name, names)
                )
        rest = tuple(column for column in declared.columns if self.reads and column.name not in self.reads)
        mapped = tuple(column.name for column in self.columns) if rest else ()
        ball = FeatureMap(Ball(self.bound, self.name, self.sha256), mapped, self.weight)
        return replace(declared, columns=(*rest, *self.columns), map=ball)

    def on(self, table: Table) -> Table:
        """The table as its peers will know it; rows stream through the function as they are read."""
        rows = _MappedRows(table, self)
        return Table.of_rows(table.party, rows, self.schema(table.schema))

    def rows(self, raw: Mapping[str, ArrayLike], declared: Schema) -> dict[str, Any]:
        """Raw rows with what comes out beside them: what a model that was fitted on mapped columns predicts from."""
        read = self.read_from(declared)
        vectors, _ = self.apply(code_mapping(raw, read), read, party="these rows")
        return {**raw, **{column.name: vectors[:, place] for place, column in enumerate(self.columns)}}

    def read_from(self, declared: Schema) -> tuple[Column, ...]:
        return tuple(column for column in declared.columns if not self.reads or column.name in self.reads)

    def apply(self, block: Block, read: tuple[Column, ...], *, party: str) -> tuple[NDArray[np.float64], int]:
        values = {column.name: column.natural(block.columns[column.name]) for column in read}
        vectors, who = np.empty((block.rows, self.features)), f"{party}: the function {self.name!r}"
        for row in range(block.rows):
            try:
                given = self.function({name: column[row] for name, column in values.items()})
                vector = np.asarray(given, dtype=np.float64)
            except Exception as error:
                # Its message could show a value.
                raise DataError(
                    f"{who} stopped with {type(error).__name__} on one person. Try it on made-up values within the "
                    "declared bounds."
                ) from None
            if vector.shape != (self.features,):
                wrong = f"gave an array of shape {vector.shape}; {self.features} numbers are declared."
                raise DataError(f"{who} {wrong}")
            # Squares of entries beyond this could overflow.
            if not np.abs(vector).max(initial=0.0) < _LARGEST:
                raise DataError(f"{who} gave a number that is not finite, or too large to square.")
            vectors[row] = vector
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        long = norms > self.bound
        vectors[long] *= (self.bound / norms[long])[:, None]
        return np.clip(vectors, -self.bound, self.bound), int(long.sum())


class _MappedRows:
    """Rows of a table with some columns replaced by what a function makes of them."""

    def __init__(self, table: Table, own: OwnMap) -> None:
        self.name, self.count = table.name, table.rows
        self._table, self._own = table, own
        self._read = own.read_from(table.schema)
        names = {column.name for column in table.schema.columns}
        self._kept = [column.name for column in own.schema(table.schema).columns if column.name in names]

    def ids(self) -> Iterator[pa.Array]:
        return self._table.id_batches()

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        shortened = seen = 0
        for block in self._table.blocks(size):
            vectors, long = self._own.apply(block, self._read, party=f"party {self._table.party!r}")
            shortened, seen = shortened + long, seen + block.rows
            columns = {name: block.columns[name] for name in self._kept}
            columns |= {
                column.name: np.ascontiguousarray(vectors[:, place])
                for place, column in enumerate(self._own.columns)
            }
            yield Block.of(columns, block.labels, block.rows)
        own = self._table.clipping
        log.finish({**own.counts, self._own.name: shortened}, rows=seen, standardised=own.standardised)
