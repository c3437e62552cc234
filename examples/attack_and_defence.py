"""A laboratory reads a clinic's diagnoses out of encrypted gradients, and then fails to, with noise inside.

Vertical logistic regression under homomorphic encryption is what the industry runs. Every message is encrypted, and
still each party decrypts its own gradient: as many equations as it has columns, in numbers whose signs are the labels.
The attack is that of "Is Vertical Logistic Regression Privacy-Preserving?", on the transcript of a real run.

Look at: the share of diagnoses read right without a defence, and with one, beside what guessing would get. The data
is scikit-learn's breast cancer set, which is public; attacks on data that is not declared public are refused.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from colonnade import Schema, Table
from colonnade.data import ClassLabel, NumericColumn
from colonnade.lab.attacks import recover_labels
from colonnade.lab.campaign import recorded
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.protocols.plans import TrainingSpec

PEOPLE = 60


def main() -> None:
    cancer = load_breast_cancer()
    some = np.random.default_rng(0).permutation(len(cancer.target))[:PEOPLE]
    values, low, high = cancer.data[some], cancer.data.min(axis=0), cancer.data.max(axis=0)
    columns = [NumericColumn(str(name), low[i], high[i]) for i, name in enumerate(cancer.feature_names)]
    label = ClassLabel("diagnosis", ("malignant", "benign"))

    def table(party: str, mine: range, held: ClassLabel | None) -> Table:
        arrays = {columns[i].name: values[:, i] for i in mine}
        if held is not None:
            arrays[held.column] = np.array(held.classes)[cancer.target[some]]
        return Table.from_arrays(party, arrays, Schema("patient", tuple(columns[i] for i in mine), held))

    tables = {
        "clinic": table("clinic", range(10), label),
        "laboratory": table("laboratory", range(10, 30), None),
    }
    options = EncryptedOptions(
        defence="none",
        epochs=2,
        batch=20,  # as many records as the laboratory has columns: as many equations as unknowns
        learning_rate=0.1,
    )
    attacked = TrainingSpec(
        "classification", 0.5, delta=1e-5, options=options, public=("clinic", "laboratory")
    )
    for request in (attacked, attacked.with_options(defence="sound")):
        # The protocol itself, with keys of 2048 bits; what each party saw is written down.
        transcript, _ = recorded(tables, request)
        attack = recover_labels(transcript.view("laboratory"), transcript.labels)
        print(f"\ndefence: {transcript.plan.options.defence}")
        for epoch, success in enumerate(attack.by_epoch, start=1):
            print(
                f"  epoch {epoch}: {success.rate:.2f} of {PEOPLE} diagnoses read right, {success.chance:.2f} by chance"
            )
        for guarantee in transcript.plan.guarantees:
            print(f"  {guarantee}")
        if not transcript.plan.guarantees:
            print("  promised: nothing")


if __name__ == "__main__":
    main()
