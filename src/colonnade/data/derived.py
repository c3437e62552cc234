"""Columns that a public rule turns into numbers or categories: dates into days, numbers into bins."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from colonnade.data.bin_edges import checked_edges
from colonnade.data.declaring import Transform, check_bounds, check_transform
from colonnade.errors import Misdeclared

DAY_MICROSECONDS = 86_400_000_000
MISSING = "missing"

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: date) -> int:
    """Microseconds since the start of 1970, exactly; a moment with a time zone counts in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    elif moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(text: str, format: str | None = None) -> date | None:
    """The date or moment that a text names, or None; ISO 8601 unless a format is declared."""
    try:
        if format is not None:
            return datetime.strptime(text, format)
        return date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class DateColumn:
    """Dates or moments between declared bounds, counted in days; a moment is a day and its fraction.

    `high` is the start of its day: declare the day after it if hours matter. `missing` is a date within the bounds, or
    "category", which gives missing dates a feature of their own.
    """

    name: str
    low: date
    high: date
    format: str | None = None
    missing: date | Literal["category"] | None = None

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        for key in ("low", "high", "missing"):
            value = getattr(self, key)
            if not isinstance(value, date) and not (key == "missing" and value in (None, "category")):
                raise Misdeclared((*where, key), f"{what}: {key} = {value!r} is not a date like 2000-01-31.")
            if isinstance(value, datetime) and value.tzinfo is not None:
                object.__setattr__(self, key, value.astimezone(UTC).replace(tzinfo=None))
        if not microseconds(self.low) < microseconds(self.high):
            raise Misdeclared(
                (*where, "low"),
                f"{what}: low = {self.low} is not before high = {self.high}. Declare the range its dates can take.",
            )
        check_bounds(where, what, *self.range)
        fill, (low, high) = self.fill, self.range
        if fill is not None and not low <= fill <= high:
            raise Misdeclared(
                (*where, "missing"),
                f"{what}: missing = {self.missing} is not from {self.low} to {self.high}, its declared bounds.",
            )
        if self.format is not None and "%" not in self.format:
            raise Misdeclared(
                (*where, "format"),
                f"{what}: format = {self.format!r} names no part of a date; '%d.%m.%Y' reads 31.12.2000.",
            )

    @property
    def range(self) -> tuple[float, float]:
        """The bounds in days since the start of 1970."""
        return microseconds(self.low) / DAY_MICROSECONDS, microseconds(self.high) / DAY_MICROSECONDS

    @property
    def fill(self) -> float | None:
        """What a missing date counts as, in days, if that is what is declared."""
        return microseconds(self.missing) / DAY_MICROSECONDS if isinstance(self.missing, date) else None

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {
            "name": self.name,
            "kind": "date",
            "low": self.low.isoformat(),
            "high": self.high.isoformat(),
        }
        written = {} if self.format is None else {"format": self.format}
        if self.missing == "category":
            return {**data, **written, "missing": "category"}
        return {**data, **written, **_filled(None if self.missing is None else self.missing.isoformat())}


@dataclass(frozen=True)
class BinnedColumn:
    """Numbers sorted into bins between declared edges; each bin is a category and begins at its lower edge.

    Below the first edge and from the last one up are bins too, so nothing lies outside. `missing` is a number,
    whose bin then takes in missing values, or "category", which gives them a bin of their own.

    `ordered` bins are told apart by the edges that a number has passed, others by being different. `low` and `high`,
    the ends of the outer bins, `transform`, the scale on which bins are even, and `whole`, that only whole numbers
    occur, say nothing about where a number belongs: invented people are drawn by them.
    """

    name: str
    edges: tuple[float, ...]
    missing: float | Literal["category"] | None = None
    ordered: bool = False
    low: float | None = None
    high: float | None = None
    transform: Transform = "none"
    whole: bool = False

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        object.__setattr__(self, "edges", checked_edges((*where, "edges"), what, self.edges))
        self._check_ends(where, what)
        if self.missing is None or self.missing == "category":
            return
        if (
            isinstance(self.missing, bool)
            or not isinstance(self.missing, int | float)
            or not math.isfinite(self.missing)
        ):
            raise Misdeclared(
                (*where, "missing"), f"{what}: missing = {self.missing!r} is not a finite number."
            )
        object.__setattr__(self, "missing", float(self.missing))

    def _check_ends(self, where: tuple[str, ...], what: str) -> None:
        check_transform(where, what, self.transform, self.edges[0] if self.low is None else self.low)
        for key, end, first in (("low", self.low, self.edges[0]), ("high", self.high, self.edges[-1])):
            if end is None:
                continue
            if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
                raise Misdeclared((*where, key), f"{what}: {key} = {end!r} is not a finite number.")
            if not (end < first if key == "low" else end >= first):
                side = "below its first edge" if key == "low" else "at or above its last edge"
                raise Misdeclared((*where, key), f"{what}: {key} = {end:g} is not {side}, {first:g}.")
            object.__setattr__(self, key, float(end))
        if self.whole:
            for low, high in itertools.pairwise(self.edges):
                if math.ceil(low) >= high:
                    raise Misdeclared(
                        (*where, "whole"),
                        f"{what}: no whole number lies from {low:g} to below {high:g}, so nobody can be in that bin. "
                        "Declare fewer bins.",
                    )

    @property
    def levels(self) -> tuple[str, ...]:
        """The bins in order of their codes."""
        spelt = [_short(edge) for edge in self.edges]
        between = [f"{low} to {high}" for low, high in itertools.pairwise(spelt)]
        own = (MISSING,) if self.missing == "category" else ()
        return (f"below {spelt[0]}", *between, f"from {spelt[-1]}", *own)

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"name": self.name, "kind": "bins", "edges": list(self.edges)}
        ends = {key: end for key, end in (("low", self.low), ("high", self.high)) if end is not None}
        scale = {} if self.transform == "none" else {"transform": self.transform}
        marks = {key: True for key in ("ordered", "whole") if getattr(self, key)}
        missing = {"missing": "category"} if self.missing == "category" else _filled(self.missing)
        return {**data, **ends, **scale, **marks, **missing}


def _filled(missing: object) -> dict[str, object]:
    return {} if missing is None else {"missing": {"value": missing}}


def _short(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
