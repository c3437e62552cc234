"""How good a model of numbers is: errors in the label's own units, and a picture."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelError
from colonnade.evaluation.judgement import Figure

Array = NDArray[np.float64]
BINS = 20


@dataclass(frozen=True, eq=False)
class NumbersJudged:
    """RMSE, MAE and R² of predictions, beside what always answering with the mean would have.

    `pairs` are the means of what was predicted and of what was so, over people in the order of what was predicted.
    `exact` says that the people were looked at.
    """

    people: int
    label: str
    figures: dict[str, Figure]
    pairs: tuple[tuple[float, float], ...]
    exact: bool = True

    def to_data(self) -> dict[str, Any]:
        return {
            "people": self.people,
            "exact": self.exact,
            "label": self.label,
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "pairs": [list(pair) for pair in self.pairs],
        }


def judge_numbers(predicted: Array, truth: Array, *, label: str) -> NumbersJudged:
    """The judgement of people who may be looked at: exact, with the error of sampling alone."""
    wrong, apart = predicted - truth, truth - truth.mean()
    variance = float((apart**2).mean())
    if not variance > 0:
        raise ModelError(
            f"everybody here has the same {label!r}, so that nothing can be said of predictions of it."
        )
    square = float((wrong**2).mean())
    root, chance = math.sqrt(len(truth)), float((wrong**2).std())
    figures = {
        # By the delta method: how far each figure of other people like these would lie around it.
        "RMSE": Figure(
            math.sqrt(square),
            0.0,
            chance / (2.0 * math.sqrt(square) * root) if square > 0 else 0.0,
            math.sqrt(variance),
        ),
        "MAE": Figure(
            float(np.abs(wrong).mean()), 0.0, float(np.abs(wrong).std() / root), float(np.abs(apart).mean())
        ),
        "R²": Figure(
            1.0 - square / variance,
            0.0,
            float((wrong**2 - apart**2 * (square / variance)).std()) / variance / root,
            0.0,
        ),
    }
    groups = np.array_split(np.argsort(predicted, kind="stable"), min(BINS, len(truth)))
    pairs = tuple((float(predicted[group].mean()), float(truth[group].mean())) for group in groups)
    return NumbersJudged(len(truth), label, figures, pairs)
