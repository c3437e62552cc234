"""Four parties hold three columns each about the same tumours; only the clinic knows the diagnosis.

With three or more owners some of them keep the shares, and the server keeps none: it sees one noisy matrix. One
computing party
learns nothing from its shares; two that collude recover every column, which is what the guarantees assume away.

Look at: who keeps shares; what the clinic can do alone and what all four can; and how ε differs by observer. The
data is scikit-learn's breast cancer set, with the bounds that its description publishes.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from colonnade import Federation, LogisticRegression, Schema, Table
from colonnade.data import ClassLabel, NumericColumn
from colonnade.privacy.guarantee import epsilon_text

BOUNDS = {
    "clinic": {"mean radius": (7, 28), "mean texture": (9, 40), "mean symmetry": (0.1, 0.3)},
    "imaging": {"worst radius": (7, 37), "worst area": (180, 4300), "worst symmetry": (0.15, 0.67)},
    "laboratory": {"worst texture": (12, 50), "worst concavity": (0, 1.3), "worst smoothness": (0.07, 0.23)},
    "registry": {"radius error": (0.1, 2.9), "area error": (6, 550), "worst concave points": (0, 0.3)},
}
DIAGNOSIS = ClassLabel("diagnosis", ("malignant", "benign"))


def main() -> None:
    cancer = load_breast_cancer()
    values = dict(zip(cancer.feature_names, cancer.data.T, strict=True))
    values["diagnosis"] = np.array(DIAGNOSIS.classes)[cancer.target]
    people = np.random.default_rng(0).permutation(len(cancer.target))
    train, test = people[:455], people[455:]

    tables = []
    for party, bounds in BOUNDS.items():
        columns = tuple(NumericColumn(name, low, high) for name, (low, high) in bounds.items())
        label = DIAGNOSIS if party == "clinic" else None
        names = [*bounds, *(["diagnosis"] if label else [])]
        arrays = {name: values[name][train] for name in names}
        tables.append(Table.from_arrays(party, arrays, Schema("patient", columns, label)))

    federation = Federation(tables, budget=(2.0, 1e-5))
    group = federation.group
    print(
        f"shares are kept by {', '.join(group.computing_parties)}; any {group.threshold} of them learns nothing "
        f"from them"
    )

    model = LogisticRegression(epsilon=1.0, delta=1e-5, method="moments").fit(federation)
    # The clinic's own columns of the same release: nothing is charged again.
    alone = LogisticRegression().fit(model.releases_[0].select(parties=["clinic"]))
    rows = {name: column[test] for name, column in values.items() if name != "diagnosis"}
    for who, fitted in (("the clinic's columns", alone), ("all four parties", model)):
        print(f"{who:>20}: {fitted.score(rows, values['diagnosis'][test]):.3f} of {len(test)} others right")

    for guarantee in model.privacy_:
        about = "any one record" if guarantee.unit.name == "record" else "the others' part of one"
        most = f"ε ≤ {epsilon_text(guarantee.epsilon)} (δ = {guarantee.delta:g})"
        print(f"{guarantee.observer.name:>20}: {most} about {about}")


if __name__ == "__main__":
    main()
