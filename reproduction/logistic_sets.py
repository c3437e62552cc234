"""Two public sets as the study of vertical logistic regression splits them, and what it asks of the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.protocols.paillier import PaillierKeys, PaillierKeysForTests
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import public_permutation

Array = NDArray[np.float64]
BATCH, RATE, DELTA = 256, 0.01, 1e-5


@dataclass(frozen=True, eq=False)
class LogisticSet:
    """A public data set split between the owner of the label and another, and people held out."""

    name: str
    tables: dict[str, Table]
    held_out: dict[str, Array]
    held_out_labels: Array
    epochs: int

    @property
    def rows(self) -> int:
        """How many people train."""
        return min(table.rows for table in self.tables.values())


def mnist(folder: Path) -> LogisticSet:
    """Digits 0 and 1: the left half of an image at one party, with the label, the right half at the other."""
    with np.load(folder / "mnist.npz", allow_pickle=False) as archive:
        parts = {part: (archive[f"x_{part}"], archive[f"y_{part}"]) for part in ("train", "test")}
    kept = {part: (x[y < 2].astype(np.float64), y[y < 2]) for part, (x, y) in parts.items()}
    names = {"left": slice(0, 14), "right": slice(14, 28)}
    images, labels = kept["train"]
    tables = {
        party: _table(
            party, images[:, :, place].reshape(len(images), -1), 0, 255, labels if party == "left" else None
        )
        for party, place in names.items()
    }
    test, answers = kept["test"]
    held_out = {party: test[:, :, place].reshape(len(test), -1) for party, place in names.items()}
    return LogisticSet("MNIST 0/1", tables, held_out, 2.0 * answers - 1.0, epochs=30)


def credit(folder: Path) -> LogisticSet:
    """Default of credit card clients as FATE splits it, 13 columns with the label and 10; 3,000 people held out.

    Table are scaled by the source; their bounds are declared as the range they have in this public set.
    """
    parts = {
        party: pq.read_table(folder / f"fate_default_credit_hetero_{party}.parquet")
        for party in ("guest", "host")
    }
    order = {party: np.argsort(table["id"].to_numpy()) for party, table in parts.items()}
    values = {
        party: np.stack(
            [table[name].to_numpy()[order[party]] for name in table.column_names if name.startswith("x")],
            axis=1,
        )
        for party, table in parts.items()
    }
    labels = parts["guest"]["y"].to_numpy()[order["guest"]]
    shuffled = public_permutation(len(labels), seed=0)
    train, test = shuffled[3000:], shuffled[:3000]
    tables = {
        party: _table(
            party,
            rows[train],
            rows.min(axis=0),
            rows.max(axis=0),
            labels[train] if party == "guest" else None,
        )
        for party, rows in values.items()
    }
    held_out = {party: rows[test] for party, rows in values.items()}
    return LogisticSet("default credit", tables, held_out, 2.0 * labels[test] - 1.0, epochs=10)


def made_up() -> LogisticSet:
    rng = np.random.default_rng(1)
    x = {party: rng.uniform(-1, 1, (80, 6)) for party in ("left", "right")}
    y = (sum(rows.sum(axis=1) for rows in x.values()) > 0).astype(np.int64)
    tables = {party: _table(party, rows, -1, 1, y if party == "left" else None) for party, rows in x.items()}
    return LogisticSet("made up", tables, x, 2.0 * y - 1.0, epochs=3)


def _table(party: str, values: Array, low: Array | float, high: Array | float, labels: Array | None) -> Table:
    width = values.shape[1]
    lows, highs = np.broadcast_to(low, width), np.broadcast_to(high, width)
    columns = tuple(NumericColumn(f"{party}{i}", float(lows[i]), float(highs[i])) for i in range(width))
    arrays = {column.name: values[:, i] for i, column in enumerate(columns)}
    label = None
    if labels is not None:
        label = ClassLabel("y", ("0", "1"))
        arrays["y"] = labels.astype(np.int64).astype(str)
    return Table.from_arrays(party, arrays, Schema("row", columns, label))


class QuickKeys(EncryptedOptions):
    """The options with short keys, which protect nothing, where a quick run asks for them."""

    short_bits: int | None = None

    @property
    def keys(self) -> PaillierKeys:
        return super().keys if self.short_bits is None else PaillierKeysForTests(self.short_bits)


def request_of(
    one: LogisticSet, keys: PaillierKeys | PaillierKeysForTests | None = None, **changes: object
) -> TrainingSpec:
    terms: dict[str, object] = {
        "defence": "none",
        "epochs": one.epochs,
        "batch": min(BATCH, one.rows),
        "learning_rate": RATE,
        "short_bits": keys.bits if isinstance(keys, PaillierKeysForTests) else None,
    }
    price: dict[str, Any] = {"epsilon": 0.5, "delta": DELTA}
    for name in ("epsilon", "delta", "accepted_delta"):
        if name in changes:
            price[name] = float(str(changes.pop(name)))
    return TrainingSpec(
        "classification",
        options=QuickKeys.model_validate({**terms, **changes}),
        public=tuple(one.tables),
        alignment="equal",
        **price,
    )
