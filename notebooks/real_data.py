"""Real people and real images for the notebooks, split between parties.

With COLONNADE_DATA naming a folder of public data sets, UCI Adult, default credit and MNIST; else what scikit-learn
brings, so that a notebook runs anywhere without a network. All of it is public, and the notebooks declare it so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from colonnade import Schema, Table
from colonnade.data import ClassLabel, Column, Label, NumericColumn
from colonnade.randomness import public_permutation

CLASSES = ("malignant", "benign")
HELD_OUT = 5  # one person in so many
IMAGES = 6000  # of MNIST that train; more only takes longer


@dataclass(frozen=True, eq=False)
class Houses:
    """Each party's table of the people that train, and the others in one place to measure on."""

    title: str
    tables: list[Table]
    rows: dict[str, Any]
    labels: Any
    rows_are: str = "people"

    @property
    def people(self) -> int:
        """How many train."""
        return self.tables[0].rows

    def __str__(self) -> str:
        parts = [
            f"{table.party} has {len(table.schema.columns)} columns{' and the label' if table.schema.label else ''}"
            for table in self.tables
        ]
        split = f"{self.people:,} {self.rows_are} train, {len(self.labels):,} are held out"
        return f"{self.title}: {split}; {', '.join(parts)}"


def two_parties() -> Houses:
    """Two classes of people whom two parties know; the first holds the label."""
    if folder := os.environ.get("COLONNADE_DATA"):
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from benchmarks.public_data import ADULT_BANK, ADULT_EMPLOYER, adult

        people = adult(Path(folder))
        parts = {"bank": ADULT_BANK, "employer": ADULT_EMPLOYER}
        return _split(
            "UCI Adult, who earns more than 50,000 dollars", parts, people.label, people.rows, people.labels
        )
    cancer = load_breast_cancer()
    values = {str(name): cancer.data[:, i] for i, name in enumerate(cancer.feature_names)}
    # Published mean ± 1.5 standard deviations, as the demonstration declares them.
    columns = tuple(
        NumericColumn(
            name,
            float(f"{column.mean() - 1.5 * column.std():.3g}"),
            float(f"{column.mean() + 1.5 * column.std():.3g}"),
        )
        for name, column in values.items()
    )
    parts = {"clinic": columns[20:], "laboratory": columns[:20]}
    labels = np.array(CLASSES)[cancer.target]
    return _split(
        "breast cancer of Wisconsin, benign or not", parts, ClassLabel("diagnosis", CLASSES), values, labels
    )


def two_parties_with_numbers() -> Houses:
    """The same where every column is a number: default of credit card clients, or the breast cancer set again."""
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        return two_parties()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from reproduction.message_data import aligned_pair

    parts, rest = aligned_pair(Path(folder), "default_credit")
    columns = {
        party: tuple(
            NumericColumn(name, float(column.min()), float(column.max())) for name, column in values.items()
        )
        for party, values in parts.items()
    }
    values = {name: column for side in parts.values() for name, column in side.items()}
    labels = rest["y"].astype(int).astype(str)
    return _split("default of credit card clients", columns, ClassLabel("y", ("0", "1")), values, labels)


def four_quadrants() -> Houses:
    """Handwritten digits, a quadrant of every image with each of four parties; the first holds the digit."""
    if folder := os.environ.get("COLONNADE_DATA"):
        with np.load(Path(folder) / "mnist.npz", allow_pickle=False) as archive:
            some = public_permutation(60_000, seed=1)[: IMAGES * HELD_OUT // (HELD_OUT - 1)]
            images, digits = archive["x_train"][some].astype(float), archive["y_train"][some]
        title, most = "MNIST", 255
        # Two by two pixels become one: quadrants of 7 × 7.
        images = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    else:
        flat, digits = load_digits(return_X_y=True)
        images, title, most = flat.reshape(-1, 8, 8), "scikit-learn's digits", 16
    half = images.shape[1] // 2
    values: dict[str, Any] = {}
    parts = {}
    for number, (top, left) in enumerate(((0, 0), (0, half), (half, 0), (half, half)), start=1):
        pixels = images[:, top : top + half, left : left + half].reshape(len(images), -1)
        mine = {f"{top + i // half}x{left + i % half}": pixels[:, i] for i in range(half * half)}
        values |= mine
        parts[f"quadrant{number}"] = tuple(NumericColumn(name, 0, most) for name in mine)
    label = ClassLabel("digit", tuple("0123456789"))
    return replace(_split(title, parts, label, values, digits.astype(str)), rows_are="images")


def _split(
    title: str, parts: Mapping[str, tuple[Column, ...]], label: Label, values: dict[str, Any], labels: Any
) -> Houses:
    shuffled = public_permutation(len(labels), seed=1)
    test, train = np.split(shuffled, [len(labels) // HELD_OUT])
    tables = []
    for number, (party, columns) in enumerate(parts.items()):
        arrays = {column.name: values[column.name][train] for column in columns}
        held = None if number else label
        if held is not None:
            arrays[held.column] = labels[train]
        tables.append(Table.from_arrays(party, arrays, Schema("person", columns, held)))
    return Houses(title, tables, {name: column[test] for name, column in values.items()}, labels[test])
