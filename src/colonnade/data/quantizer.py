"""From features to integers of bounded norm: the last step before a record is shared.

Guarantee: for any values whatever, each row x̃ that `quantize` returns has ‖x̃‖² ≤ `norm_squared_bound`,
checked in integer arithmetic. Sensitivity and therefore ε rest on this number and on nothing that happened
in floating point before. Proof: docs/proofs/encoding-norm.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.block import Block
from colonnade.data.clipping import clamp_columns
from colonnade.data.encoder import Encoder
from colonnade.errors import DataError, PlanError
from colonnade.numbers.rounding import nearest, retry, toward_zero
from colonnade.privacy.sensitivity.rows import rounded_norm_squared
from colonnade.randomness import Randomness

Rounding = Literal["nearest", "retry", "toward_zero"]

# Below this γ the error of rounding to nearest, √n/2 per row, is felt in the noise.
LEAST_GAMMA_NEAREST = 2**12
LEAST_GAMMA: Mapping[Rounding, int] = {"nearest": LEAST_GAMMA_NEAREST, "retry": 2**2, "toward_zero": 2}
MOST_GAMMA = 2**28


@dataclass(frozen=True)
class Quantizer:
    """One party's features as integers: x̃ = round(γ·clip(x/√m)).

    `attributes_total` is m, the attributes of all parties together. `cap_squared` is c_q², this party's part
    of the joint norm; the caps of all parties must sum to at most 1. By default c_q² = m_q/m, which every
    encoded row meets as it is; a smaller cap shortens rows.

    `rounding` is "nearest", deterministic and for fine grids; "retry", whose mean is the value and whose norm keeps
    the bound γ²c² + n of SPCA (Skellam noise in BGW) on grids as coarse as γ = 4; or "toward_zero". How often a row
    was drawn again depends on the row and leaves this object in no form.
    """

    encoder: Encoder
    attributes_total: int
    gamma: int
    cap_squared: Fraction | None = None
    rounding: Rounding = "nearest"

    def __post_init__(self) -> None:
        if self.rounding not in LEAST_GAMMA:
            raise PlanError(f"rounding {self.rounding!r} is not one of {', '.join(LEAST_GAMMA)}.")
        least = LEAST_GAMMA[self.rounding]
        if not least <= self.gamma <= MOST_GAMMA:
            coarser = " Rounding 'retry' takes coarser grids." if self.rounding == "nearest" else ""
            raise PlanError(
                f"gamma = {self.gamma} is outside {least} to {MOST_GAMMA} for rounding {self.rounding!r}.{coarser}"
            )
        if self.attributes_total < max(1, self.encoder.attributes):
            raise PlanError(
                f"{self.attributes_total} attributes in all, but this party alone has {self.encoder.attributes}."
            )
        cap = self.natural_cap_squared if self.cap_squared is None else Fraction(self.cap_squared)
        if not 0 <= cap <= 1 or (cap == 0 and self.encoder.width):
            raise PlanError(f"a party's cap c² = {cap} is outside 0 to 1.")
        object.__setattr__(self, "cap_squared", cap)

    @property
    def natural_cap_squared(self) -> Fraction:
        """m_q/m: the squared norm that no encoded row exceeds."""
        return Fraction(self.encoder.attributes, self.attributes_total)

    @cached_property
    def norm_squared_bound(self) -> int:
        """The integer that ‖x̃‖² never exceeds."""
        return rounded_norm_squared(self.gamma, self._cap, columns=self.encoder.width, rounding=self.rounding)

    @property
    def width(self) -> int:
        return self.encoder.width

    def quantize(
        self, values: Block | Mapping[str, ArrayLike], randomness: Randomness | None = None
    ) -> NDArray[np.int64]:
        """The integers of a block of a table, or of raw values by column, one row each.

        Rounding by "retry" draws from `randomness`; the others need none.
        """
        block = self.encoder.block(values)
        integers = np.empty((block.rows, self.width), dtype=np.int64)
        if not self.width:
            return integers
        for rows, piece in self.encoder.pieces(block, scale=self.gamma / math.sqrt(self.attributes_total)):
            integers[rows] = self._round(piece, randomness).T
        return integers

    @property
    def _cap(self) -> Fraction:
        return self.natural_cap_squared if self.cap_squared is None else self.cap_squared

    def _round(self, piece: NDArray[np.float64], randomness: Randomness | None) -> NDArray[np.int64]:
        """Rounded records, one a column."""
        if self._cap < self.natural_cap_squared or self.rounding == "retry":
            # Retry asks for rows within the bound to begin with; the last bits of floats are left to spare.
            spare = 1.0 - 2.0**-40 if self.rounding == "retry" else 1.0
            limit = self.gamma * math.sqrt(self._cap) * spare
            norms = np.sqrt(np.einsum("ij,ij->j", piece, piece))
            piece *= limit / np.maximum(norms, limit)
        try:
            if self.rounding == "nearest":
                integers = nearest(piece)
            elif self.rounding == "toward_zero":
                integers = toward_zero(piece)
            elif randomness is None:
                raise TypeError("rounding 'retry' needs coins: quantize(values, randomness)")
            else:
                rows = np.ascontiguousarray(piece.T)
                integers = np.ascontiguousarray(retry(rows, self.norm_squared_bound, randomness).T)
        except ValueError:
            raise DataError("a value that is not a finite number reached the quantizer.") from None
        peak = max(int(integers.max()), -int(integers.min()))
        if self.width * peak**2 > self.norm_squared_bound:
            clamp_columns(integers, self.norm_squared_bound)
        return integers
