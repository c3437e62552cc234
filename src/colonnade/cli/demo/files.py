"""The demonstration's files: two organisations' tables, schemas, party files and a job, as a user would write them.

A fifth of the people is held out: all their columns in one file, for whoever has the model, and party by party in a
folder with a job of its own, for scoring between the parties.

The data is scikit-learn's breast cancer set, which is public and declared so. Declared bounds are the published
mean ± 1.5 standard deviations of each column.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.randomness import public_permutation

TEST_SHARE = 0.2
SPLIT_SEED = 1
# What a party grants, in runs: a few, and then its ledger refuses.
RUNS_GRANTED = 4
NEW_PATIENTS = "new-patients.csv"
VISITS = "visits"
CLASSES = ("malignant", "benign")
CLINIC = (
    ("worst radius", 9.03, 23.5),
    ("worst texture", 16.5, 34.9),
    ("worst perimeter", 56.9, 158.0),
    ("worst area", 27.3, 1730.0),
    ("worst smoothness", 0.0982, 0.167),
    ("worst compactness", 0.0185, 0.49),
    ("worst concavity", -0.0405, 0.585),
    ("worst concave points", 0.0161, 0.213),
    ("worst symmetry", 0.197, 0.383),
    ("worst fractal dimension", 0.0569, 0.111),
)
LABORATORY = (
    ("mean radius", 8.85, 19.4),
    ("mean texture", 12.8, 25.7),
    ("mean perimeter", 55.6, 128.0),
    ("mean area", 127.0, 1180.0),
    ("mean smoothness", 0.0753, 0.117),
    ("mean compactness", 0.0252, 0.183),
    ("mean concavity", -0.0307, 0.208),
    ("mean concave points", -0.00923, 0.107),
    ("mean symmetry", 0.14, 0.222),
    ("mean fractal dimension", 0.0522, 0.0734),
    ("radius error", -0.0104, 0.821),
    ("texture error", 0.39, 2.04),
    ("perimeter error", -0.164, 5.9),
    ("area error", -27.8, 109.0),
    ("smoothness error", 0.00254, 0.0115),
    ("compactness error", -0.00136, 0.0523),
    ("concavity error", -0.0133, 0.0771),
    ("concave points error", 0.00255, 0.021),
    ("symmetry error", 0.00815, 0.0329),
    ("fractal dimension error", -0.000171, 0.00776),
)


@dataclass(frozen=True, eq=False)
class Demo:
    """Where the job lies, and the public rows held out of it."""

    job: Path
    test_rows: dict[str, Any]
    test_labels: np.ndarray[Any, Any]


def write_demo(folder: Path, *, epsilon: float) -> Demo:
    """Write everything a user would have into a folder, and hold a public fifth of the people out for testing."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    values = {str(name): data.data[:, column] for column, name in enumerate(data.feature_names)}
    values["diagnosis"] = np.array(CLASSES, dtype=object)[data.target]
    order = public_permutation(len(data.target), SPLIT_SEED)
    held_out, kept = np.split(order, [round(TEST_SHARE * len(order))])
    visits = folder / VISITS
    visits.mkdir()
    for party, columns, label in (("clinic", CLINIC, True), ("laboratory", LABORATORY, False)):
        names = [name for name, _, _ in columns] + (["diagnosis"] if label else [])
        write_csv(folder / f"{party}.csv", names, values, kept)
        write_csv(visits / f"{party}.csv", names, values, held_out)
        (visits / f"{party}.toml").write_text(
            party_text(party, RUNS_GRANTED * epsilon, above="../"), encoding="utf-8"
        )
        (folder / f"{party}.schema.toml").write_text(schema_text(columns, label=label), encoding="utf-8")
        (folder / f"{party}.toml").write_text(party_text(party, RUNS_GRANTED * epsilon), encoding="utf-8")
    job = folder / "job.toml"
    job.write_text(_job(epsilon), encoding="utf-8")
    (visits / "job.toml").write_text(_job(epsilon), encoding="utf-8")
    write_csv(folder / NEW_PATIENTS, [name for name, _, _ in (*CLINIC, *LABORATORY)], values, held_out)
    test_rows = {name: values[name][held_out] for name, _, _ in (*CLINIC, *LABORATORY)}
    return Demo(job, test_rows, values["diagnosis"][held_out])


def write_csv(
    path: Path, names: list[str], values: dict[str, Any], rows: Any, *, key: str = "patient"
) -> None:
    """These columns of these people, with an id for each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([key, *names])
        columns = [values[name][rows] for name in names]
        writer.writerows(zip((f"P{row:04d}" for row in rows), *columns, strict=True))


def schema_text(columns: tuple[tuple[str, float, float], ...], *, label: bool) -> str:
    """The schema of numeric columns with these bounds."""
    lines = [
        "# Bounds are declared, never measured: published mean ± 1.5 standard deviations.",
        'id = "patient"',
        "",
    ]
    for name, low, high in columns:
        lines += [f'[columns."{name}"]', 'kind = "numeric"', f"low = {low}", f"high = {high}", ""]
    if label:
        lines += ["[label]", 'column = "diagnosis"', 'kind = "classes"', f"classes = {list(CLASSES)}", ""]
    return "\n".join(lines).replace("'", '"')


def party_text(
    party: str,
    budget: float,
    *,
    above: str = "",
    dataset: str = "breast cancer",
    note: str = "a public teaching set",
    delta: float = 1e-5,
) -> str:
    """A party's own file; `above` leads to where its schema and its ledger lie, `note` says why its data is public."""
    return f"""# {party}'s own file: it never leaves {party}.
party = "{party}"
data = "{party}.csv"
schema = "{above}{party}.schema.toml"
dataset = "{dataset}"
ledger = "{above}{party}.ledger"
public = true   # {note}, so accuracy may be measured on it

[[budget]]      # for every observer and unit that no closer budget names
epsilon = {budget}
delta = {delta:g}
"""


def _job(epsilon: float) -> str:
    return f"""# What both agreed on.
name = "Tumour diagnosis from two houses"
task = "classification"
method = "moments"
parties = ["clinic", "laboratory"]
active = "clinic"
epsilon = {epsilon}
delta = 1e-5
"""
