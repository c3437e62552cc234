"""What is declared about a label, and the block of integers that it becomes: a class for each kind.

All label blocks together have norm at most γ/√2 on the integer grid (docs/proofs/encoding-norm.md), so that with
features of norm at most γ a joint row has ‖z‖² ≤ 1.5 γ² up to the rounding of the features. The constant is never
rounded: class counts, sums and the intercept come out of one release exactly scaled.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from colonnade.data import declaring
from colonnade.data.coding import Coded, Declared, Problems, bounded, floats, levels
from colonnade.data.documents import Form, check
from colonnade.data.forms import SpeltForm, Value
from colonnade.data.levels import level_at
from colonnade.errors import LabelMismatch, Misdeclared, PlanError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Task = Literal["classification", "regression"]


class Label(Declared):
    """What every kind of label says of itself."""

    column: str
    classes: tuple[str, ...]
    """The declared classes in order of their codes; none where it is a number."""
    task: ClassVar[Task]
    """What a model of it is learnt for."""
    shares: ClassVar[int]
    """γ²/shares is the most that the square of its constant may be."""

    @property
    def values(self) -> tuple[str, ...] | tuple[int, ...]:
        """The declared classes as predictions say them: text, or whole numbers if they were declared so."""
        return ()

    @property
    @abstractmethod
    def entries(self) -> tuple[str, ...]:
        """What each column of its block is."""

    @abstractmethod
    def block(self, values: NDArray[Any], constant: int) -> Integers:
        """The columns of coded values on the grid, where `constant` stands for one."""

    def drawn(self, places: Array) -> NDArray[Any]:
        """Coded values of synthetic people who stand at these places among all."""
        return self.at(places)


@dataclass(frozen=True)
class ClassLabel(Label):
    """One of the declared classes; `other` takes in what is not declared. `whole` ones are predicted as numbers."""

    column: str
    classes: tuple[str, ...]
    spelling: declaring.Spelling = declaring.AS_WRITTEN
    whole: bool = False
    other: str | None = None
    kind = "classes"
    reads = "levels"
    task = "classification"
    shares = 2

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.classes
        if all(isinstance(value, int) and not isinstance(value, bool) for value in given):
            object.__setattr__(self, "whole", True)
        classes = tuple(self.spelling.spell(value) for value in self.classes)
        declared = declaring.Declaration(("label",), f"label {self.column!r}")
        declared.check_values("classes", classes)
        object.__setattr__(self, "classes", classes)
        if self.other is not None:
            other = self.spelling.spell(self.other)
            declared.check_member("other", other, classes)
            object.__setattr__(self, "other", other)

    @property
    def values(self) -> tuple[str, ...] | tuple[int, ...]:
        return tuple(map(int, self.classes)) if self.whole else self.classes

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={name}" for name in self.classes)

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"column": self.column, "kind": self.kind, "classes": list(self.values)}
        other = {} if self.other is None else {"other": int(self.other) if self.whole else self.other}
        return {**data, **other, **self.spelling.to_data()}

    def coded(self, column: Any) -> Coded:
        # There is no place for missing values: an invented one would be learnt.
        return levels(column, self.classes, self.spelling, other=self.other)

    def block(self, values: NDArray[Any], constant: int) -> Integers:
        width = len(self.classes)
        if values.dtype.kind not in "iu" or (values.size and not 0 <= values.min() <= values.max() < width):
            raise ValueError(f"class codes are whole numbers from 0 to {width - 1}")
        block = np.zeros((len(values), width), dtype=np.int64)
        block[np.arange(len(values)), values] = constant
        return block

    def at(self, places: ArrayLike) -> NDArray[Any]:
        return level_at(places, len(self.classes))


@dataclass(frozen=True)
class NumberLabel(Label):
    column: str
    low: float
    high: float
    classes = ()
    reads = "numbers"
    task = "regression"
    shares = 4

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def entries(self) -> tuple[str, ...]:
        return ("constant", self.column)

    def to_data(self) -> dict[str, object]:
        return {"column": self.column, "kind": self.kind, "low": self.low, "high": self.high}

    def coded(self, column: Any) -> Coded:
        return bounded(floats(column), self.low, self.high)

    def block(self, values: NDArray[Any], constant: int) -> Integers:
        block = np.empty((len(values), 2), dtype=np.int64)
        block[:, 0] = constant
        unit = np.rint(constant * self.to_unit(values))
        np.clip(unit, -constant, constant, out=block[:, 1], casting="unsafe")
        return block

    def to_unit(self, values: ArrayLike) -> Array:
        """Labels y in their own units as v ∈ [−1, 1]."""
        low, high = self.low, self.high
        given = np.asarray(values, dtype=np.float64)
        if not np.isfinite(given).all():
            raise ValueError("labels must be finite")
        return np.clip((np.clip(given, low, high) - low) * (2.0 / (high - low)) - 1.0, -1.0, 1.0)

    def from_unit(self, values: ArrayLike) -> Array:
        """Predictions v back in the label's own units; the inverse of `to_unit`."""
        return self.low + (np.asarray(values, dtype=np.float64) + 1.0) * ((self.high - self.low) / 2.0)

    def at(self, places: ArrayLike) -> NDArray[Any]:
        return np.asarray(self.low + np.asarray(places) * (self.high - self.low))

    def drawn(self, places: Array) -> NDArray[Any]:
        from scipy.special import ndtri

        # Bell-shaped within the bounds: three standard deviations to either side.
        middle, extent = (self.low + self.high) / 2, (self.high - self.low) / 2
        return np.asarray(np.clip(middle + extent * ndtri(places) / 3, self.low, self.high))

    def __post_init__(self) -> None:
        declaring.Declaration(("label",), f"label {self.column!r}").check_bounds(self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))


