"""Kinds of columns whose values are one of some levels: two values, categories, and bins of numbers."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data import declaring
from colonnade.data.coding import POINTED, Array, Coded, Mode, Problems, floats, levels, simplex, thermometer
from colonnade.data.graph import Graph
from colonnade.data.kinds import MISSING, Column, Writer

_CASES: tuple[Callable[[str], str], ...] = str, str.lower, str.upper, str.capitalize, str.title, str.casefold


class LevelKind(Column):
    missing: Any

    @property
    def ordered(self) -> bool:
        return False

    @property
    def codes(self) -> Array:
        """The features of each level, one row a level, each of norm 1."""
        return simplex(len(self.levels))

    @property
    def sentence(self) -> str:
        return f"one of {', '.join(self.levels)}"

    def features(self, mode: Mode) -> tuple[str, ...]:
        # Of ordered bins, an entry is whether this level is reached.
        return tuple(f"{self.name}:{level}" for level in self.levels[1:])

    def writer(self, mode: Mode, scale: float) -> Writer:
        corners = np.ascontiguousarray(self.codes.T * scale)

        def write(values: NDArray[Any], target: Array) -> None:
            np.take(corners, values, axis=1, out=target, mode="clip")

        return write

    def shown(self, mode: Mode) -> tuple[list[str], Array]:
        return [str(level) for level in self.levels], self.codes

    def score_range(self, weights: Array, mode: Mode) -> tuple[float, float]:
        values = self.codes @ weights
        return float(values.min()), float(values.max())

    def natural(self, coded: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.array(self.levels, dtype=object)[coded])

    def at(self, places: ArrayLike) -> NDArray[Any]:
        return level_at(places, len(self.levels))

    @abstractmethod
    def written(self, codes: NDArray[np.int32], uniform: Callable[[int], Array]) -> NDArray[Any]:
        """Values as a party writes them, those that are missing too; `uniform` draws so many numbers from 0 to 1."""

    def onnx(self, graph: Graph, name: str, mode: Mode) -> str:
        level, step = self._onnx_level(graph, name)
        # The features of the level past the last are NaN, and there are no more: a runtime stops there, by name.
        codes = np.vstack([self.codes, np.full((1, self.codes.shape[1]), np.nan)])
        flat = graph.add("Squeeze", [level, graph.constant([1])])
        return graph.add("Gather", [graph.constant(codes), flat], attributes={"axis": 0}, step=step)

    @abstractmethod
    def _onnx_level(self, graph: Graph, name: str) -> tuple[str, str | None]:
        """The number of a value's level in a graph, the one past the last where it is refused; and a step's name."""


class TextKind(LevelKind):
    spelling: declaring.Spelling
    reads = "levels"

    @property
    def other(self) -> str | None:
        return None

    def coded(self, column: Any) -> Coded:
        return levels(column, self.levels, self.spelling, other=self.other, missing=self.missing)

    def written(self, codes: NDArray[np.int32], uniform: Callable[[int], Array]) -> NDArray[Any]:
        spelt: list[str | None] = list(self.levels)
        if self.missing is not None and self.missing == self.spelling.spell(MISSING):
            spelt[self.levels.index(self.missing)] = None
        return np.asarray(np.array(spelt, dtype=object)[codes])

    def _check_levels(self, key: str, *members: str) -> None:
        """Spell the declared levels, and what is one of them, as the data is spelt; refuse what is not."""
        declared = declaring.Declaration.of_column(self.name)
        levels = tuple(self.spelling.spell(value) for value in getattr(self, key))
        declared.check_values(key, levels)
        object.__setattr__(self, key, levels)
        for member in members:
            if (value := getattr(self, member)) is not None:
                declared.check_member(member, self.spelling.spell(value), levels)
                object.__setattr__(self, member, self.spelling.spell(value))

    def _onnx_level(self, graph: Graph, name: str) -> tuple[str, str | None]:
        codes, bad = {level: code for code, level in enumerate(self.levels)}, len(self.levels) + 1
        known = {spelt: code for level, code in codes.items() for spelt in self._spellings(level)} | codes
        known[""] = len(codes) if self.missing is None else codes[self.missing]
        table = {"keys_strings": [*known], "values_int64s": [*known.values()], "default_int64": bad}
        value = graph.input(name, text=True)
        level = graph.add("LabelEncoder", [value], attributes=table, domain="ai.onnx.ml")
        if self.other is not None:
            patterns = ({"pattern": pattern} for pattern in self._patterns())
            clear, declared = (graph.add("RegexFullMatch", [value], attributes=one) for one in patterns)
            another = graph.add("And", [clear, graph.add("Not", [declared])])
            level = graph.either(another, codes[self.other], level)
        return level, f"{name}: every category is one that is declared, or text that the graph can judge"

    def _patterns(self) -> tuple[str, str]:
        """In RE2: what can be judged without folding letters past ASCII, and of that what may be a level or missing."""
        rule, blanks = self.spelling, r"[\pZ\t-\r\x1c-\x1f\x{85}]*"
        levels = f"(?{'i' * (rule.case != 'exact')}:{'|'.join(map(re.escape, self.levels))})(\\.0+)?"
        declared = f"{blanks}{levels}{blanks}" if rule.trim else levels
        clear = r"(?s).*" if rule.case == rule.unicode == "exact" else r"[\x00-\x7f]*"
        return clear, f"{declared}|{blanks}"

    def _spellings(self, level: str) -> Iterator[str]:
        # Whole numbers become such where a cell beside them was empty.
        texts = [level, f"{level}.0"] if POINTED.fullmatch(f"{level}.0") else [level]
        forms = ["", *(form for form in get_args(declaring.UnicodeForm) if form != "exact")]
        for text, case, form, before, after in itertools.product(texts, _CASES, forms, ["", " "], ["", " "]):
            spelt = case(text)
            spelt = f"{before}{unicodedata.normalize(form, spelt) if form else spelt}{after}"
            if self.spelling.spell(spelt) in texts:
                yield spelt


@dataclass(frozen=True)
class BinaryColumn(TextKind):
    """One of two declared values; the second is the +1."""

    name: str
    values: tuple[str, str]
    missing: str | None = None
    spelling: declaring.Spelling = declaring.AS_WRITTEN
    kind = "binary"

    def __post_init__(self) -> None:
        self._check_levels("values", "missing")
        if len(self.levels) != 2:
            said = f"a binary column has two values, not {len(self.levels)}. Declare it categorical."
            raise declaring.Declaration.of_column(self.name).wrong("values", said)

    @property
    def levels(self) -> tuple[str, ...]:
        return self.values

    def features(self, mode: Mode) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class CategoricalColumn(TextKind):
    """One of k declared categories; `other`, itself declared, takes in whatever is not."""

    name: str
    categories: tuple[str, ...]
    other: str | None = None
    missing: str | None = None
    spelling: declaring.Spelling = declaring.AS_WRITTEN
    kind = "categorical"

    def __post_init__(self) -> None:
        self._check_levels("categories", "other", "missing")

    @property
    def levels(self) -> tuple[str, ...]:
        return self.categories


@dataclass(frozen=True)
class BinnedColumn(LevelKind):
    """Numbers sorted into bins between declared edges, open at both ends; a bin begins at its lower edge.

    `missing` is a number whose bin takes in missing values, or "category", for a bin of their own. `ordered` bins are
    told apart by the edges that a number has passed, others by being different. Synthetic people are drawn by `low` and
    `high`, the ends of the outer bins, `transform`, the scale on which bins are even, and `whole`.
    """

    name: str
    edges: tuple[float, ...]
    missing: float | Literal["category"] | None = None
    ordered: bool = False
    low: float | None = None
    high: float | None = None
    transform: declaring.Transform = "none"
    whole: bool = False
    kind = "bins"
    reads = "numbers"

    def __post_init__(self) -> None:
        declared = declaring.Declaration.of_column(self.name)
        if not self.edges:
            raise declared.wrong("edges", "edges declares no edge; one makes two bins.")
        for edge in self.edges:
            if not declaring.is_finite(edge):
                raise declared.wrong("edges", f"the edge {edge!r} is not a finite number.")
        object.__setattr__(self, "edges", tuple(map(float, self.edges)))
        if any(not left < right for left, right in itertools.pairwise(self.edges)):
            raise declared.wrong("edges", "edges must rise, each above the one before it.")
        declared.check_transform(self.transform, self.edges[0] if self.low is None else self.low)
        for key, end, first in (("low", self.low, self.edges[0]), ("high", self.high, self.edges[-1])):
            if end is None:
                continue
            declared.check_finite(key, end)
            if not (end < first if key == "low" else end >= first):
                side = "below its first edge" if key == "low" else "at or above its last edge"
                raise declared.wrong(key, f"{key} = {end:g} is not {side}, {first:g}.")
            object.__setattr__(self, key, float(end))
        for low, high in itertools.pairwise(self.edges) if self.whole else ():
            if math.ceil(low) >= high:
                said = f"no whole number lies from {low:g} to below {high:g}, so nobody can be in that bin."
                raise declared.wrong("whole", f"{said} Declare fewer bins.")
        if self.missing is not None and self.missing != "category":
            declared.check_finite("missing", self.missing)
            object.__setattr__(self, "missing", float(self.missing))

    @property
    def levels(self) -> tuple[str, ...]:
        spelt = [_short(edge) for edge in self.edges]
        between = [f"{low} to {high}" for low, high in itertools.pairwise(spelt)]
        own = (MISSING,) if self.missing == "category" else ()
        return (f"below {spelt[0]}", *between, f"from {spelt[-1]}", *own)

    @property
    def codes(self) -> Array:
        if self.ordered:
            return thermometer(len(self.edges) + 1, missing=self.missing == "category")
        return simplex(len(self.levels))

    @property
    def sentence(self) -> str:
        return f"number in {'ordered ' if self.ordered else ''}bins: {', '.join(self.levels)}"

    @property
    def open_ended(self) -> bool:
        return self.low is None or self.high is None

    @property
    def ends(self) -> tuple[float, ...]:
        """Where bins begin, and where the last one ends; an outer bin without an end is as wide as its neighbour."""
        scale, back = self._scales
        inner = [scale(edge) for edge in self.edges]
        width = inner[1] - inner[0] if len(inner) > 1 else 1.0
        last = inner[-1] - inner[-2] if len(inner) > 1 else 1.0
        low = back(inner[0] - width) if self.low is None else self.low
        high = back(inner[-1] + last) if self.high is None else self.high
        return (low, *self.edges, high)

    @property
    def middles(self) -> Array | None:
        """The middle of each bin on the declared scale, in the column's own units; none of the bin of no number."""
        if self.missing == "category":
            return None
        scale, back = self._scales
        pairs = itertools.pairwise(self.ends)
        return np.array([back((scale(low) + scale(high)) / 2.0) for low, high in pairs])

    def coded(self, column: Any) -> Coded:
        raw, problems = floats(column)
        codes = np.searchsorted(self.edges, raw, side="right").astype(np.int32)
        gone, filled = np.isnan(raw), self._missing_bin
        if filled is not None:
            codes[gone] = filled
        missing = int(gone.sum()) if filled is None else 0
        infinite = int(np.count_nonzero(np.isinf(raw)))
        return Coded(codes, problems=problems + Problems(missing=missing, infinite=infinite))

    def written(self, codes: NDArray[np.int32], uniform: Callable[[int], Array]) -> NDArray[Any]:
        ends, (scale, _) = np.array(self.ends), self._scales
        scaled = np.array([scale(end) for end in ends])
        known = np.minimum(codes, len(ends) - 2)
        raw = scaled[known] + uniform(len(codes)) * (scaled[known + 1] - scaled[known])
        values = np.expm1(raw) if self.transform == "log1p" else raw
        below = np.nextafter(ends[1:], -np.inf)
        below[-1] = ends[-1]
        values = np.clip(values, ends[:-1][known], below[known])
        missing = codes > len(self.edges)
        if self.whole:
            first = np.ceil(ends[:-1])
            last = np.maximum(np.ceil(ends[1:]) - 1, first)
            last[-1] = max(math.floor(ends[-1]), first[-1])
            values = np.clip(np.floor(values), first[known], last[known])
            if not missing.any():
                return np.asarray(values, dtype=np.int64)
        if missing.any():
            values[missing] = np.nan
        return np.asarray(values)

    @property
    def _missing_bin(self) -> int | None:
        if self.missing is None:
            return None
        if self.missing == "category":
            return len(self.edges) + 1
        return int(np.searchsorted(self.edges, self.missing, side="right"))

    @property
    def _scales(self) -> tuple[Callable[[float], float], Callable[[float], float]]:
        return (math.log1p, math.expm1) if self.transform == "log1p" else (float, float)

    def _onnx_level(self, graph: Graph, name: str) -> tuple[str, str | None]:
        value, bad = graph.input(name), len(self.levels)
        passed = graph.whole(graph.add("GreaterOrEqual", [value, graph.constant([self.edges])]))
        code = graph.add("ReduceSum", [passed, graph.constant([1])], attributes={"keepdims": 1})
        code = graph.either(graph.add("IsInf", [value]), bad, code)
        missing = bad if self._missing_bin is None else self._missing_bin
        return graph.either(graph.add("IsNaN", [value]), missing, code), None


def level_at(places: ArrayLike, count: int) -> NDArray[np.int32]:
    return np.minimum((np.asarray(places) * count).astype(np.int32), np.int32(count - 1))


def _short(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
