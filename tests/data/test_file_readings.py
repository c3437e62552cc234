"""A party's file is read at most three times in a training, however often a run goes through its rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from file_readings import MOST_READS, counted_reads, reads_in_training

from colonnade.data import Schema, Table, block
from colonnade.errors import DataError

SCHEMA = Schema.parse("""id = "customer"
columns.age = {kind = "numeric", low = 0, high = 100}
columns.sex = {kind = "binary", values = ["f", "m"]}
label = {column = "risk", kind = "classes", classes = ["low", "high"]}
""")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_training_reads_each_file_at_most_three_times(tmp_path: Path, suffix: str) -> None:
    reads = reads_in_training(tmp_path, suffix=suffix)
    assert reads.keys() == {f"bank{suffix}", f"insurer{suffix}"}
    assert max(reads.values()) <= MOST_READS


def people(path: Path, rows: int, *, last: str = "") -> Path:
    lines = [f"K{i},{i % 120},{'fm'[i % 2]},{('low', 'high')[i % 3 == 0]}" for i in range(rows)]
    path.write_text("\n".join(["customer,age,sex,risk", *lines, *([last] if last else [])]) + "\n")
    return path


@pytest.mark.parametrize("kept_bytes", [1 << 26, 0])
def test_what_was_checked_is_kept_in_memory_or_on_the_disk_as_a_reading_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(block, "KEPT_BYTES", kept_bytes)
    path = people(tmp_path / "a.csv", 70_000)
    streamed, checked = Table("bank", path, SCHEMA), Table("bank", path, SCHEMA)
    with counted_reads() as reads:
        checked.check()
        assert reads.total() == 1
        for size in (1 << 16, 999):
            for one, other in zip(streamed.blocks(size), checked.blocks(size), strict=True):
                assert one.rows == other.rows and one.columns.keys() == other.columns.keys()
                for name, values in one.columns.items():
                    assert values.dtype == other.columns[name].dtype
                    np.testing.assert_array_equal(values, other.columns[name])
                np.testing.assert_array_equal(np.asarray(one.label), np.asarray(other.label))
        assert pa.concat_arrays(list(streamed.id_batches())) == pa.concat_arrays(list(checked.id_batches()))
        before = reads.total()
        assert checked.check().take([3, 1]).rows == 2 and reads.total() == before
    assert checked.clipping.counts == streamed.clipping.counts and checked.clipping.counts["age"]


def test_what_is_wrong_with_ids_is_told_before_what_is_wrong_with_values(tmp_path: Path) -> None:
    path = people(tmp_path / "a.csv", 5, last="K0,old,f,low")
    with pytest.raises(DataError, match="1 id"):
        Table("bank", path, SCHEMA).check()
    path = people(tmp_path / "b.csv", 5, last="K9,old,f,low")
    with pytest.raises(DataError, match="'age'"):
        Table("bank", path, SCHEMA).check()
