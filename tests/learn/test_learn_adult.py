"""Accuracy on the Adult census file, with the noise that two parties add, simulated at a trusted party.

Set COLONNADE_DATA to a folder with adult_train.parquet and adult_test.parquet (the UCI files with their
columns named, whole numbers as integers and "?" as null).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from learn_releases import release_of
from scipy.optimize import brentq
from scipy.stats import norm

from colonnade.data.columns import BinaryColumn, CategoricalColumn, Column, NumericColumn
from colonnade.data.encoding import Encoder
from colonnade.data.label import LabelBlock
from colonnade.data.targets import ClassLabel
from colonnade.learn.logistic import LogisticRegression

FOLDER = Path(os.environ.get("COLONNADE_DATA", ""))
FILES = [FOLDER / "adult_train.parquet", FOLDER / "adult_test.parquet"]

pytestmark = pytest.mark.skipif(
    not all(file.is_file() for file in FILES),
    reason="needs the Adult census files: set COLONNADE_DATA to their folder",
)

CLASSES = ("<=50K", ">50K")
BANK: tuple[Column, ...] = (
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
EMPLOYER: tuple[Column, ...] = (
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


def complete_rows() -> tuple[dict[str, Any], np.ndarray]:
    tables = [pq.read_table(file) for file in FILES]
    decoded = [pa.table({name: table[name].to_pylist() for name in table.column_names}) for table in tables]
    table = pa.concat_tables(decoded).drop_null()
    raw = {column.name: np.array(table[column.name].to_pylist()) for column in (*BANK, *EMPLOYER)}
    return raw, np.array([CLASSES.index(value.strip().rstrip(".")) for value in table["income"].to_pylist()])


def gaussian_scale(epsilon: float, delta: float) -> float:
    """The least σ for sensitivity 1: Balle and Wang, "Improving the Gaussian Mechanism", Theorem 8."""

    def excess(sigma: float) -> float:
        half, tilt = 1 / (2 * sigma), epsilon * sigma
        return float(norm.cdf(half - tilt) - np.exp(epsilon) * norm.cdf(-half - tilt) - delta)

    return float(brentq(excess, 1e-3, 1e4))


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.840), (0.1, 0.827)])
def test_adult_reaches_the_accuracy_of_the_fixed_rule_with_two_parties_noise(
    epsilon: float, least: float
) -> None:
    raw, income = complete_rows()
    assert len(income) == 45222
    label = LabelBlock(ClassLabel("income", CLASSES))
    # ‖z‖² ≤ 1.5, over √2 off the diagonal, times √2 because each of two parties deals a whole noise.
    noise = 1.5 * gaussian_scale(epsilon, 1e-5)
    found = []
    for split in range(5):
        order = np.random.default_rng(split).permutation(len(income))
        train, test = np.split(order, [len(income) * 4 // 5])
        seen: Mapping[str, Any] = {name: values[train] for name, values in raw.items()}
        parties = [("bank", Encoder(BANK, "circle"), seen), ("employer", Encoder(EMPLOYER, "circle"), seen)]
        release = release_of(parties, label, income[train], noise=noise, seed=split, gamma=4096)
        model = LogisticRegression().fit(release)
        unseen = {name: values[test] for name, values in raw.items()}
        found.append(model.score(unseen, np.array(CLASSES)[income[test]]))
    print(f"ε = {epsilon}: {np.mean(found):.4f} ± {np.std(found):.4f}")  # noqa: T201
    assert np.mean(found) >= least
