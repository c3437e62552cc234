"""Public maps that a party sends its own columns through before anything is shared.

A linear model on mapped columns is a nonlinear model of the columns, at no further cost in rounds or in ε: the map
is declared in the schema, so it is public; it looks at one record at a time; and its block is bounded like any other.

Guarantee: every map returns vectors of norm at most 1 up to the rounding of floats, for any values. The quantizer,
which makes the guarantee that privacy rests on, takes nothing on trust from here (docs/proofs/encoding-norm.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.data.columns import Column, NumericColumn
from colonnade.data.declaring import check_positive, check_whole, nearest
from colonnade.data.image_maps import GradientHistogram, check_numeric
from colonnade.data.random_maps import MOST_FEATURES, RandomFourier, RandomRelu, within_unit_ball
from colonnade.errors import Misdeclared

__all__ = ["Ball", "FeatureMap", "GradientHistogram", "RandomFourier", "RandomRelu", "Rule"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ball:
    """The mapped columns as one vector of norm at most `bound`, in their own units; longer ones are shortened.

    For vectors whose norm is known better than their entries are, such as embeddings. Every column declares the
    bounds −bound and bound. `name` and `sha256` say which function of other columns made the vector, where one did
    (`colonnade.data.own_maps`).
    """

    bound: float
    name: str = ""
    sha256: str = ""
    kind: ClassVar[str] = "ball"
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(("map", "bound"), "map: bound", self.bound)
        object.__setattr__(self, "bound", float(self.bound))
        if self.sha256 and (len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef")):
            raise Misdeclared(("map", "sha256"), "map: sha256 is not 64 hexadecimal digits.")
        if bool(self.name) != bool(self.sha256):
            raise Misdeclared(
                ("map", "name"), "map: a function has a name and a sha256. Write both, or neither."
            )

    def check(self, columns: tuple[Column, ...]) -> None:
        """Numbers from −bound to bound: no entry of the vector can be larger than the vector."""
        check_numeric(self.kind, columns)
        for column in columns:
            if not isinstance(column, NumericColumn) or column.transform != "none":
                raise Misdeclared(
                    ("columns", column.name, "transform"),
                    f"map: column {column.name!r} has a transform, and a ball has a norm in the columns' own units. "
                    "Leave the transform out.",
                )
            if (column.low, column.high) != (-self.bound, self.bound):
                raise Misdeclared(
                    ("columns", column.name, "low"),
                    f"map: column {column.name!r} runs from {column.low:g} to {column.high:g}. In a ball of bound "
                    f"{self.bound:g} declare low = {-self.bound:g} and high = {self.bound:g}.",
                )

    def attributes(self, columns: int) -> int:
        """How many attributes the block counts as unless declared: as many as there are columns."""
        return columns

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return columns

    def apply(self, inputs: Array, columns: int) -> Array:
        """Features of linearly encoded rows; a row is a column of the array."""
        return within_unit_ball(np.array(inputs))

    def to_data(self) -> dict[str, object]:
        named = {"name": self.name, "sha256": self.sha256} if self.name else {}
        return {"kind": self.kind, "bound": self.bound, **named}


Rule = RandomRelu | RandomFourier | GradientHistogram | Ball


@dataclass(frozen=True)
class FeatureMap:
    """A rule, the columns that go through it (none named: all), and their share of a row's norm.

    The block that comes out counts as `weight` attributes: in a row of m attributes its squared norm is at most
    weight/m. Columns that are not mapped are encoded as usual.
    """

    rule: Rule
    columns: tuple[str, ...] = ()
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.weight is not None:
            check_whole(("map", "weight"), "map: weight", self.weight, low=1, high=MOST_FEATURES)
        if len(set(self.columns)) != len(self.columns):
            raise Misdeclared(("map", "columns"), "map: a column is named twice.")

    @property
    def name(self) -> str:
        return (self.rule.name if isinstance(self.rule, Ball) else "") or self.rule.kind

    def check(self, declared: tuple[Column, ...]) -> None:
        """Raise `Misdeclared` unless the rule can take these columns."""
        names = [column.name for column in declared]
        for name in self.columns:
            if name not in names:
                raise Misdeclared(
                    ("map", "columns"), f"map: column {name!r} is not declared." + nearest(name, names)
                )
        mapped = self.split(declared)[1]
        if not mapped:
            raise Misdeclared(("map",), "map: no columns are declared that could go through it.")
        self.rule.check(mapped)

    def split(self, declared: tuple[Column, ...]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """The columns that are encoded as usual, and those that go through the map, both in declared order."""
        if not self.columns:
            return (), declared
        chosen = set(self.columns)
        return (
            tuple(column for column in declared if column.name not in chosen),
            tuple(column for column in declared if column.name in chosen),
        )

    def attributes(self, columns: int) -> int:
        """How many attributes the mapped block counts as."""
        return self.weight if self.weight is not None else self.rule.attributes(columns)

    def to_data(self) -> dict[str, object]:
        columns = {"columns": list(self.columns)} if self.columns else {}
        weight = {} if self.weight is None else {"weight": self.weight}
        return {**self.rule.to_data(), **columns, **weight}
