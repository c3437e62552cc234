"""Four parties hold a quadrant of every image each; a network that nobody holds whole learns the digits.

Each party embeds its quadrant, quantises the embedding with the Poisson binomial mechanism of PBM-VFL, and a secure
sum shows the label holder the totals only. The local networks are public and random here ("frozen"), so that a record
is released once and the guarantee holds from end to end. Needs PyTorch: pip install 'colonnade[networks]'.

Look at: what is claimed, for one party's quadrant of one image; how much larger ε is for a whole image; and what the
default method, one noisy matrix, does with the same quadrants at a smaller ε. The images are scikit-learn's digits.
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits

from colonnade import Federation, LogisticRegression, NeuralClassifier, Schema, Table
from colonnade.data import ClassLabel, NumericColumn
from colonnade.privacy.guarantee import epsilon_text

QUADRANTS = {
    "northwest": (slice(0, 4), slice(0, 4)),
    "northeast": (slice(0, 4), slice(4, 8)),
    "southwest": (slice(4, 8), slice(0, 4)),
    "southeast": (slice(4, 8), slice(4, 8)),
}
DIGITS = ClassLabel("digit", tuple("0123456789"))


def main() -> None:
    images, digits = load_digits(return_X_y=True)
    images, digits = images.reshape(-1, 8, 8), digits.astype(str)
    people = np.random.default_rng(0).permutation(len(digits))
    train, test = people[:1500], people[1500:]

    pixels = {
        party: {f"{party}{i}": images[:, rows, columns].reshape(-1, 16)[:, i] for i in range(16)}
        for party, (rows, columns) in QUADRANTS.items()
    }
    tables = []
    for party, mine in pixels.items():
        label = DIGITS if party == "northwest" else None
        arrays = {name: values[train] for name, values in mine.items()}
        if label is not None:
            arrays[label.column] = digits[train]
        schema = Schema("image", tuple(NumericColumn(name, 0, 16) for name in mine), label)
        tables.append(Table.from_arrays(party, arrays, schema))
    others = {name: values[test] for mine in pixels.values() for name, values in mine.items()}

    network = NeuralClassifier(epsilon=8.0, delta=1e-5, embedding=32).fit(
        Federation(tables, budget=(50.0, 1e-5))
    )
    print(network.statement_)
    for guarantee in network.privacy_:
        if guarantee.observer.name == "server" and not guarantee.unit.name.startswith("columns"):
            print(f"  the label holder, {guarantee.unit.name}: ε = {epsilon_text(guarantee.epsilon)}")
    print(f"network:     {network.score(others, digits[test]):.2f} of {len(test)} others right")

    warnings.simplefilter("ignore")  # that few rows make some classes faint is what this comparison shows
    matrix = LogisticRegression(epsilon=4.0, delta=1e-5, method="moments").fit(
        Federation(tables, budget=(8.0, 1e-5))
    )
    print(
        f"one matrix:  {matrix.score(others, digits[test]):.2f}, ε = 4 for whole images, server and readers"
    )


if __name__ == "__main__":
    main()
