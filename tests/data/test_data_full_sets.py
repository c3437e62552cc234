"""Whole public data sets: from Parquet, CSV and PostgreSQL the protocol is given identical integers.

The variable COLONNADE_DATA names the folder that holds the sets' Parquet files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from postgresql_server import serve

from colonnade.data.encoder import Encoder, Quantizer
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, LabelBlock
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.data.schema import Schema
from colonnade.data.sources import FileSource, PostgreSQLSource, Source
from colonnade.data.table import Table

pytestmark = pytest.mark.slow

GAMMA = 2**16
MODES: tuple[Literal["circle", "linear"], ...] = ("circle", "linear")
BITS = ("0", "1")


def words(name: str, text: str, *, other: str | None = None, missing: str | None = None) -> CategoricalColumn:
    return CategoricalColumn(name, tuple(text.split()), other=other, missing=missing)


ADULT_GUEST: tuple[Column, ...] = (
    NumericColumn("age", 17, 90),
    NumericColumn("fnlwgt", 0, 10**6, "log1p"),
    NumericColumn("capital_gain", 0, 99999, "log1p"),
    NumericColumn("capital_loss", 0, 4356),
    words(
        "marital_status",
        "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed",
    ),
    words("relationship", "Husband Not-in-family Other-relative Own-child Unmarried Wife"),
    BinaryColumn("sex", ("Female", "Male")),
)
ADULT_HOST: tuple[Column, ...] = (
    NumericColumn("education_num", 1, 16),
    BinnedColumn("hours_per_week", (20, 35, 40, 41, 60)),
    words(
        "workclass",
        "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay unknown",
        missing="unknown",
    ),
    words(
        "education",
        "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters "
        "Preschool Prof-school Some-college",
    ),
    words(
        "occupation",
        "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
        "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
        "Transport-moving unknown",
        missing="unknown",
    ),
    words("race", "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"),
    words("native_country", "United-States Mexico elsewhere", other="elsewhere", missing="elsewhere"),
)
INCOME = ClassLabel("income", ("<=50K", ">50K"))

# The publisher scaled these to mean 0 and deviation 1; amounts have long tails, which the bounds cut.
CREDIT_GUEST: tuple[Column, ...] = tuple(NumericColumn(f"x{number}", -5, 10) for number in range(13))
CREDIT_HOST: tuple[Column, ...] = tuple(NumericColumn(f"x{number}", -5, 10) for number in range(10))

VISITS_GUEST: tuple[Column, ...] = (
    NumericColumn("hscore", 0, 12),
    BinaryColumn("chcond1", BITS),
    BinaryColumn("chcond2", BITS),
)
VISITS_HOST: tuple[Column, ...] = (
    BinaryColumn("sex", BITS),
    NumericColumn("age", 0, 1),
    NumericColumn("agesq", 0, 1),
    NumericColumn("income", 0, 1.5),
    BinaryColumn("levyplus", BITS),
    BinaryColumn("freepoor", BITS),
    BinaryColumn("freerepa", BITS),
    words("illness", "0 1 2 3 4 5"),
    NumericColumn("actdays", 0, 14),
)


@dataclass(frozen=True)
class Side:
    """One party's file and what it declares of it."""

    file: str
    schema: Schema
    rows: int
    clipped: bool = False


@dataclass(frozen=True)
class Pair:
    guest: Side
    host: Side

    @property
    def attributes(self) -> int:
        return len(self.guest.schema.columns) + len(self.host.schema.columns)


def adult(part: str, rows: int) -> Pair:
    """One file is split between two parties; its rows have no ids, so their numbers become that."""
    file = f"adult_{part}.parquet"
    return Pair(
        Side(file, Schema("id", ADULT_GUEST, INCOME), rows, clipped=True),
        Side(file, Schema("id", ADULT_HOST), rows),
    )


