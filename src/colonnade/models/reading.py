"""What the scores of a kind of model are: through which link they are read, what they say, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import LabelBlock
from colonnade.models.discriminant import probabilities

Array = NDArray[np.float64]
Answer = Literal["probabilities", "margin", "prediction", "components"]


@dataclass(frozen=True)
class Reading:
    """How a person reads the scores of a kind of model, said on its class."""

    title: str
    """What the model is, in a sentence."""
    answer: Answer
    link: Literal["identity", "log"] = "identity"

    @property
    def classifies(self) -> bool:
        return self.answer in ("probabilities", "margin")

    def offsets(self, weights: Array, offsets: Array) -> Array:
        """What is added to x · w: the intercept, or for components what their mean takes off."""
        return -(weights @ offsets) if self.answer == "components" else offsets

    def values(self, scores: Array) -> Array:
        """What is said of people by such scores."""
        if self.answer == "probabilities":
            return probabilities(scores)
        return np.exp(scores) if self.link == "log" else scores

    def names(self, label: LabelBlock, width: int) -> tuple[str, ...]:
        """What these numbers are called, for scores of this width."""
        match self.answer:
            case "components":
                return tuple(f"component {number + 1}" for number in range(width))
            case "probabilities":
                return tuple(f"probability of {name}" for name in label.classes)
            case "margin":
                return (f"margin of {label.classes[1]}",)
            case "prediction":
                return (label.label.column if label.label is not None else "prediction",)