@dataclass(frozen=True)
class RealLabel(NumberLabel):
    """A label that is a number between declared bounds."""

    kind = "real"
    centred = True


@dataclass(frozen=True)
class CountLabel(NumberLabel):
    """A label that counts something: whole numbers between declared bounds, none below zero."""

    kind = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in (("low", self.low), ("high", self.high)):
            if value < 0 or value != math.floor(value):
                said = f"label {self.column!r}: {key} = {value:g}, but a count is a whole number from 0 up."
                raise Misdeclared(("label", key), said)

    def coded(self, column: Any) -> Coded:
        coded = super().coded(column)
        if coded.problems:
            return coded
        fractional = np.count_nonzero(coded.values != np.floor(coded.values))
        return Coded(coded.values, coded.clipped, Problems(fractional=int(fractional)))

    def drawn(self, places: Array) -> NDArray[Any]:
        return np.asarray(np.rint(super().drawn(places)))


def kinds_for(task: str) -> tuple[str, ...]:
    """The kinds of label that a model of this task is learnt of."""
    return tuple(kind.kind for kind in (ClassLabel, RealLabel, CountLabel) if kind.task == task)


def label_named(name: str, labels: tuple[Label, ...]) -> Label:
    """The declared label of this name; a `LabelMismatch` says which there are."""
    names = [label.column for label in labels]
    if name not in names:
        declared = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        known = f"Declared {'are' if len(names) > 1 else 'is'} {declared}." if names else "None is declared."
        raise LabelMismatch(f"there is no label {name!r}. {known}" + declaring.nearest_name(str(name), names))
    return labels[names.index(name)]


class _Classes(SpeltForm):
    kind: Literal["classes"]
    column: str
    classes: list[Value]
    other: Value | None = None

    def label(self) -> Label:
        classes: Any = tuple(self.classes)  # the label checks and spells them itself
        other: Any = self.other
        return ClassLabel(self.column, classes, self.spelling(), other=other)


class _Number(Form):
    kind: Literal["real", "count"]
    column: str
    low: float
    high: float

    def label(self) -> Label:
        return (RealLabel if self.kind == "real" else CountLabel)(self.column, self.low, self.high)


LabelForm = Annotated[_Classes | _Number, Field(discriminator="kind")]


