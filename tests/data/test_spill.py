"""Rows that are kept or taken in another order, in memory or on the disk: the same, and files are read three times."""

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from file_readings import MOST_READS, counted_reads, reads_in_training

from colonnade.data import block as spilled
from colonnade.data import table
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import CannotWrite, DataError

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


def check_same(mine: Table, theirs: Table, size: int) -> None:
    for one, other in zip(mine.blocks(size), theirs.blocks(size), strict=True):
        assert one.rows == other.rows and one.columns.keys() == other.columns.keys()
        for name, values in one.columns.items():
            assert values.dtype == other.columns[name].dtype
            np.testing.assert_array_equal(values, other.columns[name])
        np.testing.assert_array_equal(np.asarray(one.label), np.asarray(other.label))


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("kept", [1, 63, 64, 900])
def test_rows_on_the_disk_are_those_in_memory(monkeypatch: pytest.MonkeyPatch, size: int, kept: int) -> None:
    whole = people(1000)
    positions = np.random.default_rng(kept).permutation(1000)[:kept]
    held = whole.take(positions)
    monkeypatch.setattr(table, "MEMORY_BYTES", 0)
    monkeypatch.setattr(spilled, "PIECE_ROWS", 64)
    from_disk = whole.take(positions)
    assert isinstance(from_disk._rows, spilled.SpilledRows)
    assert list(from_disk.ids()) == list(held.ids())
    for _ in range(2):
        check_same(from_disk, held, size)


def test_a_disk_that_fills_up_is_named_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(table, "MEMORY_BYTES", 0)
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


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_training_reads_each_file_at_most_three_times(tmp_path: Path, suffix: str) -> None:
    reads = reads_in_training(tmp_path, suffix=suffix)
    assert reads.keys() == {f"bank{suffix}", f"insurer{suffix}"}
    assert max(reads.values()) <= MOST_READS
    with counted_reads() as reads:
        (tmp_path / f"bank{suffix}").read_bytes()
    assert reads == {f"bank{suffix}": 1}, "another way to read would be seen"


def written(path: Path, rows: int, *, last: str = "") -> Path:
    lines = [f"K{i},{i % 6000},{'FM'[i % 2]},{('no', 'yes')[i % 3 == 0]}" for i in range(rows)]
    path.write_text("\n".join(["who,age,sex,y", *lines, *([last] if last else [])]) + "\n")
    return path


@pytest.mark.parametrize("kept_bytes", [1 << 26, 0])
def test_what_was_checked_is_kept_in_memory_or_on_the_disk_as_a_reading_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(spilled, "KEPT_BYTES", kept_bytes)
    path = written(tmp_path / "a.csv", 70_000)
    streamed, checked = Table("bank", path, SCHEMA), Table("bank", path, SCHEMA)
    with counted_reads() as reads:
        checked.check()
        assert reads.total() == 1
        for size in (1 << 16, 999):
            check_same(streamed, checked, size)
        assert pa.concat_arrays(list(streamed.id_batches())) == pa.concat_arrays(list(checked.id_batches()))
        before = reads.total()
        places = np.random.default_rng(1).permutation(70_000)[:40_000]
        taken = checked.check().take(places)
        assert taken.rows == 40_000 and reads.total() == before
        # Of rows in memory the same, and of rows taken before.
        block = next(checked.blocks(70_000))
        ids = list(checked.ids())
        check_same(Table.of_rows("bank", table.ArrayRows("", block, ids), SCHEMA).take(places), taken, 999)
        assert list(taken.take([7, 3]).ids()) == [ids[places[7]], ids[places[3]]]
    assert checked.clipping.counts == streamed.clipping.counts and checked.clipping.counts["age"]


def test_what_is_wrong_with_ids_is_told_before_what_is_wrong_with_values(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 5, last="K0,old,F,no")
    with pytest.raises(DataError, match="1 id"):
        Table("bank", path, SCHEMA).check()
    path = written(tmp_path / "b.csv", 5, last="K9,old,F,no")
    with pytest.raises(DataError, match="'age'"):
        Table("bank", path, SCHEMA).check()
