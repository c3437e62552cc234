"""Where a party's part of a score can lie is said from declarations, and is neither too small nor too large."""

import math
from datetime import date

import numpy as np
import pytest
from typed import untyped

from colonnade.data.coding import Mode
from colonnade.data.encoder import MODES, Encoder
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.labels import LabelBlock
from colonnade.data.levels import BinnedColumn, CategoricalColumn
from colonnade.evaluation.evaluate import score_ranges
from colonnade.models.inputs import InputSpec

KINDS: dict[str, tuple[Column, list[object]]] = {
    "ordered bins": (BinnedColumn("x", (1, 2, 3, 4), ordered=True), [0, 1, 2, 3, 4]),
    "ordered bins, missing": (
        BinnedColumn("x", (1, 2, 3), missing="category", ordered=True),
        [0, 1, 2, 3, None],
    ),
    "bins": (BinnedColumn("x", (1, 2, 3)), [0, 1, 2, 3]),
    "categories": (CategoricalColumn("x", ("a", "b", "c")), ["a", "b", "c"]),
    "number": (NumericColumn("x", 0, 4), np.linspace(0, 4, 999).tolist()),
    "hats, missing": (
        NumericColumn("x", 0, 4, missing="category", encoding="hats", knots=5),
        [*np.linspace(0, 4, 997).tolist(), math.nan],
    ),
    "date, missing": (
        DateColumn("x", date(2000, 1, 1), date(2002, 9, 27), missing="category"),
        [*np.arange("2000-01-01", "2002-09-28", dtype="datetime64[D]").tolist(), None],
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_score_lies_outside_its_range_and_some_score_is_at_either_end(kind: str, mode: Mode) -> None:
    column, values = KINDS[kind]
    encoder = Encoder((column,), mode)
    rng = np.random.default_rng(4)
    for _ in range(20):
        weights = rng.normal(size=encoder.width)
        scores = encoder.encode({"x": untyped(values)}) @ weights
        found = score_ranges(InputSpec((("bank", encoder),), LabelBlock(None)), weights)["bank"]
        assert found.middle - found.extent <= scores.min() <= found.middle - found.extent + 1e-3
        assert found.middle + found.extent - 1e-3 <= scores.max() <= found.middle + found.extent
