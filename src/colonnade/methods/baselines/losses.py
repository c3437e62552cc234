"""Losses of linear models: what each record's gradient is with respect to its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loss:
    """Logistic loss for classes 0 and 1, softmax for more, squares for numbers in [−1, 1]."""

    kind: Literal["classes", "numbers"]
    targets: NDArray[np.int64] | Array
    outputs: int

    def values(self, scores: Array, records: NDArray[np.int64]) -> Array:
        """The loss of these records of some class at these scores."""
        wanted = self.targets[records]
        if self.outputs == 1:
            return np.asarray(np.logaddexp(0.0, scores[:, 0]) - wanted * scores[:, 0])
        chosen = scores[np.arange(len(records)), wanted.astype(np.int64)]
        return np.asarray(logsumexp(scores, axis=1) - chosen)

    def residuals(self, scores: Array, records: NDArray[np.int64]) -> Array:
        """∂loss/∂score for these records at these scores, one column for each output."""
        wanted = self.targets[records]
        if self.kind == "numbers":
            return np.asarray(scores - wanted[:, None])
        if self.outputs == 1:
            return np.asarray(expit(scores) - wanted[:, None])
        shares = np.asarray(softmax(scores, axis=1))
        shares[np.arange(len(records)), wanted.astype(np.int64)] -= 1.0
        return shares
