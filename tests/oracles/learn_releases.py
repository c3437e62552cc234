"""Releases as a trusted party would make them from rows in the clear: inputs for the tests of this room."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder, Quantizer
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, Label, LabelBlock, RealLabel
from colonnade.data.levels import BinaryColumn, CategoricalColumn
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.models.release import MomentRelease
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.observers import ZERO_OUT, OthersPart, PartyView, Server

GAMMA = 2**16
_SECRET = "at least 1 of 2 owners keeps its noise secret"
GUARANTEES = (
    Guarantee(Server(), ZERO_OUT, 1.0, 1e-5, _SECRET, "Rényi, α = 21"),
    Guarantee(PartyView("bank"), OthersPart("bank"), 1.8, 1e-5, "", "Rényi, α = 13"),
)


def release_of(
    parties: Sequence[tuple[str, Encoder, Mapping[str, Any]]],
    label: LabelBlock,
    values: NDArray[Any] | None,
    *,
    noise: float = 0.0,
    seed: int = 0,
    gamma: int = GAMMA,
    guarantees: tuple[Guarantee, ...] = (),
) -> MomentRelease:
    """The moments of rows in the clear, with rounded normal noise of this standard deviation off the diagonal."""
    attributes = sum(encoder.attributes for _, encoder, _ in parties)
    how: Any = {"attributes_total": attributes, "gamma": gamma}
    blocks = [Quantizer(encoder, **how).quantize(raw) for _, encoder, raw in parties]
    count = len(blocks[0])
    rows = np.column_stack([*blocks, label.quantize(values, gamma, rows=count)])
    # Exact for these sizes, and BLAS is fast where int64 products are not.
    matrix = np.rint(rows.T.astype(float) @ rows.astype(float)).astype(np.int64)
    mu = Fraction(round(noise**2 * gamma**4))
    if mu:
        rng = np.random.default_rng(seed)
        off = rng.normal(size=matrix.shape) * float(mu) ** 0.5
        upper = np.rint(np.triu(off, 1) + np.diag(np.diag(off)) * 2**0.5).astype(np.int64)
        matrix += upper + np.triu(upper, 1).T
        if label.one_hot:
            edge = matrix[-label.width :, -label.width :]
            edge[~np.eye(label.width, dtype=bool)] = 0
    return MomentRelease(
        matrix=matrix,
        gamma=gamma,
        rows=count,
        encoders=tuple((party, encoder) for party, encoder, _ in parties),
        label=label,
        mu=mu,
        guarantees=guarantees,
        plan="plan",
        run="run",
        reproducible=False,
    )


class Shoppers:
    """Made-up people at a bank and a shop, with labels of every kind that depend on their columns."""

    def __init__(self, rows: int = 4000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.rows = rows
        self.raw: dict[str, Any] = {
            "age": rng.integers(18, 90, rows),
            "income": np.round(rng.lognormal(10, 0.7, rows)),
            "sex": rng.choice(["F", "M"], rows),
            "visits": rng.poisson(4, rows),
            "region": rng.choice(["north", "south", "east", "west"], rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
        signal = (
            0.04 * (self.raw["age"] - 50)
            + 0.8 * (self.raw["sex"] == "F")
            + 0.3 * (self.raw["visits"] - 4)
            + 0.9 * (self.raw["region"] == "north")
            - 0.8
        )
        self.buys = (signal + rng.logistic(size=rows) > 0).astype(np.int64)
        self.grade = np.digitize(signal + 0.5 * rng.normal(size=rows), [-1.0, 0.5]).astype(np.int64)
        self.spent = np.clip(50 + 20 * signal + 10 * rng.normal(size=rows), 0, 100)
        self.orders = np.clip(np.round(np.exp(0.3 * signal)), 0, 9)
        bank = (NumericColumn("age", 18, 90), NumericColumn("income", 0, 200000, "log1p"))
        region = CategoricalColumn("region", ("north", "south", "east", "west"))
        shop = (BinaryColumn("sex", ("F", "M")), NumericColumn("visits", 0, 20), region)
        self.columns = {"bank": bank, "shop": shop}

    def label_of(self, kind: str) -> tuple[Label | None, NDArray[Any] | None]:
        two, three = ("no", "yes"), ("low", "middle", "high")
        labels: dict[str, tuple[Label | None, NDArray[Any] | None]] = {
            "two": (ClassLabel("buys", two), np.array(two)[self.buys]),
            "three": (ClassLabel("grade", three), np.array(three)[self.grade]),
            "real": (RealLabel("spent", 0, 100), self.spent),
            "cost": (RealLabel("cost", 1, 100), np.clip(self.spent, 1, 100)),
            "count": (CountLabel("orders", 0, 9), self.orders),
            "none": (None, None),
        }
        return labels[kind]

    def federation(self, kind: str, *, budget: tuple[float, float] = (100.0, 1e-3)) -> Federation:
        label, values = self.label_of(kind)
        tables = []
        for party, columns in self.columns.items():
            arrays = {column.name: self.raw[column.name] for column in columns}
            own = label if party == "bank" else None
            if own is not None:
                arrays[own.column] = values
            tables.append(Table.from_arrays(party, arrays, Schema("person", columns, own)))
        return Federation(tables, budget=budget, noise_seed=3)

    def parties(self, mode: str) -> list[tuple[str, Encoder, Mapping[str, Any]]]:
        return [(party, Encoder(columns, mode), self.raw) for party, columns in self.columns.items()]  # type: ignore[arg-type]

    def release(
        self, kind: str, *, mode: str = "circle", noise: float = 0.0, seed: int = 0, gamma: int = GAMMA
    ) -> MomentRelease:
        label, values = self.label_of(kind)
        values = {"two": self.buys, "three": self.grade}.get(kind, values)
        how: Any = {"noise": noise, "seed": seed, "gamma": gamma, "guarantees": GUARANTEES}
        return release_of(self.parties(mode), LabelBlock(label), values, **how)
