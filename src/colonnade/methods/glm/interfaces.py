"""What the protocols of generalised linear models need of a loss and of a penalty.

`losses` and `penalties` beside it have them: a model is chosen above, and the protocol that trains it takes it as it
comes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.labels import Label
from colonnade.privacy.paper import hdp_vfl
from colonnade.privacy.sensitivity.losses import LossBounds
from colonnade.protocols.specs import Task

Array = NDArray[np.float64]


class Loss(Protocol):
    """What the protocol needs of a loss; `colonnade.methods.glm.losses` has five."""

    @property
    def name(self) -> str: ...

    @property
    def task(self) -> Task: ...

    @property
    def radius(self) -> float:
        """How long weights may be where nobody says, chosen without data."""
        ...

    def check(self, label: Label) -> None:
        """Raise a `PlanError` unless the declared label fits."""
        ...

    def targets(self, label: Label, values: ArrayLike) -> Array:
        """Coded labels as the loss takes them, within its bounds for any values."""
        ...

    def value(self, scores: Array, targets: Array) -> Array: ...

    def residual(self, scores: Array, targets: Array) -> Array:
        """h = ∂ℓ/∂θ for each row."""
        ...

    def mean(self, scores: Array, label: Label) -> Array: ...

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """How large, how steep and how far from another record's a residual can be."""
        ...

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """The constants that HDP-VFL prints, or a `PlanError` where it has none."""
        ...
