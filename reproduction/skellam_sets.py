"""The data sets of SPCA and SLR: network connections, papers' words, and people's incomes, as vertical splits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.public_data import ACS_INCOME, PublicSet
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.data.maps import Ball, FeatureMap
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.randomness import public_permutation

COUNTS = {
    "duration": 58_329,
    "src_bytes": 1_379_963_888,
    "dst_bytes": 1_309_937_401,
    "num_compromised": 7_479,
    "num_root": 7_468,
}
"""Columns over many orders of magnitude, on a logarithmic scale, with the largest value of the full set."""
SMALL = {
    "wrong_fragment": 3,
    "urgent": 14,
    "hot": 101,
    "num_failed_logins": 5,
    "num_file_creations": 100,
    "num_shells": 5,
    "num_access_files": 9,
    "su_attempted": 2,
    "count": 511,
    "srv_count": 511,
    "dst_host_count": 255,
    "dst_host_srv_count": 255,
}
FLAGS = ("land", "logged_in", "root_shell", "is_host_login", "is_guest_login")
WORDS_OF_A_HALF = 32
"""A paper with more different words than this on one party's half of the vocabulary is shortened."""


@dataclass(frozen=True, eq=False)
class Components:
    """Tables of two parties without a label, and a flag for each row for pictures."""

    name: str
    tables: list[Table]
    flags: NDArray[np.bool_]


def connections(folder: Path, *, rows: int | None = None) -> Components:
    """KDDCUP99, 10 %: 494,021 connections of 41 columns; the flag says "not an attack"."""
    table = pq.read_table(folder / "kddcup99_10_percent.parquet")
    if rows is not None:
        table = table.take(public_permutation(table.num_rows, seed=0)[:rows])
    columns: list[Column] = []
    arrays: dict[str, Any] = {}
    for name in table.column_names:
        if name in ("label", "num_outbound_cmds"):  # the second is 0 in every row of the set
            continue
        values = table[name]
        if pa.types.is_dictionary(values.type):
            text = values.cast(pa.string())
            columns.append(CategoricalColumn(name, tuple(sorted(pc.unique(text).to_pylist()))))
            arrays[name] = np.array(text.to_pylist())
        elif name in FLAGS:
            columns.append(BinaryColumn(name, ("0", "1")))
            arrays[name] = values.to_numpy()
        else:
            wide = NumericColumn(name, 0, COUNTS[name], "log1p") if name in COUNTS else None
            columns.append(wide or NumericColumn(name, 0, SMALL.get(name, 1)))
            arrays[name] = values.to_numpy()
    flags = np.array([value.startswith("normal") for value in table["label"].cast(pa.string()).to_pylist()])
    return Components("KDDCUP99, 10 %", _two(columns, arrays, None), flags)


def words(folder: Path) -> Components:
    """CiteSeer: 3,312 papers, which of 3,703 words each contains; the flag says "one of the three commonest fields"."""
    with np.load(folder / "citeseer.npz", allow_pickle=False) as archive:
        shape, indptr, indices = archive["shape"], archive["indptr"], archive["indices"]
        labels = archive["labels"]
    dense = np.zeros(tuple(shape))
    dense[np.repeat(np.arange(shape[0]), np.diff(indptr)), indices] = 1.0
    bound = math.sqrt(WORDS_OF_A_HALF)
    columns: list[Column] = [NumericColumn(f"w{number}", -bound, bound) for number in range(shape[1])]
    arrays = {column.name: dense[:, number] for number, column in enumerate(columns)}
    common = np.argsort(np.bincount(labels))[-3:]
    mapped = FeatureMap(Ball(bound), weight=1)
    return Components("CiteSeer", _two(columns, arrays, mapped), np.isin(labels, common))


def incomes(folder: Path, state: str) -> PublicSet:
    """ACSIncome 2018 of one state: who earns more than 50,000 dollars a year."""
    table = pq.read_table(folder / "acs_income_2018.parquet")
    table = table.filter(pc.equal(table["ST"].cast(pa.string()), state))
    rows = {column.name: table[column.name].to_numpy() for column in ACS_INCOME}
    labels = table["PINCP_gt_50000"].cast(pa.int8()).to_numpy()
    return PublicSet(ACS_INCOME, ClassLabel("PINCP_gt_50000", ("0", "1")), rows, labels)


def made_up_incomes(rows: int) -> PublicSet:
    """Rows of the same columns that say nothing about anybody."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for column in ACS_INCOME:
        if isinstance(column, NumericColumn):
            found[column.name] = rng.uniform(column.low, column.high, rows)
        elif isinstance(column, BinnedColumn):
            found[column.name] = rng.uniform(column.edges[0] - 1, column.edges[-1] + 1, rows)
        elif isinstance(column, BinaryColumn | CategoricalColumn):
            found[column.name] = rng.choice(np.array(column.levels), rows)
    labels = (np.asarray(found["AGEP"], dtype=float) + rng.normal(scale=20, size=rows) > 56).astype(np.int8)
    return PublicSet(ACS_INCOME, ClassLabel("PINCP_gt_50000", ("0", "1")), found, labels)


def made_up_connections(rows: int) -> Components:
    """A few strong directions in ten columns."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 10))
    values = np.clip(factors / 4 + 0.05 * rng.normal(size=(rows, 10)), -1, 1)
    columns: list[Column] = [NumericColumn(f"x{number}", -1, 1) for number in range(10)]
    arrays = {column.name: values[:, number] for number, column in enumerate(columns)}
    return Components("made-up rows", _two(columns, arrays, None), values[:, 0] > 0)


def _two(columns: list[Column], arrays: dict[str, Any], mapped: FeatureMap | None) -> list[Table]:
    tables = []
    for number, places in enumerate(np.array_split(np.arange(len(columns)), 2), start=1):
        mine = tuple(columns[place] for place in places)
        held = {column.name: arrays[column.name] for column in mine}
        tables.append(Table.from_arrays(f"party{number}", held, Schema("row", mine, None, map=mapped)))
    return tables
