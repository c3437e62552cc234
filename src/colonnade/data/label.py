"""The block of integers that a label becomes, and those of several labels beside each other.

The label block has norm at most γ/√2 on the integer grid (docs/proofs/encoding-norm.md), so that with
features of norm at most γ a joint row has ‖z‖² ≤ 1.5 γ² up to the rounding of the features. Its constant is
an integer and never rounded: class counts, sums and the intercept come out of one release exactly scaled.

Of k labels each has a block of norm at most γ/√(2k), so that all of them together have the norm that one has alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.forms import label_from_data
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel
from colonnade.errors import PlanError


@dataclass(frozen=True)
class LabelBlock:
    """The columns that a label, or its absence, adds to every row.

    * classes: g·onehot(y), g = ⌊γ/√2⌋; each row has norm exactly g.
    * real, count: (g₁, round(g₁v)), g₁ = ⌊γ/2⌋, v ∈ [−1, 1]; each row has norm at most √2·g₁.
    * no label (`LabelBlock(None)`): the constant g, so that counts and means come with the release.

    A label that is one `among` k has ⌊γ/√(2k)⌋ and ⌊γ/(2√k)⌋ for g and g₁.
    """

    label: Label | None
    among: int = 1

    @property
    def kind(self) -> str:
        """'classes', 'real', 'count' or 'none'."""
        return "none" if self.label is None else self.label.kind

    @property
    def one_hot(self) -> bool:
        """Whether products of two different label columns are 0 in every row, so need no release."""
        return isinstance(self.label, ClassLabel)

    @property
    def classes(self) -> tuple[str, ...]:
        """The declared classes; none unless the label is a class."""
        return self.label.classes if isinstance(self.label, ClassLabel) else ()

    @property
    def values(self) -> NDArray[Any]:
        """The declared classes as predictions say them: text, or whole numbers if they were declared so."""
        return np.array(self.label.values if isinstance(self.label, ClassLabel) else ())

    @property
    def entries(self) -> tuple[str, ...]:
        match self.label:
            case None:
                return ("constant",)
            case ClassLabel(column=column, classes=classes):
                return tuple(f"{column}={name}" for name in classes)
            case _:
                return ("constant", self.label.column)

    @property
    def width(self) -> int:
        return len(self.entries)

    def constant(self, gamma: int) -> int:
        """The integer that stands for "one": g or g₁."""
        parts = (4 if self.kind in ("real", "count") else 2) * self.among
        constant = math.isqrt(gamma * gamma // parts)
        if constant < 1:
            raise PlanError(
                f"gamma = {gamma} leaves no room for a label among {self.among}. Take a larger gamma, or fewer labels."
            )
        return constant

    def norm_squared(self, gamma: int) -> int:
        """The largest ‖label block‖² of any row, exactly; at most γ²/2k for one among k labels."""
        constant = self.constant(gamma)
        return 2 * constant**2 if self.kind in ("real", "count") else constant**2

    def quantize(self, values: ArrayLike | None, gamma: int, *, rows: int | None = None) -> NDArray[np.int64]:
        """The block for coded labels: class numbers, or real values in the label's own units.

        Without a label only the number of rows matters. Values outside the bounds are clipped.
        """
        constant = self.constant(gamma)
        if self.label is None or values is None:
            if self.label is not None or rows is None:
                raise ValueError("quantize needs label values, or for no label the number of rows")
            return np.full((rows, 1), constant, dtype=np.int64)
        given = np.asarray(values)
        if isinstance(self.label, ClassLabel):
            if given.dtype.kind not in "iu" or (
                given.size and not 0 <= given.min() <= given.max() < self.width
            ):
                raise ValueError(f"class codes are whole numbers from 0 to {self.width - 1}")
            block = np.zeros((len(given), self.width), dtype=np.int64)
            block[np.arange(len(given)), given] = constant
            return block
        block = np.empty((len(given), 2), dtype=np.int64)
        block[:, 0] = constant
        np.clip(
            np.rint(constant * self.to_unit(given)), -constant, constant, out=block[:, 1], casting="unsafe"
        )
        return block

    def to_unit(self, values: ArrayLike) -> NDArray[np.float64]:
        """Real labels y in their own units as v ∈ [−1, 1]."""
        low, high = self._bounds()
        given = np.asarray(values, dtype=np.float64)
        if not np.isfinite(given).all():
            raise ValueError("labels must be finite")
        return np.clip((np.clip(given, low, high) - low) * (2.0 / (high - low)) - 1.0, -1.0, 1.0)

    def from_unit(self, values: ArrayLike) -> NDArray[np.float64]:
        """Predictions v back in the label's own units; the inverse of `to_unit`."""
        low, high = self._bounds()
        return low + (np.asarray(values, dtype=np.float64) + 1.0) * ((high - low) / 2.0)

    def names(self, codes: ArrayLike) -> NDArray[Any]:
        values = self.values
        named = values if values.dtype.kind == "i" else values.astype(object)
        return np.asarray(named[np.asarray(codes)])

    def to_data(self) -> dict[str, object]:
        """A public description from which `from_data` makes the same block of a label that is alone."""
        return {"kind": "none"} if self.label is None else self.label.to_data()

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> LabelBlock:
        """The block that `to_data` described."""
        return cls(None if data == {"kind": "none"} else label_from_data(data))

    def _bounds(self) -> tuple[float, float]:
        if not isinstance(self.label, RealLabel | CountLabel):
            raise ValueError(f"a label of kind {self.kind!r} has no range")
        return self.label.low, self.label.high


@dataclass(frozen=True)
class LabelBlocks:
    """The blocks of all labels beside each other: one, of a constant, where there is none."""

    blocks: tuple[LabelBlock, ...]

    @classmethod
    def of(cls, labels: Sequence[Label]) -> LabelBlocks:
        """The blocks of these labels, all of the same share of the norm."""
        return cls(tuple(LabelBlock(label, len(labels)) for label in labels) or (LabelBlock(None),))

    @property
    def first(self) -> LabelBlock:
        """The label that is learnt where none is named."""
        return self.blocks[0]

    @property
    def width(self) -> int:
        return sum(block.width for block in self.blocks)

    @property
    def one_hot(self) -> bool:
        """Whether one entry at most of all blocks differs from 0 in any row."""
        return len(self.blocks) == 1 and self.first.one_hot

    @property
    def opened(self) -> NDArray[np.bool_]:
        """Which products of two label columns are released: those of two classes of one label are 0 in every row."""
        seen = np.ones((self.width, self.width), dtype=bool)
        for block, span in zip(self.blocks, self.spans, strict=True):
            if block.one_hot:
                seen[span, span] = np.eye(block.width, dtype=bool)
        return seen

    @property
    def spans(self) -> tuple[slice, ...]:
        """Where each block lies."""
        ends = list(accumulate((block.width for block in self.blocks), initial=0))
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def norm_squared(self, gamma: int) -> int:
        """The largest squared norm of all blocks in any row; at most γ²/2, however many labels there are."""
        return sum(block.norm_squared(gamma) for block in self.blocks)

    def quantize(
        self, values: Sequence[ArrayLike], gamma: int, *, rows: int | None = None
    ) -> NDArray[np.int64]:
        """The blocks for coded labels, one array for each; without a label only the number of rows matters."""
        if self.first.label is None:
            return self.first.quantize(None, gamma, rows=rows)
        parts = zip(self.blocks, values, strict=True)
        return np.concatenate([block.quantize(given, gamma) for block, given in parts], axis=1)
