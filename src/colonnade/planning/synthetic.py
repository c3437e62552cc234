"""People who do not exist, with the declared columns: what a plan is rehearsed on.

A few hidden traits stand behind every column and the label, so that columns say something about each other and about
the label, as real ones do. Nothing of it comes from anybody's data: bounds and categories are the declared ones, and
the rest is a public seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from colonnade.data.block import Block
from colonnade.data.kinds import Column
from colonnade.data.labels import Label
from colonnade.data.schema import PublicSchema
from colonnade.data.table import ArrayRows, Table
from colonnade.randomness import SeededRandomness

Array = NDArray[np.float64]
TRAITS = 4
# How much of a column's variance the traits explain, and of the label's.
COLUMN_SHARE, LABEL_SHARE = 0.5, 0.8


@dataclass(frozen=True)
class _Draws:
    """Those that columns are made by, the same for all people, and those that people are."""

    columns: SeededRandomness
    people: SeededRandomness


@dataclass(frozen=True, eq=False)
class SyntheticPeople:
    """So many people with every party's columns, `tested` of them kept apart to test models on.

    What columns say of each other and of the label is the seed's; `draw` is who is drawn from that.
    """

    schemas: Mapping[str, PublicSchema]
    people: int
    tested: int = 0
    seed: str = "invented people"
    draw: int = 0
    _made: dict[str, Block] = field(default_factory=dict)

    def tables(self, rows: int) -> dict[str, Table]:
        """The first so many people, in the same order at every party."""
        return {party: self._table(party, 0, rows) for party in self.schemas}

    @cached_property
    def held_out(self) -> dict[str, Table]:
        return {party: self._table(party, self.people, self.people + self.tested) for party in self.schemas}

    def table(self, party: str, ids: Sequence[str]) -> Table:
        """One party's rows of the first people, under these ids."""
        return self._table(party, 0, len(ids), ids)

    def _table(self, party: str, start: int, stop: int, ids: Sequence[str] = ()) -> Table:
        block, part = self._block(party), slice(start, stop)
        rows = block.each(lambda values: values[part], stop - start)
        names = ids or [f"person {number}" for number in range(start, stop)]
        schema = self.schemas[party].with_ids()
        return Table.of_rows(party, ArrayRows("invented people", rows, names), schema)

    def _block(self, party: str) -> Block:
        if party not in self._made:
            schema, everybody = self.schemas[party], self.people + self.tested
            randomness = _Draws(SeededRandomness(f"{self.seed}/{party}"), self._drawn(party))
            columns = {column.name: self._column(column, randomness) for column in schema.columns}
            labels = [self._label(label, randomness) for label in schema.labels]
            self._made[party] = Block.of(columns, labels, everybody)
        return self._made[party]

    @cached_property
    def _traits(self) -> Array:
        everybody = self.people + self.tested
        return _normal(self._drawn("traits"), everybody * TRAITS).reshape(everybody, TRAITS)

    def _drawn(self, what: str) -> SeededRandomness:
        return SeededRandomness(f"{self.seed}/{what}/people {self.draw}")

    def _places(self, randomness: _Draws, share: float) -> Array:
        """Where each person stands among all, from 0 to 1: a direction in the traits, and chance."""
        direction = _normal(randomness.columns, TRAITS)
        direction /= np.linalg.norm(direction)
        own = _normal(randomness.people, self.people + self.tested)
        return np.asarray(ndtr(np.sqrt(share) * (self._traits @ direction) + np.sqrt(1 - share) * own))

    def _column(self, column: Column, randomness: _Draws) -> NDArray[Any]:
        return column.at(self._places(randomness, COLUMN_SHARE))

    def _label(self, label: Label, randomness: _Draws) -> NDArray[Any]:
        return label.drawn(self._places(randomness, LABEL_SHARE))


def _normal(randomness: SeededRandomness, count: int) -> Array:
    # The middle of one of 2^52 intervals: neither 0 nor 1, where the normal quantile is infinite.
    uniform = ((randomness.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.asarray(ndtri(uniform))
