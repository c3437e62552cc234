"""From values as they come to values as they are declared, and from those to blocks of bounded norm."""

from __future__ import annotations

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import NOT_READ, distinct, kind_of, microseconds, numbers, values_of
from colonnade.data.declaring import Spelling
from colonnade.data.graph import Graph
from colonnade.errors import BadValues

Array = NDArray[np.float64]
Mode = Literal["circle", "linear"]


def simplex(vertices: int) -> Array:
    """The vertices of a regular simplex, one row each, norm 1, in k − 1 dimensions: inner products are −1/(k − 1).

    Axis a is positive at vertex a + 1, negative before it and 0 after it (Helmert's contrasts), so axes can be read.
    """
    if vertices < 2:
        raise ValueError(f"a simplex needs two vertices or more, not {vertices}")
    corners = np.zeros((vertices, vertices - 1))
    for axis in range(vertices - 1):
        corners[: axis + 1, axis] = -1.0
        corners[axis + 1, axis] = axis + 1.0
        corners[:, axis] *= math.sqrt(vertices / ((vertices - 1) * (axis + 1) * (axis + 2)))
    return corners


def thermometer(levels: int, *, missing: bool = False) -> Array:
    """The codes of ordered levels, one row each, norm 1, in k − 1 dimensions: ±1/√(k − 1) by which edges are passed.

    `missing` adds a level on neither side of any edge: 1 on an axis of its own, where the k others have −1/√k.
    """
    if levels < 2:
        raise ValueError(f"ordered levels are two or more, not {levels}")
    passed = np.where(np.arange(1, levels) <= np.arange(levels)[:, None], 1.0, -1.0)
    if not missing:
        return np.asarray(passed / math.sqrt(levels - 1))
    known = np.column_stack([passed, np.full(levels, -1.0)]) / math.sqrt(levels)
    return np.vstack([known, np.eye(1, levels, levels - 1)])


@dataclass(frozen=True)
class NumberCode:
    """A shape, the knots of hats, and whether missing numbers have an axis of their own."""

    shape: Literal["circle", "linear", "hats"]
    knots: int = 0
    missing: bool = False

    @property
    def plain(self) -> bool:
        return self.shape != "hats" and not self.missing

    @property
    def width(self) -> int:
        return self._known + self.missing

    def names(self, name: str, knots: Array) -> tuple[str, ...]:
        """A name for each feature; of hats, at which number an axis is largest: `knots` are the numbers."""
        own = (f"{name}:missing",) if self.missing else ()
        if self.shape == "circle":
            return (f"{name}:sin", f"{name}:cos", *own)
        if self.shape == "linear":
            return (name, *own)
        for digits in (6, 17):
            texts = [f"{at:.{digits}g}" for at in knots]
            if len(set(texts)) == len(texts):
                break
        else:
            texts = [f"knot {number}" for number in range(self.knots)]
        return (*(f"{name}:{at}" for at in texts[1:]), *own)

    def features(self, u: Array) -> Array:
        """One row for each place, NaN where the number is missing; each of norm at most 1."""
        absent = np.isnan(u)
        if not self.missing:
            return self._shaped(u)
        rows = np.empty((len(u), self.width))
        rows[:, :-1] = self._shaped(np.where(absent, 0.0, u)) * self._size
        rows[:, -1] = -1.0 / math.sqrt(self._known + 1)
        rows[absent] = np.eye(1, self.width, self.width - 1)
        return rows

    def score_range(self, weights: Array) -> tuple[float, float]:
        own = weights[: self._known] * (self._size if self.missing else 1.0)
        if self.shape == "linear":
            low, high = -abs(float(own[0])), abs(float(own[0]))
        elif self.shape == "circle":
            # On the half circle (sin u, cos u) the cosine is never negative.
            sine, cosine = abs(float(own[0])), float(own[1])
            whole = math.hypot(sine, cosine)
            low, high = (-sine, whole) if cosine >= 0 else (-whole, sine)
        else:
            at_knots = simplex(self.knots) @ own
            low, high = float(at_knots.min()), float(at_knots.max())
        if not self.missing:
            return low, high
        axis = float(weights[-1])
        moved = -axis / math.sqrt(self._known + 1)
        return min(low + moved, axis), max(high + moved, axis)

    def onnx(self, graph: Graph, unit: str, raw: str) -> str:
        """The block of a number at the place `unit`, in a graph; `raw` is the number as it came."""
        block, size = unit, self._size if self.missing else 1.0
        if self.shape == "circle":
            angle = graph.add("Mul", [unit, graph.constant(math.pi / 2.0)])
            both = [graph.add("Sin", [angle]), graph.add("Cos", [angle])]
            block = graph.add("Concat", both, attributes={"axis": 1})
        elif self.shape == "hats":
            # How near a knot is, in steps: what is one step away or more has no part in it.
            knots, step = np.linspace(-1.0, 1.0, self.knots), 2.0 / (self.knots - 1)
            away = graph.add("Abs", [graph.add("Sub", [unit, graph.constant([knots])])])
            near = graph.add("Sub", [graph.constant(1.0), graph.add("Div", [away, graph.constant(step)])])
            hats = graph.add("Max", [near, graph.constant(0.0)])
            # A factor of its own beside a product may be rounded to single precision by a runtime.
            block, size = graph.add("MatMul", [hats, graph.constant(simplex(self.knots) * size)]), 1.0
        if not self.missing:
            return block
        absent, present = self.features(np.array([math.nan, 0.0]))
        axis = graph.add("Add", [graph.add("Mul", [unit, graph.constant(0.0)]), graph.constant(present[-1])])
        block = block if size == 1.0 else graph.add("Mul", [block, graph.constant(size)])
        known = graph.add("Concat", [block, axis], attributes={"axis": 1})
        return graph.either(graph.add("IsNaN", [raw]), [absent], known)

    @property
    def _known(self) -> int:
        return {"linear": 1, "circle": 2, "hats": self.knots - 1}[self.shape]

    @property
    def _size(self) -> float:
        return math.sqrt(self._known / (self._known + 1))

    def _shaped(self, u: Array) -> Array:
        if self.shape == "circle":
            return np.column_stack([np.sin(u * (math.pi / 2)), np.cos(u * (math.pi / 2))])
        if self.shape == "linear":
            return u[:, None]
        step = (np.clip(u, -1.0, 1.0) + 1.0) * ((self.knots - 1) / 2.0)
        before = np.minimum(step.astype(np.int64), self.knots - 2)
        corners, share = simplex(self.knots), (step - before)[:, None]
        return np.asarray((1.0 - share) * corners[before] + share * corners[before + 1])