class _OneLabel(Form):
    label: LabelForm


def label_from_data(data: Mapping[str, object]) -> Label:
    return check(_OneLabel, {"label": dict(data)}, name="label").label.label()


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
        return "none" if self.label is None else self.label.kind

    @property
    def one_hot(self) -> bool:
        """Whether products of two different label columns are 0 in every row, so need no release."""
        return bool(self.classes)

    @property
    def numeric(self) -> bool:
        return self.label is not None and self.label.bounds is not None

    @property
    def task(self) -> Task:
        if self.label is None:
            raise ValueError("without a label there is no task")
        return self.label.task

    @property
    def classes(self) -> tuple[str, ...]:
        return () if self.label is None else self.label.classes

    @property
    def values(self) -> NDArray[Any]:
        return np.array(() if self.label is None else self.label.values)

    @property
    def entries(self) -> tuple[str, ...]:
        return ("constant",) if self.label is None else self.label.entries

    @property
    def width(self) -> int:
        return len(self.entries)

    def constant(self, gamma: int) -> int:
        """The integer that stands for "one": g or g₁."""
        shares = 2 if self.label is None else self.label.shares
        constant = math.isqrt(gamma * gamma // (shares * self.among))
        if constant < 1:
            raise PlanError(
                f"gamma = {gamma} leaves no room for a label among {self.among}. Take a larger gamma, or fewer labels."
            )
        return constant

    def norm_squared(self, gamma: int) -> int:
        """The largest ‖label block‖² of any row, exactly; at most γ²/2k for one among k labels."""
        constant = self.constant(gamma)
        return 2 * constant**2 if self.numeric else constant**2

    def quantize(self, values: ArrayLike | None, gamma: int, *, rows: int | None = None) -> Integers:
        """The block of coded labels, clipped to their bounds; without a label only the number of rows matters."""
        constant = self.constant(gamma)
        if self.label is None or values is None:
            if self.label is not None or rows is None:
                raise ValueError("quantize needs label values, or for no label the number of rows")
            return np.full((rows, 1), constant, dtype=np.int64)
        return self.label.block(np.asarray(values), constant)

    def to_unit(self, values: ArrayLike) -> Array:
        return self._number.to_unit(values)

    def from_unit(self, values: ArrayLike) -> Array:
        return self._number.from_unit(values)

    def names(self, codes: ArrayLike) -> NDArray[Any]:
        values = self.values
        named = values if values.dtype.kind == "i" else values.astype(object)
        return np.asarray(named[np.asarray(codes)])

    def to_data(self) -> dict[str, object]:
        """A public description from which `from_data` makes the same block of a label that is alone."""
        return {"kind": "none"} if self.label is None else self.label.to_data()

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> LabelBlock:
        return cls(None if data == {"kind": "none"} else label_from_data(data))

    @property
    def _number(self) -> NumberLabel:
        if not isinstance(self.label, NumberLabel):
            raise ValueError(f"a label of kind {self.kind!r} has no range")
        return self.label


@dataclass(frozen=True)
class LabelBlocks:
    """The blocks of all labels beside each other: one, of a constant, where there is none."""

    blocks: tuple[LabelBlock, ...]

    @classmethod
    def of(cls, labels: Sequence[Label]) -> LabelBlocks:
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
        ends = list(accumulate((block.width for block in self.blocks), initial=0))
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def norm_squared(self, gamma: int) -> int:
        """The largest squared norm of all blocks in any row; at most γ²/2, however many labels there are."""
        return sum(block.norm_squared(gamma) for block in self.blocks)

    def quantize(self, values: Sequence[ArrayLike], gamma: int, *, rows: int | None = None) -> Integers:
        """The blocks for coded labels, one array for each; without a label only the number of rows matters."""
        if self.first.label is None:
            return self.first.quantize(None, gamma, rows=rows)
        parts = zip(self.blocks, values, strict=True)
        return np.concatenate([block.quantize(given, gamma) for block, given in parts], axis=1)
