"""Rows taken in another order where memory is too small for them: the same, from the disk, and nothing left there."""

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from colonnade.data import block as spilled
from colonnade.data import table
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import CannotWrite

SCHEMA = Schema.parse(
    """id = "who"
columns.age = {kind = "numeric", low = 0, high = 5000}
columns.sex = {kind = "binary", values = ["F", "M"]}
label = {column = "y", kind = "classes", classes = ["no", "yes"]}
"""
)


def people(rows: int) -> Table:
    return Table.from_arrays(
        "bank",
        {
            "who": [f"{'é' * (n % 3)}{n}" for n in range(rows)],
            "age": np.arange(rows),
            "sex": np.where(np.arange(rows) % 2, "F", "M"),
            "y": np.where(np.arange(rows) % 5, "no", "yes"),
        },
        SCHEMA,
    )


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("kept", [1, 63, 64, 900])
def test_rows_on_the_disk_are_those_in_memory(monkeypatch: pytest.MonkeyPatch, size: int, kept: int) -> None:
    whole = people(1000)
    positions = np.random.default_rng(kept).permutation(1000)[:kept]
    held = whole.take(positions)
    monkeypatch.setattr(table, "HELD_BYTES", 0)
    monkeypatch.setattr(spilled, "PIECE_ROWS", 64)
    from_disk = whole.take(positions)
    assert isinstance(from_disk._rows, spilled.SpilledRows)
    assert list(from_disk.ids()) == list(held.ids())
    for _ in range(2):
        for mine, other in zip(from_disk.blocks(size), held.blocks(size), strict=True):
            assert mine.rows == other.rows
            for name, values in other.columns.items():
                assert mine.columns[name].dtype == values.dtype
                np.testing.assert_array_equal(mine.columns[name], values)
            np.testing.assert_array_equal(mine.label, other.label)


def test_a_disk_that_fills_up_is_named_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(table, "HELD_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written = []

    def full(self: object, content: bytes) -> None:
        written.append(len(content))
        if len(written) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spilled._Spill, "_write", full)
    with pytest.raises(CannotWrite, match=r"bank.*No space left.*TMPDIR"):
        people(100).take(np.arange(50))
    assert not list(tmp_path.iterdir())
