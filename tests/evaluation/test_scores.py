"""What noisy sums say of people, and where a party's part of a score can lie by its declarations."""

import math
from datetime import date

import numpy as np
import pytest
from scipy.special import expit
from typed import untyped

from colonnade.data.coding import Mode
from colonnade.data.encoder import MODES, Encoder
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.labels import LabelBlock
from colonnade.data.levels import BinnedColumn, CategoricalColumn
from colonnade.evaluation.evaluate import score_ranges
from colonnade.evaluation.scores import expected, noisy_text
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
        middle, half = score_ranges(InputSpec((("bank", encoder),), LabelBlock(None)), weights)["bank"]
        assert middle - half <= scores.min() <= middle - half + 1e-3
        assert middle + half - 1e-3 <= scores.max() <= middle + half


@pytest.mark.parametrize("deviation", [0.2, 1.5])
def test_the_noise_of_what_is_read_is_how_far_it_lies_when_noise_is_drawn_again(deviation: float) -> None:
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(4, 1))
    sums = rng.normal(size=(5, 4))

    def read(values: np.ndarray) -> np.ndarray:
        return np.asarray(expit(np.tanh(values) @ weights))

    mean, noise = expected(read, sums, deviation=deviation, most=100.0)
    again = np.stack([read(sums + deviation * rng.normal(size=sums.shape)) for _ in range(4000)])
    assert mean == pytest.approx(again.mean(axis=0), abs=0.03)
    assert noise == pytest.approx(again.std(axis=0), rel=0.25)


def test_a_sum_past_its_bound_is_taken_for_the_bound() -> None:
    mean, noise = expected(expit, np.array([[900.0]]), deviation=1.0, most=3.0)
    assert 0.85 < mean[0, 0] < expit(3.0) and noise[0, 0] > 0


def test_what_is_beyond_the_noise_is_not_said() -> None:
    assert noisy_text(1.0, 0.02, probability=True) == "0.99"
    assert noisy_text(0.0, 0.3, probability=True) == "0.1"
    assert noisy_text(0.31872, 0.0, probability=False) == "0.3187"
