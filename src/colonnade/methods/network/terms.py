"""Words and numbers that plans of networks and their views share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BOUND = 1
"""C: no coordinate of an embedding is larger."""
# Embeddings of the local baseline and clipped gradients are integers on grids this fine.
EMBEDDING_GRID = 1 << 12
GRADIENT_GRID = 1 << 16

Regime = Literal["frozen", "private-local", "paper"]
Mechanism = Literal["poisson-binomial", "local-gaussian", "none"]
Kind = Literal["random", "dense", "convolutional", "resnet18"]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Some rows of one epoch: `held_out` ones are looked at and never learnt from."""

    step: int
    rows: Indices
    held_out: bool
