"""When a public map pays: test accuracy without a map and with each, at several ε, through the real protocol.

    python benchmarks/feature_maps.py --data FOLDER --json

FOLDER holds phishing_websites.parquet, the Adult files and mnist.npz. Two parties (MNIST: four quadrants), δ = 1e-5.
Prints one JSON object on its last line, with fields such as ``phishing_relu_eps1``: the mean over five splits (MNIST:
one release, its own test set). Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from public_data import PublicSet, Split, adult, mnist, phishing

from colonnade import Federation, LogisticRegression, Table
from colonnade.data.maps import FeatureMap, GradientHistogram, MapRule, Origin, RandomFourier, RandomRelu

EPSILONS = (0.1, 1.0, 4.0)
DELTA = 1e-5
SPLITS = 5
FEATURES = 512


def mapped(split: Split, rule: MapRule | None) -> list[Table]:
    """The tables with every party's columns through one map, or through none."""
    feature_map = None if rule is None else FeatureMap(rule)
    found = []
    for table in split.tables:
        schema = replace(table.schema, map=feature_map)
        arrays = {column.name: split.train_rows[column.name] for column in schema.columns}
        if schema.label is not None:
            arrays[schema.label.column] = split.train_labels
        found.append(Table.from_arrays(table.party, arrays, schema))
    return found


def accuracy(split: Split, tables: list[Table], epsilon: float) -> float:
    """Test accuracy of one release."""
    release = Federation(tables, budget=(100.0, DELTA)).moments(
        task="classification", epsilon=epsilon, delta=DELTA
    )
    return float(LogisticRegression().fit(release).score(split.test_rows, split.test_labels))


def measure(splits: list[Split], rules: dict[str, MapRule | None], name: str) -> dict[str, float]:
    """Mean accuracy by map and ε."""
    found = {}
    for kind, rule in rules.items():
        runs = [(split, mapped(split, rule)) for split in splits]
        for epsilon in EPSILONS:
            field = f"{name}_{kind}_eps{epsilon:g}"
            found[field] = statistics.mean(accuracy(split, tables, epsilon) for split, tables in runs)
            print(f"{field}: {found[field]:.4f}", file=sys.stderr, flush=True)
    return found


def random_rules(parties: int, origin: Origin) -> dict[str, MapRule | None]:
    """No map, and each random one with so many features that all parties together have FEATURES."""
    each = FEATURES // parties
    relu, fourier = RandomRelu(each, 7, origin), RandomFourier(each, 7, 1.0, origin)
    return {"plain": None, "relu": relu, "fourier": fourier}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with the data sets")
    parser.add_argument(
        "--json", action="store_true", help="accepted for uniformity: JSON is what is printed"
    )
    arguments = parser.parse_args()
    found: dict[str, float] = {}
    sets: dict[str, PublicSet] = {"phishing": phishing(arguments.data), "adult": adult(arguments.data)}
    for name, data in sets.items():
        found |= measure([data.split(2, number) for number in range(SPLITS)], random_rules(2, "middle"), name)
    rules = {**random_rules(4, "low"), "gradients": GradientHistogram(rows=14, cols=14)}
    found |= measure([mnist(arguments.data)], rules, "mnist")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
