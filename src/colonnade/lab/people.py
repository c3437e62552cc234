"""People that nobody is, at the corners of what declared columns may hold: noise is calibrated to such records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block, ClippingLog
from colonnade.data.kinds import Column
from colonnade.data.labels import Label
from colonnade.data.schema import PublicSchema, Schema
from colonnade.data.table import ArrayRows, Table
from colonnade.errors import OnlyForPublicData
from colonnade.federation.federation import Federation, Hooks
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.randomness import Randomness
from colonnade.runtime.party import silent

People = Mapping[str, Block]
"""Everybody's rows, by owner."""


def corner(schemas: Sequence[PublicSchema], place: float) -> People:
    """One record with every number this far between its bounds, and every category as far down its list."""
    return {schema.party: _record(schema, [place] * _places(schema)) for schema in schemas}


def anybody(schemas: Sequence[PublicSchema], randomness: Randomness) -> People:
    """One record with every number at one of its bounds and every category and class drawn evenly."""
    person = {}
    for schema in schemas:
        words = randomness.words(_places(schema))
        person[schema.party] = _record(
            schema, [float(word >> np.uint64(11)) * 2.0**-53 for word in words], ends=True
        )
    return person


def _places(schema: PublicSchema) -> int:
    """One for each column and label; one for a label that is not there, so that draws are those of any other party."""
    return len(schema.columns) + max(1, len(schema.labels))


def _record(schema: PublicSchema, places: Sequence[float], *, ends: bool = False) -> Block:
    def at(declared: Column | Label, place: float, *, at_ends: bool) -> NDArray[Any]:
        return declared.at(np.array([float(round(place)) if at_ends and declared.bounds else place]))

    columns = {
        column.name: at(column, place, at_ends=ends)
        for column, place in zip(schema.columns, places, strict=False)
    }
    left = places[len(schema.columns) :]
    labels = [at(label, place, at_ends=True) for label, place in zip(schema.labels, left, strict=False)]
    return Block.of(columns, labels, 1)


def together(records: Sequence[People]) -> People:
    joined = {}
    for owner, first in records[0].items():
        blocks = [people[owner] for people in records]
        columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in first.columns}
        labels = [np.concatenate(parts) for parts in zip(*(block.labels for block in blocks), strict=True)]
        joined[owner] = Block.of(columns, labels, sum(block.rows for block in blocks))
    return joined


def mixed(first: People, second: People, owners: Sequence[str]) -> People:
    """The first record with these owners' parts of the second."""
    return {owner: (second if owner in owners else first)[owner] for owner in first}


def chosen(first: People, second: People, bits: NDArray[np.bool_]) -> People:
    """As many people as there are coins, each the first record or, where its coin says so, the second."""
    which = bits.astype(np.int64)
    return {
        owner: both.each(lambda values: values[which], len(which))
        for owner, both in together([first, second]).items()
    }


def table_of(schema: Schema, party: str, rows: Block, read: Callable[[], None]) -> Table:
    """`read` is called whenever its rows have been read to the end."""
    watched = _WatchedRows("synthetic people", rows, [f"n{number}" for number in range(rows.rows)])
    watched.read = read
    return Table.of_rows(party, watched, schema)


class _WatchedRows(ArrayRows):
    read: Callable[[], None]

    def blocks(self, size: int, log: ClippingLog) -> Iterator[Block]:
        yield from super().blocks(size, log)
        self.read()


def public_tables(
    job: Job, files: Mapping[str, PartyFile], progress: Callable[[str, int, int], None] = silent
) -> dict[str, Table]:
    """With ledgers of its own, because nothing is spent."""
    federation = Federation(
        [file.table() for file in files.values()],
        budget=(1.0, 1e-5),
        alignment=job.alignment,
        timeout=job.timeout,
        public=True,
        hooks=Hooks(progress),
    )
    outcome = federation.align()
    return {party: outcome.results[party].table for party in federation.group.owners}


def check_public(files: Mapping[str, PartyFile], what: str, instead: str) -> None:
    private = [str(file.path) for file in files.values() if not file.public]
    if private:
        raise OnlyForPublicData(
            f"{what} data that every party declared public; {', '.join(private)} did not. Nothing was run. {instead}"
        )


def as_far_as(
    distance: Callable[[People, People], float], first: People, second: People, *, limit: float
) -> People:
    """Columns of the second are taken one after another while the record stays within the limit.

    Of the column that would go beyond, a number is moved as far as it can.
    """
    moved = first
    for owner, block in second.items():
        for name, values in block.columns.items():
            here, whole = moved[owner].columns[name], _with(moved, owner, name, values)
            if distance(first, whole) <= limit:
                moved = whole
            elif values.dtype.kind == "f":
                low, high = 0.0, 1.0
                for _ in range(40):
                    middle = (low + high) / 2
                    part = _with(moved, owner, name, here + middle * (values - here))
                    low, high = (middle, high) if distance(first, part) <= limit else (low, middle)
                moved = _with(moved, owner, name, here + low * (values - here))
        if block.label is not None and distance(first, _with(moved, owner, None, block.label)) <= limit:
            moved = _with(moved, owner, None, block.label)
    return moved


def _with(people: People, owner: str, name: str | None, values: NDArray[np.generic]) -> People:
    block = people[owner]
    if name is None:
        return {**people, owner: replace(block, label=values)}
    return {**people, owner: replace(block, columns={**block.columns, name: values})}
