"""Accuracy of one private release on public data, through the real protocol.

    python benchmarks/utility.py --data FOLDER --json

FOLDER holds the public files named below. Two parties and a server (MNIST: four parties that hold a quadrant each),
δ = 1e-5, features scaled by declared bounds only. Prints one JSON object on its last line: mean test accuracy over ten
80/20 splits, with a few releases each (MNIST: ten releases, its own test set), as ``adult_eps1``, ``credit_eps1``,
… ``…_spread`` is the standard deviation over releases, ``…_four_parties`` the same for four parties, ``…_nonprivate``
scikit-learn's logistic regression on the same encoded rows in one place. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from public_data import PublicSet, Split, acs_income_texas, adult, credit, mnist, phishing
from sklearn.linear_model import LogisticRegression as Central

from colonnade import Federation, LogisticRegression
from colonnade.data.encoder import Encoder

DELTA = 1e-5
BUDGET = (100.0, DELTA)
MNIST_DRAWS = 10
# Sets with a few thousand rows get several releases a split, because there the noise moves the mean most.
SETS: dict[str, tuple[Callable[[Path], PublicSet], tuple[str, ...], tuple[float, ...], int]] = {
    "adult": (adult, ("adult_train.parquet", "adult_test.parquet"), (1.0, 0.1), 3),
    "credit": (credit, ("uci_default_credit_card.parquet",), (1.0,), 3),
    "phishing": (phishing, ("phishing_websites.parquet",), (1.0,), 20),
    "acs_tx": (acs_income_texas, ("acs_income_2018.parquet",), (1.0,), 1),
}


def private(split: Split, epsilon: float) -> float:
    """Test accuracy of the classifier from one release."""
    # Texas has more than 1e5 people; the figures are for δ = 1e-5 all the same, which has to be said.
    release = Federation(split.tables, budget=BUDGET).moments(
        task="classification", epsilon=epsilon, delta=DELTA, accepted_delta=DELTA
    )
    return float(LogisticRegression().fit(release).score(split.test_rows, split.test_labels))


def over_splits(data: PublicSet, *, parties: int, epsilon: float, splits: int, draws: int) -> list[float]:
    """Test accuracy of every release."""
    made = (data.split(parties, number) for number in range(splits))
    return [private(split, epsilon) for split in made for _ in range(draws)]


def central(data: PublicSet, *, splits: int) -> list[float]:
    """scikit-learn's logistic regression on the same encoded rows, with everything in one place and no privacy."""
    encoder = Encoder(data.columns, "circle")
    found = []
    for number in range(splits):
        split = data.split(2, number)
        model = Central(max_iter=500).fit(encoder.encode(split.train_rows), split.train_labels)
        found.append(float(model.score(encoder.encode(split.test_rows), split.test_labels)))
    return found


def measured(folder: Path, splits: int, names: list[str]) -> dict[str, list[float]]:
    """Accuracies by field."""
    runs: dict[str, list[float]] = {}
    started = time.perf_counter()

    def keep(field: str, values: list[float]) -> None:
        runs[field] = values
        print(
            f"{time.perf_counter() - started:6.0f} s  {field}: {statistics.mean(values):.4f} "
            f"± {statistics.pstdev(values):.4f} over {len(values)}",
            file=sys.stderr,
            flush=True,
        )

    for name, (load, _, epsilons, draws) in SETS.items():
        if name not in names:
            continue
        data = load(folder)
        for epsilon in epsilons:
            for parties, suffix, each in ((2, "", draws), (4, "_four_parties", 1)):
                found = over_splits(data, parties=parties, epsilon=epsilon, splits=splits, draws=each)
                keep(f"{name}_eps{epsilon:g}{suffix}", found)
        if name != "acs_tx":
            keep(f"{name}_nonprivate", central(data, splits=splits))
    if "mnist" in names:
        digits = mnist(folder)
        keep("mnist_eps1", [private(digits, 1.0) for _ in range(MNIST_DRAWS)])
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=[*SETS, "mnist"], default=[*SETS, "mnist"])
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    files = {name: wanted for name, (_, wanted, _, _) in SETS.items()} | {"mnist": ("mnist.npz",)}
    for name in arguments.only:
        for file in files[name]:
            if arguments.data is None or not (arguments.data / file).is_file():
                sys.exit(f"utility.py needs --data FOLDER with {file}; --only NAME ... leaves sets out")
    runs = measured(arguments.data, arguments.splits, arguments.only)
    if not arguments.json:
        for name, values in runs.items():
            print(f"{name}: {statistics.mean(values):.4f} ± {statistics.pstdev(values):.4f}")
    spreads = {f"{name}_spread": statistics.pstdev(values) for name, values in runs.items()}
    print(json.dumps({name: statistics.mean(values) for name, values in runs.items()} | spreads))


if __name__ == "__main__":
    main()
