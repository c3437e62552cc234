"""What the server does with noisy gradients. It is post-processing: no choice here changes what anybody learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.numbers.rounding import toward_zero

Array = NDArray[np.float64]
OptimiserName = Literal["sgd", "momentum", "adam"]
_MOMENTUM, _SECOND, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Optimiser:
    """Plain steps, heavy-ball momentum, or Adam; and how much of the end of the path is averaged.

    Features have norm at most 1 and the loss bends by less than ¼ of that, so learning rates are larger than usual.
    With `average` = ½ the model is the mean of the second half of the weights visited, which takes out most of the
    noise of the last steps; 0 takes the last weights as they are.
    """

    name: OptimiserName = "momentum"
    learning_rate: float = 16.0
    average: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in ("sgd", "momentum", "adam"):
            raise PlanError(f"optimiser {self.name!r} is not one of sgd, momentum, adam.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise PlanError(f"learning_rate = {self.learning_rate!r} is not a positive number. Try 16.")
        if not 0 <= self.average <= 1:
            raise PlanError(f"average = {self.average!r} is not a share between 0 and 1. Try 0.5.")

    def to_data(self) -> dict[str, object]:
        return {"name": self.name, "learning_rate": self.learning_rate, "average": self.average}


class Descent:
    """Weights inside a ball, moved by gradients as they come."""

    def __init__(self, size: int, optimiser: Optimiser, *, cap: float, steps: int) -> None:
        self.weights = np.zeros(size)
        self._optimiser, self._cap = optimiser, cap
        self._first, self._second = np.zeros(size), np.zeros(size)
        self._taken = 0
        self._from = steps - max(1, math.ceil(optimiser.average * steps))
        self._sum = np.zeros(size)

    def step(self, gradient: Array) -> None:
        """One move against the gradient, then back into the ball."""
        self._taken += 1
        self.weights = self.weights - self._optimiser.learning_rate * self._direction(gradient)
        norm = float(np.linalg.norm(self.weights))
        if norm > self._cap:
            self.weights *= self._cap / norm
        if self._taken > self._from:
            self._sum += self.weights

    def _direction(self, gradient: Array) -> Array:
        if self._optimiser.name == "sgd":
            return gradient
        if self._optimiser.name == "momentum":
            self._first = _MOMENTUM * self._first + gradient
            # So that a learning rate means as much as without momentum.
            return (1 - _MOMENTUM) * self._first
        self._first = _MOMENTUM * self._first + (1 - _MOMENTUM) * gradient
        self._second = _SECOND * self._second + (1 - _SECOND) * gradient**2
        mean = self._first / (1 - _MOMENTUM**self._taken)
        square = self._second / (1 - _SECOND**self._taken)
        return np.asarray(mean / (np.sqrt(square) + _TINY))

    @property
    def model(self) -> Array:
        return self._sum / max(1, self._taken - self._from)

    def on_grid(self, gamma: int, norm_squared: int) -> NDArray[np.int64]:
        """The weights as integers, rounded toward zero: ‖w̃‖² ≤ norm_squared, decided on integers."""
        integers = toward_zero(gamma * self.weights)
        while sum(int(entry) ** 2 for entry in integers) > norm_squared:
            integers -= np.sign(integers)
        return integers
