"""Penalties as proximal steps: none of them moves two weights apart, so none changes a sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError

Array = NDArray[np.float64]
PenaltyName = Literal["none", "l2", "l1", "elastic_net"]


@dataclass(frozen=True)
class Penalty:
    """`l1`·‖w‖₁ + (`l2`/2)·‖w‖², applied after each gradient step by its proximal operator.

    Guarantee: `step` does not expand distances, coordinate by coordinate. Soft thresholding at ηl₁ and division by
    1 + ηl₂ are both 1-Lipschitz, and a coordinate that is left alone keeps its distance
    (docs/proofs/message-sensitivity.md).
    """

    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) and value >= 0 for value in (self.l1, self.l2)):
            raise PlanError(
                f"penalties are finite and not negative, not l1 = {self.l1:g} and l2 = {self.l2:g}. Try 0.001."
            )

    @classmethod
    def named(cls, name: PenaltyName, strength: float, *, mix: float = 1.0) -> Penalty:
        """λ‖w‖²/2, λ‖w‖₁ or λ(‖w‖₁ + (μ/2)‖w‖²) with λ the strength and μ the mix."""
        match name:
            case "none":
                return cls()
            case "l2":
                return cls(l2=strength)
            case "l1":
                return cls(l1=strength)
            case "elastic_net":
                return cls(l1=strength, l2=strength * mix)

    def step(self, weights: Array, step_size: float, *, free: int = 0) -> Array:
        """The proximal step for this step size; the last `free` weights, an intercept, are left alone."""
        if self.l1 == 0.0 and self.l2 == 0.0:
            return weights
        held = weights[: len(weights) - free]
        if self.l1:
            held = np.sign(held) * np.maximum(np.abs(held) - step_size * self.l1, 0.0)
        held = held / (1.0 + step_size * self.l2)
        return np.concatenate((held, weights[len(weights) - free :]))

    def value(self, weights: Array) -> float:
        return float(self.l1 * np.abs(weights).sum() + self.l2 / 2 * (weights @ weights))

    def to_data(self) -> dict[str, float]:
        """The penalty as plain values, for the parties to compare."""
        return {"l1": self.l1, "l2": self.l2}
