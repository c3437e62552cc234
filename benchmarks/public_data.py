"""Public data sets as vertical splits, with bounds and categories declared from their published descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from colonnade.data.columns import BinaryColumn, CategoricalColumn, Column, NumericColumn
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.data.targets import ClassLabel, Label
from colonnade.randomness import public_permutation

CLASSES = ("<=50K", ">50K")
ADULT_BANK: tuple[Column, ...] = (
    NumericColumn("age", 17, 90),
    NumericColumn("capital_gain", 0, 99999, "log1p"),
    NumericColumn("capital_loss", 0, 4356, "log1p"),
    CategoricalColumn(
        "marital_status",
        (
            "Divorced",
            "Married-AF-spouse",
            "Married-civ-spouse",
            "Married-spouse-absent",
            "Never-married",
            "Separated",
            "Widowed",
        ),
    ),
    CategoricalColumn(
        "relationship", ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
    ),
    BinaryColumn("sex", ("Female", "Male")),
)
ADULT_EMPLOYER: tuple[Column, ...] = (
    NumericColumn("education_num", 1, 16),
    NumericColumn("hours_per_week", 1, 99),
    CategoricalColumn(
        "workclass",
        (
            "Federal-gov",
            "Local-gov",
            "Private",
            "Self-emp-inc",
            "Self-emp-not-inc",
            "State-gov",
            "Without-pay",
        ),
    ),
    CategoricalColumn(
        "occupation",
        (
            "Adm-clerical",
            "Armed-Forces",
            "Craft-repair",
            "Exec-managerial",
            "Farming-fishing",
            "Handlers-cleaners",
            "Machine-op-inspct",
            "Other-service",
            "Priv-house-serv",
            "Prof-specialty",
            "Protective-serv",
            "Sales",
            "Tech-support",
            "Transport-moving",
        ),
    ),
    CategoricalColumn("race", ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")),
    CategoricalColumn("native_country", ("United-States", "elsewhere"), other="elsewhere"),
)


Rows = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, eq=False)
class Split:
    """Every party's table of the training people, and both groups in one place for comparison."""

    tables: list[Table]
    train_rows: Rows
    train_labels: np.ndarray[Any, Any]
    test_rows: Rows
    test_labels: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class PublicSet:
    """Rows by raw column, a label, and which party would hold what."""

    columns: tuple[Column, ...]
    label: Label
    rows: Rows
    labels: np.ndarray[Any, Any]

    def split(self, parties: int, seed: int) -> Split:
        """Tables of as many parties over a random 80 % of the people; the other 20 % are for testing.

        The first party holds the label; columns are dealt out in declaration order, as evenly as they go.
        """
        order = public_permutation(len(self.labels), seed)
        test, train = np.split(order, [len(order) // 5])
        names = [f"party{number}" for number in range(1, parties + 1)]
        tables = []
        for name, columns in zip(names, np.array_split(np.arange(len(self.columns)), parties), strict=True):
            mine = tuple(self.columns[i] for i in columns)
            arrays = {column.name: self.rows[column.name][train] for column in mine}
            label = self.label if name == names[0] else None
            if label is not None:
                arrays[label.column] = self.labels[train]
            tables.append(Table.from_arrays(name, arrays, Schema("row", mine, label)))
        return Split(tables, self._take(train), self.labels[train], self._take(test), self.labels[test])

    def _take(self, people: np.ndarray[Any, Any]) -> Rows:
        return {name: values[people] for name, values in self.rows.items()}


def adult(folder: Path) -> PublicSet:
    """The 45,222 complete rows of UCI Adult, without fnlwgt and education, native country as US or elsewhere."""
    tables = [pq.read_table(folder / f"adult_{part}.parquet") for part in ("train", "test")]
    decoded = [pa.table({name: table[name].to_pylist() for name in table.column_names}) for table in tables]
    table = pa.concat_tables(decoded).drop_null()
    columns = (*ADULT_BANK, *ADULT_EMPLOYER)
    rows = {column.name: np.array(table[column.name].to_pylist()) for column in columns}
    labels = np.array([value.strip().rstrip(".") for value in table["income"].to_pylist()])
    return PublicSet(columns, ClassLabel("income", CLASSES), rows, labels)