# What tables have where a value is not known, in small letters; no category is called so.
NO_VALUE = frozenset(
    {"na", "n/a", "nan", "null", "nil", "?", "#n/a", "#null!", "#div/0!", "#value!", "#ref!", "#num!"}
)
# The same where a number is declared: these may also be categories.
MARKS = NO_VALUE | {"none", "missing", "unknown", "-", "--", "."}
_SAID = {
    "missing": "missing (empty, NULL or NaN)",
    "infinite": "infinite",
    "marked": "written as a mark for what is missing, such as NA",
    "text": "text where a number is declared",
    "grouped": "written with thousands separators or a decimal comma",
    "undated": "not dates as declared",
    "fractional": "not whole where a count is declared",
    "undeclared": "not among the declared ones",
    "misspelt": "among the declared ones but for spelling (capitals, blanks, forms of letters, zeros)",
    "truth": "true or false, which are not declared",
    "binary": "binary",
    "nested": "in lists or records, and a column here has one value for each person",
    "unread": "of a type that is not read",
}
_ADVICE = {
    "nested": "Unfold it into columns of their own first.",
    "binary": "Leave the column out, or turn it into numbers, dates or text.",
    "unread": "Leave the column out, or turn it into numbers, dates or text.",
    "truth": "Declare true and false, without quotation marks, or turn them into the declared values.",
    "undeclared": "Declare every value that can occur, or a category that takes in the others.",
    "misspelt": 'Declare case = "fold" and unicode = "NFKC" for the column, or the values as the data has them.',
    "undated": "Write dates as 2000-01-31, or declare how they are written, such as format = '%d.%m.%Y'.",
    "grouped": "Write numbers as 1234.5, without separators.",
    "text": "Correct the file, or declare the column categorical.",
    "marked": "Leave such cells empty, and declare what a missing value counts as, such as missing = {value = …}.",
    "missing": "Declare what a missing value counts as, such as missing = {value = …}, or leave these rows out at "
    "every party.",
}


