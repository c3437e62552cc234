"""People whose columns have much to do with each other, as releases that a trusted party would make."""

from typing import Any

import numpy as np
from learn_releases import GAMMA, release_of
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import Column
from colonnade.data.labels import ClassLabel, LabelBlock
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.models.release import MomentRelease

AGE = BinnedColumn("age", (30, 40, 50, 65), ordered=True, low=18, high=90, whole=True)
JOB = CategoricalColumn("job", ("clerk", "farmer", "missing"), missing="missing")
PAY = BinnedColumn("pay", (1.5, 3.0), missing="category", ordered=True, low=0, high=9, transform="log1p")
OWNER = BinaryColumn("owner", ("no", "yes"))
LABEL = LabelBlock(ClassLabel("risk", ("low", "high")))
BANK: tuple[Column, ...] = (AGE, JOB)
SHOP: tuple[Column, ...] = (PAY, OWNER)
__all__ = ["GAMMA"]
Raw = dict[str, NDArray[Any]]


def people(count: int = 4000, seed: int = 1) -> tuple[Raw, NDArray[np.int64]]:
    """Raw columns by name and class codes, from one hidden trait of each person."""
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=count)
    age = np.clip(45 + 14 * trait + 5 * rng.normal(size=count), 18, 89).astype(int)
    job = np.array(["clerk", "farmer", None], dtype=object)[
        np.digitize(trait + rng.normal(size=count), (-0.3, 1.2))
    ]
    pay = np.clip(np.exp(0.4 * trait + 0.6 + 0.3 * rng.normal(size=count)), 0, 9)
    pay[rng.random(count) < 0.1] = np.nan
    owner = np.where(trait + 0.7 * rng.normal(size=count) > 0, "yes", "no")
    risk = (0.8 * trait + 0.6 * rng.normal(size=count) > 0.3).astype(np.int64)
    return {"age": age, "job": job, "pay": pay, "owner": owner}, risk


def release_with(
    raw: Raw, risk: NDArray[np.int64] | None, *, noise: float = 0.0, seed: int = 0
) -> MomentRelease:
    parties = [
        ("bank", Encoder(BANK, "circle"), {name: raw[name] for name in ("age", "job")}),
        ("shop", Encoder(SHOP, "circle"), {name: raw[name] for name in ("pay", "owner")}),
    ]
    label = LabelBlock(None) if risk is None else LABEL
    return release_of(parties, label, risk, noise=noise, seed=seed)


def coded(raw: Any) -> dict[str, NDArray[np.int32]]:
    from colonnade.data.coding import code

    found = {}
    for column in (*BANK, *SHOP):
        read = code(raw[column.name], column)
        assert not read.problems
        found[column.name] = read.values
    return found
