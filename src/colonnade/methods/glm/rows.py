"""The rows that protocols of generalised linear models work on: stretched, clipped, on a grid, of bounded norm.

A joint row is (x₁, …, x_K, 1)/√2, party q's part of it clipped to norm √(m_q/m), so that it has norm at most 1 without
anyone seeing another's. The constant belongs to the active party and carries the intercept.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block, clamp_columns
from colonnade.data.encoder import Encoder
from colonnade.data.schema import PublicSchema
from colonnade.numbers.rounding import nearest
from colonnade.protocols.plans import TrainingPlan

GAMMA = 1 << 20
"""The grid of rows: features are multiples of 1/GAMMA."""
CONSTANT = math.sqrt(0.5)
"""The entry of every row of the active party that carries the intercept."""


@dataclass(frozen=True)
class ClippedRows:
    """Public. Features of honest bounds fill a third to a half of them: stretched by 3 they use their norm."""

    schemas: tuple[PublicSchema, ...]
    active: str
    stretch: float

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        return {schema.party: schema.encoder("linear") for schema in self.schemas}

    @property
    def attributes(self) -> int:
        return sum(encoder.attributes for encoder in self.encoders.values())

    @property
    def scale(self) -> float:
        """What an encoded feature is multiplied by before rows are clipped: the stretch over √(2m)."""
        return self.stretch / math.sqrt(2 * self.attributes)

    def norm_squared(self, owner: str) -> int:
        """What no squared norm of this owner's features exceeds, in units of 1/GAMMA², exactly."""
        return self.encoders[owner].attributes * GAMMA**2 // (2 * self.attributes)

    def cap(self, owner: str) -> float:
        """c_q: no row of this owner is longer, the active party's constant included."""
        square = self.norm_squared(owner) / GAMMA**2
        return math.sqrt(square + (0.5 if owner == self.active else 0.0)) * (1 + 2.0**-50)

    def integers(self, owner: str, block: Block) -> NDArray[np.int64]:
        """An owner's features for some people in units of 1/GAMMA; ‖x̃‖² ≤ `norm_squared`, checked in integers."""
        encoder = self.encoders[owner]
        rows = np.empty((block.rows, encoder.width), dtype=np.int64)
        if encoder.width:
            for some, piece in encoder.pieces(block, scale=GAMMA / math.sqrt(2 * self.attributes)):
                integers = nearest(piece * self.stretch)
                clamp_columns(integers, self.norm_squared(owner))
                rows[some] = integers.T
        return rows

    def of(self, owner: str, block: Block) -> NDArray[np.float64]:
        return self.integers(owner, block) / GAMMA


class ClippedPlan(TrainingPlan):
    @property
    @abstractmethod
    def stretch(self) -> float:
        """What features are stretched by before rows are clipped."""

    @property
    def active(self) -> str:
        return self.group.active or self.group.owners[0]

    @property
    def passive(self) -> tuple[str, ...]:
        return tuple(owner for owner in self.group.owners if owner != self.active)

    @cached_property
    def clipped(self) -> ClippedRows:
        return ClippedRows(self.schemas, self.active, self.stretch)
