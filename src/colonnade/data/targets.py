"""What is declared about a label."""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.data.declaring import check_bounds, check_member, check_values, nearest
from colonnade.data.spelling import AS_WRITTEN, Spelling
from colonnade.errors import LabelMismatch, Misdeclared


@dataclass(frozen=True)
class ClassLabel:
    """A label that is one of the declared classes; `other`, itself declared, takes in whatever is not.

    Classes that were declared as whole numbers are told as whole numbers again (`values`); they are compared as text.
    """

    column: str
    classes: tuple[str, ...]
    spelling: Spelling = AS_WRITTEN
    whole: bool = False
    other: str | None = None
    kind = "classes"

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.classes
        if all(isinstance(value, int) and not isinstance(value, bool) for value in given):
            object.__setattr__(self, "whole", True)
        classes = tuple(self.spelling.spell(value) for value in self.classes)
        check_values(("label", "classes"), f"label {self.column!r}", classes, least=2)
        object.__setattr__(self, "classes", classes)
        if self.other is not None:
            other = self.spelling.spell(self.other)
            check_member(("label", "other"), f"label {self.column!r}", other, among=classes)
            object.__setattr__(self, "other", other)

    @property
    def levels(self) -> tuple[str, ...]:
        """The declared classes in order of their codes."""
        return self.classes

    @property
    def values(self) -> tuple[str, ...] | tuple[int, ...]:
        return tuple(map(int, self.classes)) if self.whole else self.classes

    @property
    def missing(self) -> str | None:
        """A label has no place for missing values: an invented one would be learnt."""
        return None

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"column": self.column, "kind": self.kind, "classes": list(self.values)}
        other = {} if self.other is None else {"other": int(self.other) if self.whole else self.other}
        return {**data, **other, **self.spelling.to_data()}


@dataclass(frozen=True)
class RealLabel:
    """A label that is a number between declared bounds."""

    column: str
    low: float
    high: float
    kind = "real"

    def __post_init__(self) -> None:
        check_bounds(("label",), f"label {self.column!r}", self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    def to_data(self) -> dict[str, object]:
        return {"column": self.column, "kind": self.kind, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class CountLabel:
    """A label that counts something: whole numbers between declared bounds, none below zero."""

    column: str
    low: float
    high: float
    kind = "count"

    def __post_init__(self) -> None:
        what = f"label {self.column!r}"
        check_bounds(("label",), what, self.low, self.high)
        for key, value in (("low", self.low), ("high", self.high)):
            if value < 0 or value != math.floor(value):
                raise Misdeclared(
                    ("label", key), f"{what}: {key} = {value:g}, but a count is a whole number from 0 up."
                )
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    def to_data(self) -> dict[str, object]:
        return {"column": self.column, "kind": self.kind, "low": self.low, "high": self.high}


Label = ClassLabel | RealLabel | CountLabel


def label_named(name: str, labels: tuple[Label, ...]) -> Label:
    """The declared label of this name; a `LabelMismatch` says which there are."""
    names = [label.column for label in labels]
    if name not in names:
        declared = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        known = f"Declared {'are' if len(names) > 1 else 'is'} {declared}." if names else "None is declared."
        raise LabelMismatch(f"there is no label {name!r}. {known}" + nearest(str(name), names))
    return labels[names.index(name)]
