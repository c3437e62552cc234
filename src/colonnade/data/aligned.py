"""A table whose rows are known to be the same people, in the same order, at every party."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from colonnade.data.block import Block
from colonnade.data.schema import Schema
from colonnade.data.table import BLOCK_ROWS, Table
from colonnade.errors import DataError


@dataclass(frozen=True)
class AlignedTable:
    """What protocols and learners take: only alignment makes one.

    `digest` is what the parties compared; equal digests mean equal ids in equal order. `rows` is public.
    """

    table: Table
    rows: int
    digest: bytes

    def __post_init__(self) -> None:
        if self.rows != self.table.rows:
            raise DataError(
                f"party {self.party!r}: {self.rows} rows were aligned, but {self.table.name} has {self.table.rows}."
            )

    @property
    def party(self) -> str:
        return self.table.party

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[Block]:
        """The rows in order, at most `size` at a time."""
        return self.table.blocks(size)
