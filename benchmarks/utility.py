"""Accuracy of one private release on public data, through the real protocol.

    python benchmarks/utility.py --data FOLDER --json

FOLDER holds adult_train.parquet and adult_test.parquet (the UCI files with named columns and "?" as null). Prints
one JSON object on its last line: mean test accuracy over random 80/20 splits at δ = 1e-5, for two parties
(``adult_eps1``, ``adult_eps0.1``) and four (``adult_eps1_four_parties``, …), beside the non-private model on the same
splits (``adult_nonprivate``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from public_data import PublicSet, adult
from sklearn.linear_model import LogisticRegression as Central

from colonnade import Federation, LogisticRegression
from colonnade.data.encoding import Encoder

EPSILONS = (1.0, 0.1)
DELTA = 1e-5
BUDGET = (100.0, DELTA)


def private(data: PublicSet, *, parties: int, epsilon: float, splits: int) -> list[float]:
    """Test accuracy of one release per split, through the real protocol."""
    found = []
    for seed in range(splits):
        split = data.split(parties, seed)
        model = LogisticRegression(epsilon=epsilon, delta=DELTA).fit(Federation(split.tables, budget=BUDGET))
        found.append(float(model.score(split.test_rows, split.test_labels)))
    return found


def central(data: PublicSet, *, splits: int) -> list[float]:
    """scikit-learn's logistic regression on the same encoded rows, with everything in one place and no privacy."""
    encoder = Encoder(data.columns, "circle")
    found = []
    for seed in range(splits):
        split = data.split(2, seed)
        model = Central(max_iter=500).fit(encoder.encode(split.train_rows), split.train_labels)
        found.append(float(model.score(encoder.encode(split.test_rows), split.test_labels)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    if arguments.data is None or not (arguments.data / "adult_train.parquet").is_file():
        sys.exit("utility.py needs --data FOLDER with adult_train.parquet and adult_test.parquet")
    data = adult(arguments.data)
    runs = {"adult_nonprivate": central(data, splits=arguments.splits)}
    for epsilon in EPSILONS:
        for parties, suffix in ((2, ""), (4, "_four_parties")):
            runs[f"adult_eps{epsilon:g}{suffix}"] = private(
                data, parties=parties, epsilon=epsilon, splits=arguments.splits
            )
    if not arguments.json:
        for name, values in runs.items():
            print(
                f"{name}: {statistics.mean(values):.4f} ± {statistics.pstdev(values):.4f} over {len(values)} splits"
            )
    print(json.dumps({name: statistics.mean(values) for name, values in runs.items()}))


if __name__ == "__main__":
    main()
