"""From declared columns to features, and from features to integers of bounded norm."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.block import Block, clamp_columns, code_mapping
from colonnade.data.coding import Mode
from colonnade.data.declaring import nearest_name
from colonnade.data.forms import columns_from_data
from colonnade.data.kinds import Column
from colonnade.data.maps import FeatureMap, map_from_data
from colonnade.errors import DataError, PlanError, SchemaError
from colonnade.numbers.rounding import nearest, retry, toward_zero
from colonnade.privacy.sensitivity.matrix import rounded_norm_squared
from colonnade.randomness import Randomness

MODES: tuple[Mode, ...] = ("circle", "linear")
# Rows are encoded in pieces whose features stay in the second-level cache.
_PIECE = 4096


@dataclass(frozen=True)
class Encoder:
    """How one party's columns become features; public, and enough to encode raw rows anywhere.

    Guarantee: every attribute's block has norm at most 1 up to the rounding of floats, for any values. Privacy rests on
    the quantizer, which takes nothing on trust from here.
    """

    columns: tuple[Column, ...]
    mode: Mode
    map: FeatureMap | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")
        if self.map is not None:
            self.map.check(self.columns)
        names = self.feature_names
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise SchemaError(f"two features would be called {twice[0]!r}. Rename one of the columns.")

    @property
    def attributes(self) -> int:
        """m_q: the number of blocks of norm at most 1, one for each column; a map counts as many as it declares."""
        return len(self.plain) + (0 if self.map is None else self.map.attributes(len(self.mapped)))

    @cached_property
    def plain(self) -> tuple[Column, ...]:
        return self.columns if self.map is None else self.map.split(self.columns)[0]

    @cached_property
    def mapped(self) -> tuple[Column, ...]:
        return () if self.map is None else self.map.split(self.columns)[1]

    @property
    def width(self) -> int:
        return len(self.feature_names)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """One readable name per feature; `job:clerk` weighs clerks against the categories before them."""
        plain = tuple(name for column in self.plain for name in column.features(self.mode))
        if self.map is None:
            return plain
        return plain + self.map.rule.names(tuple(column.name for column in self.mapped))

    @cached_property
    def spans(self) -> Mapping[str, slice]:
        spans, start = {}, 0
        for column in self.plain:
            width = len(column.features(self.mode))
            spans[column.name] = slice(start, start + width)
            start += width
        return spans

    def encode(self, values: Block | Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        block = self.block(values)
        features = np.empty((block.rows, self.width))
        for rows, piece in self.pieces(block):
            features[rows] = piece.T
        return features

    def block(self, values: Block | Mapping[str, ArrayLike]) -> Block:
        if not isinstance(values, Block):
            return code_mapping(values, self.columns)
        for column in self.columns:
            if column.name not in values.columns:
                raise SchemaError(
                    f"the encoder needs column {column.name!r}, which this table does not declare."
                    + nearest_name(column.name, values.columns)
                )
        return values

    def pieces(self, block: Block, *, scale: float = 1.0) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The features times `scale`, feature-major, some rows at a time; each piece is overwritten by the next."""
        scratch = np.empty((self.width, min(_PIECE, block.rows)))
        writers = [
            (scratch[self.spans[column.name]], block.columns[column.name], column.writer(self.mode, scale))
            for column in self.plain
        ]
        unmapped = sum(len(target) for target, _, _ in writers)
        mapped = self._mapped_pieces(block, scale)
        for start in range(0, block.rows, _PIECE):
            stop = min(start + _PIECE, block.rows)
            for target, values, write in writers:
                write(values[start:stop], target[:, : stop - start])
            piece = scratch[:, : stop - start]
            if self.mode == "linear":
                np.clip(piece[:unmapped], -scale, scale, out=piece[:unmapped])
            for features in itertools.islice(mapped, 1):
                piece[unmapped:] = features
            yield slice(start, stop), piece

    def _mapped_pieces(self, block: Block, scale: float) -> Iterator[NDArray[np.float64]]:
        """The block of the map, of norm at most √(its attributes) times `scale`, in the same pieces."""
        if self.map is None:
            return
        inner = Encoder(self.mapped, "linear" if self.map.rule.linear else self.mode)
        size = scale * math.sqrt(self.map.attributes(len(self.mapped)))
        for _, inputs in inner.pieces(block):
            yield self.map.rule.apply(inputs, len(self.mapped)) * size

    def to_data(self) -> dict[str, object]:
        mapped = {} if self.map is None else {"map": self.map.to_data()}
        return {"mode": self.mode, "columns": [column.to_data() for column in self.columns], **mapped}

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Encoder:
        mode = data.get("mode")
        for known in MODES:
            if mode == known and {"mode", "columns"} <= set(data) <= {"mode", "columns", "map"}:
                columns = columns_from_data(data["columns"])
                return cls(columns, known, map_from_data(data["map"]) if "map" in data else None)
        raise SchemaError(f"an encoder description needs 'columns' and a 'mode' among {', '.join(MODES)}.")


Rounding = Literal["nearest", "retry", "toward_zero"]

# Below this γ the error of rounding to nearest, √n/2 per row, is felt in the noise.
LEAST_GAMMA_NEAREST = 2**12
LEAST_GAMMA: Mapping[Rounding, int] = {"nearest": LEAST_GAMMA_NEAREST, "retry": 2**2, "toward_zero": 2}
MOST_GAMMA = 2**28


@dataclass(frozen=True)
class Quantizer:
    """One party's features as integers, x̃ = round(γ·clip(x/√m)), with m the attributes of all parties together.

    `cap_squared` is c_q², this party's part of the joint norm; those of all parties sum to at most 1. By default it is
    m_q/m, which every encoded row meets; a smaller one shortens rows. `rounding` is "nearest", for fine grids; "retry",
    whose mean is the value and whose norm keeps the bound γ²c² + n of SPCA (Skellam noise in BGW) from γ = 4 up; or
    "toward_zero". How often a row was drawn again depends on the row and leaves this object in no form.
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
        """The integers of a block, or of raw values by column, one row each; only retry draws from `randomness`."""
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