@dataclass(frozen=True)
class Problems:
    """How many values of a column cannot be used, by reason: counts go to whoever holds the data, values nowhere."""

    missing: int = 0
    infinite: int = 0
    marked: int = 0
    text: int = 0
    grouped: int = 0
    undated: int = 0
    fractional: int = 0
    undeclared: int = 0
    misspelt: int = 0
    truth: int = 0
    binary: int = 0
    nested: int = 0
    unread: int = 0

    def __add__(self, other: Problems) -> Problems:
        return Problems(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, count: int) -> Problems:
        return Problems(*(getattr(self, f.name) * count for f in fields(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))

    @property
    def sentence(self) -> str:
        counts = {what: getattr(self, problem) for problem, what in _SAID.items()}
        return ", ".join(
            f"{count} value is {what}" if count == 1 else f"{count} values are {what}"
            for what, count in counts.items()
            if count
        )

    @property
    def advice(self) -> str:
        usual = "Correct them, or leave these rows out at every party."
        return next((advice for problem, advice in _ADVICE.items() if getattr(self, problem)), usual)

    def refuse(self, where: str) -> None:
        if self:
            raise BadValues(f"{where}: {self.sentence}. {self.advice}")


DAY_MICROSECONDS = 86_400_000_000
# What stands for a value that is none of the levels, by the problem that it is.
_PROBLEMS = {"missing": -1, "undeclared": -2, "marked": -3, "misspelt": -4, "truth": -5}
_TRUTHS = frozenset({"true", "false"})
_NO_PROBLEMS = Problems()
_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
# Numbers that any reader reads alike; of so many letters none is too large or too small to be one.
_PLAIN = r"^-?[0-9]+(\.[0-9]+)?([eE]-?[0-9][0-9]?)?$"
_MAX_LENGTH = 200
# As data frames and databases write a duration: 2 days 03:04:05.5.
_DURATION = re.compile(r"(-?\d+) days?(?: \+?(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?))?", re.ASCII)
POINTED = re.compile(r"-?\d+\.0+", re.ASCII)
# In groups of three digits, or with a comma where a point should be.
_GROUPED = re.compile(r"[-+]?\d{1,3}([ ,.'’\u00a0\u202f]\d{3})+([.,]\d+)?|[-+]?\d+,\d+", re.ASCII)


@dataclass(frozen=True)
class Coded:
    """One column as declared: float64 within bounds, NaN for missing ones that have a feature, or int32 levels."""

    values: NDArray[Any]
    clipped: int = 0
    problems: Problems = _NO_PROBLEMS
    # Numbers as they came, with NaN for what was missing.
    raw: NDArray[np.float64] | None = None


Read = tuple[NDArray[np.float64], Problems]
"""float64 with NaN for what is missing and 0 for what is wrong, and what that is."""


class Declared(ABC):
    """What every kind of column and of label says of itself."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]
    reads: ClassVar[Literal["numbers", "dates", "levels"]]
    """What its values are read as."""
    centred: ClassVar[bool] = False
    """Whether its numbers could have been standardised, which would show."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the largest number, where its values are numbers."""
        return None

    @abstractmethod
    def to_data(self) -> dict[str, object]: ...

    @abstractmethod
    def coded(self, column: Any) -> Coded:
        """Values as they come, as declared; see `code`."""

    @abstractmethod
    def at(self, places: ArrayLike) -> NDArray[Any]:
        """Coded values at these places, from 0 to 1, of what it can have."""


def code(values: ArrayLike | pa.Array, declared: Declared) -> Coded:
    """A column's values as declared, with what was clipped and what is wrong."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return declared.coded(values)
    column = values_of(values)
    if (kind := kind_of(column)) in NOT_READ:
        return Coded(np.zeros(len(column)), problems=Problems(**{kind: len(column)}))
    return declared.coded(column)


def bounded(read: Read, low: float, high: float, *, fill: float | None = None) -> Coded:
    """Numbers within bounds; `fill` is what a missing one counts as."""
    raw, problems = read
    within, clipped = raw, 0
    # One look at the extremes settles the usual case: a NaN makes both comparisons false.
    if raw.size and not (low <= raw.min() and raw.max() <= high):
        missing, infinite = np.isnan(raw), np.isinf(raw)
        problems += Problems(missing=int(missing.sum()) if fill is None else 0, infinite=int(infinite.sum()))
        clipped = int(np.count_nonzero(((raw < low) | (raw > high)) & ~infinite))
        within = np.clip(raw, low, high)
        if fill is not None:
            within[missing] = fill
    return Coded(within, clipped, problems, raw)


def floats(values: Any) -> Read:
    """Numbers as they are written; text, truth values and dates are wrong."""
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values, dtype=np.float64), _NO_PROBLEMS
    match kind_of(values):
        case "text":
            # Arrow reads what is surely a number, and would quote what is none: the rest is looked at one by one.
            short = pc.less_equal(pc.binary_length(values), _MAX_LENGTH)
            sure = pc.and_(short, pc.match_substring_regex(values, _PLAIN))
            if sure.true_count == len(values):
                return numbers(values.cast(pa.float64())), _NO_PROBLEMS
            read = numbers(pc.if_else(sure, values, None).cast(pa.float64()))
            rest = pc.if_else(sure, None, values)
            if rest.null_count == len(rest):
                return read, _NO_PROBLEMS
            others, problems = _from_distinct(rest, _number, _not_a_number)
            return np.where(np.isnan(read), others, read), problems
        case "nothing" | "whole" | "real":
            return numbers(values), _NO_PROBLEMS
        case _:
            return np.zeros(len(values)), Problems(text=len(values))


def days(values: Any, format: str | None) -> Read:
    """Days since the start of 1970, from dates, moments or text."""
    column = values_of(values)
    match kind_of(column):
        case "nothing" | "date":
            return numbers(column), _NO_PROBLEMS
        case "moment":
            return numbers(column) / DAY_MICROSECONDS, _NO_PROBLEMS
        case "text":
            return _from_distinct(column, lambda text: _day(text, format), lambda _text: Problems(undated=1))
        case _:
            return np.zeros(len(column)), Problems(undated=len(column))


def levels(
    values: Any,
    declared: Sequence[str],
    spelling: Spelling,
    *,
    other: str | None = None,
    missing: str | None = None,
) -> Coded:
    """Numbers of declared levels; `other` takes in what is not declared, and `missing` what is missing."""
    different, places = distinct(values_of(values))
    number = {level: index for index, level in enumerate(declared)}
    elsewhere = _PROBLEMS["undeclared"] if other is None else number[other]
    absent = _PROBLEMS["missing"] if missing is None else number[missing]
    folded = {_folded(level) for level in declared}
    truths = _TRUTHS - folded

    def find(value: object) -> int:
        if value is None or value != value:
            return absent
        text = spelling.spell(value)
        if text not in number and POINTED.fullmatch(text):
            # What a data frame or a spreadsheet made of a whole number when a cell beside it was empty.
            text = text.split(".")[0]
        if text in number or other is not None:
            return number.get(text, elsewhere) if text.strip() else absent
        if _folded(text) in folded:
            return _PROBLEMS["misspelt"]
        bare = text.strip().lower()
        if not bare:
            return absent
        return _PROBLEMS["truth" if bare in truths else "marked" if bare in NO_VALUE else "undeclared"]

    # One place more than there are values, for those that are missing.
    table = np.array([*(find(value) for value in different), absent], dtype=np.int32)
    codes = table[places]
    if not codes.size or codes.min() >= 0:
        return Coded(codes)
    counts = {problem: int(np.count_nonzero(codes == mark)) for problem, mark in _PROBLEMS.items()}
    return Coded(codes, problems=Problems(**counts))


def moment_of(text: str, format: str | None = None) -> date | None:
    """The date or moment that a text names, or None; ISO 8601 unless a format is declared."""
    try:
        if format is not None:
            return datetime.strptime(text, format)
        return date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    trimmed = text.strip()
    if not trimmed:
        return float("nan")
    if _NUMBER.fullmatch(trimmed):
        return float(trimmed)
    lasted = _DURATION.fullmatch(trimmed)
    if lasted is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in lasted.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _not_a_number(text: str) -> Problems:
    trimmed = text.strip()
    if trimmed.lower() in MARKS:
        return Problems(marked=1)
    return Problems(grouped=1) if _GROUPED.fullmatch(trimmed) else Problems(text=1)


def _day(text: str, format: str | None) -> float | None:
    trimmed = text.strip()
    if not trimmed:
        return float("nan")
    moment = moment_of(trimmed, format)
    return None if moment is None else day_of(moment)


def day_of(moment: date) -> float:
    """Days since the start of 1970."""
    return microseconds(moment) / DAY_MICROSECONDS


def _from_distinct(
    column: pa.Array, read: Callable[[str], float | None], explain: Callable[[str], Problems]
) -> Read:
    """Each distinct text read once; NaN for what is missing, and 0 for what `read` makes nothing of."""
    texts, codes = cast(tuple[list[str], NDArray[np.int64]], distinct(column))
    values = [read(text) for text in texts]
    problems = _NO_PROBLEMS
    if None in values:
        times = np.bincount(codes, minlength=len(texts) + 1)
        for text, number, count in zip(texts, values, times.tolist(), strict=False):
            if number is None and count:
                problems += explain(text).times(count)
    # One place more than there are texts, for those that are missing.
    table = np.array([0.0 if number is None else number for number in values] + [np.nan])
    return table[codes], problems


def _folded(text: str) -> str:
    """A text without what two spellings of one word differ in: case, forms of letters, blanks, leading zeros."""
    plain = "".join(unicodedata.normalize("NFKC", text).casefold().split())
    return plain.lstrip("0") or plain