SETS = {
    "adult_train": adult("train", 32_561),
    "adult_test": adult("test", 16_281),
    "default_credit": Pair(
        Side(
            "fate_default_credit_hetero_guest.parquet",
            Schema("id", CREDIT_GUEST, ClassLabel("y", BITS)),
            30_000,
            clipped=True,
        ),
        Side("fate_default_credit_hetero_host.parquet", Schema("id", CREDIT_HOST), 30_000),
    ),
    "dvisits": Pair(
        Side(
            "fate_dvisits_hetero_guest.parquet",
            Schema("id", VISITS_GUEST, CountLabel("doctorco", 0, 9)),
            5_190,
        ),
        Side("fate_dvisits_hetero_host.parquet", Schema("id", VISITS_HOST), 5_190),
    ),
}
SQL_TYPES = {
    "int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "double": "DOUBLE PRECISION", "string": "TEXT",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder() -> Path:
    name = os.environ.get("COLONNADE_DATA")
    if not name:
        pytest.skip("COLONNADE_DATA is not set: it names the folder of the public data sets' Parquet files")
    return Path(name)


@pytest.fixture
def pair(folder: Path, name: str) -> Pair:
    found = SETS[name]
    for side in (found.guest, found.host):
        if not (folder / side.file).is_file():
            pytest.skip(f"{side.file} is not in the folder that COLONNADE_DATA names")
    return found


@pytest.fixture(scope="module")
def postgresql(folder: Path) -> Iterator[str]:
    with serve() as address:
        yield address


def with_ids(path: Path, folder: Path) -> Path:
    """The file itself, or where it has no ids a copy that has, its columns stored as they were."""
    content = pq.read_table(path)
    if "id" in content.column_names:
        return path
    copy = folder / path.name
    pq.write_table(content.append_column("id", pa.array(np.arange(1, len(content) + 1))), copy)
    return copy


def decoded(path: Path) -> pa.Table:
    """The file's content without dictionaries, which CSV and SQL do not have."""
    content = pq.read_table(path)
    for index, field in enumerate(content.schema):
        if pa.types.is_dictionary(field.type):
            content = content.set_column(index, field.name, content[field.name].cast(field.type.value_type))
    return content


def write_csv(path: Path, content: pa.Table) -> FileSource:
    pyarrow.csv.write_csv(content, path)
    return FileSource(path)


def fill_postgresql(address: str, table: str, content: pa.Table) -> PostgreSQLSource:
    """The content in a table of that name, its last row first."""
    import psycopg

    source = PostgreSQLSource(f"SELECT * FROM {table}", address, "TEST_DB_PASSWORD")
    types = ", ".join(f"{field.name} {SQL_TYPES[str(field.type)]}" for field in content.schema)
    rows = zip(*(column.to_pylist()[::-1] for column in content.columns), strict=True)
    with psycopg.connect(address, password=source.password()) as database:
        database.execute(f"CREATE TABLE {table} ({types})")
        with database.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    return source


def integers(table: Table, attributes: int) -> np.ndarray[Any, Any]:
    """What the protocol is given, in both modes side by side, rows in the table's order."""
    quantizers = [Quantizer(Encoder(table.schema.columns, mode), attributes, GAMMA) for mode in MODES]
    label = LabelBlock(table.schema.label)
    made = []
    for block in table.blocks():
        parts = [quantizer.quantize(block) for quantizer in quantizers]
        made.append(np.hstack([*parts, label.quantize(block.label, GAMMA, rows=block.rows)]))
    return np.vstack(made)


def check_same(sources: Mapping[str, Source], side: Side, attributes: int) -> list[str]:
    """Asserts that all sources give the same; the ids in the order of their bytes."""
    # Files are read in their own order and queries in that of their ids.
    found = {}
    for kind, source in sources.items():
        table = Table("bank", source, side.schema).check()
        ids, values = list(table.ids()), integers(table, attributes)
        assert table.rows == len(ids) == len(values) == side.rows, kind
        order = sorted(range(len(ids)), key=[text.encode() for text in ids].__getitem__)
        if kind == "postgresql":
            assert order == list(range(side.rows))
        found[kind] = ids, values, [ids[row] for row in order], values[order], dict(table.clipping.counts)
    ids, values, sorted_ids, sorted_values, clipped = found["parquet"]
    # A comparison of constants would show nothing: every column but the label block's "one" must vary.
    label = LabelBlock(side.schema.label)
    features = values.shape[1] - label.width
    ones = [] if label.kind == "classes" else [features]
    assert np.flatnonzero(np.ptp(values, axis=0) == 0).tolist() == ones
    assert bool(clipped) == side.clipped
    assert found["csv"][0] == ids
    assert np.array_equal(found["csv"][1], values)
    for kind, (_, _, other_ids, other_values, other_clipped) in found.items():
        assert other_ids == sorted_ids, kind
        assert np.array_equal(other_values, sorted_values), kind
        assert other_clipped == clipped, kind
    return sorted_ids


@pytest.mark.parametrize("name", SETS)
def test_a_whole_public_set_gives_the_same_integers_from_parquet_csv_and_postgresql(
    tmp_path: Path, folder: Path, name: str, pair: Pair, postgresql: str
) -> None:
    joined = []
    for role, side in (("guest", pair.guest), ("host", pair.host)):
        path = with_ids(folder / side.file, tmp_path)
        content = decoded(path)
        sources: dict[str, Source] = {
            "parquet": FileSource(path),
            "csv": write_csv(tmp_path / f"{role}.csv", content),
            "postgresql": fill_postgresql(postgresql, f"{name}_{role}", content),
        }
        joined.append(check_same(sources, side, pair.attributes))
    assert joined[0] == joined[1]
