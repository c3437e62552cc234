"""What every declaration is checked for, the names of many columns at once, and the one spelling of text."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator

from colonnade.errors import Misdeclared

Case = Literal["exact", "lower", "upper", "fold"]
UnicodeForm = Literal["exact", "NFC", "NFD", "NFKC", "NFKD"]
_CASES = {"lower": str.lower, "upper": str.upper, "fold": str.casefold}


@dataclass(frozen=True)
class Spelling:
    """A declared rule for text: what makes two spellings the same category or the same person, at every party alike.

    Undeclared, ends are trimmed and nothing else: "012" is not "12".

    Unicode comes before case and once more after it, because folding can undo a normal form: spelling is idempotent.
    """

    trim: bool = True
    case: Case = "exact"
    unicode: UnicodeForm = "exact"

    def __post_init__(self) -> None:
        for key, value, choices in (
            ("case", self.case, get_args(Case)),
            ("unicode", self.unicode, get_args(UnicodeForm)),
        ):
            if value not in choices:
                raise ValueError(f"{key} = {value!r} is not one of {', '.join(choices)}")

    def spell(self, value: object) -> str:
        text = self._normal(plain_text(value))
        if self.case != "exact":
            text = self._normal(_CASES[self.case](text))
        # Last, because a compatibility form can turn other characters into blanks.
        return text.strip() if self.trim else text

    def to_data(self) -> dict[str, object]:
        """What differs from the rule that holds undeclared."""
        return {key: value for key, value in vars(self).items() if value != getattr(AS_WRITTEN, key)}

    def _normal(self, text: str) -> str:
        return text if self.unicode == "exact" else unicodedata.normalize(self.unicode, text)


def plain_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(value)


AS_WRITTEN = Spelling()


Transform = Literal["none", "log1p"]
MAX_NAME = 200
"""Letters of the name of a job, or of a data set."""
_MAX_SHOWN = 60
# Control characters, halves of characters, separators of lines.
_NO_LETTERS = frozenset({"Cc", "Cs", "Zl", "Zp"})
# What makes text run the other way, so that a line reads as another.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Methods and keys of job and policy files that 0.1 called otherwise.
_RENAMED = {"intermediate": "private-messages", "embeddings": "network", "keepers": "computing_parties"}


def nearest_name(name: str, choices: Iterable[str]) -> str:
    """A sentence that names the choice closest to a misspelt one, or nothing."""
    known = list(choices)
    if (renamed := _RENAMED.get(name)) in known:
        return f" Write {renamed!r}."
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def checked_name(name: str) -> str:
    """A name that a person gave, if it can stand in one line of a table; else a `ValueError` that says why not."""
    if not name.strip():
        raise ValueError("a name has letters")
    if len(name) > MAX_NAME:
        raise ValueError(f"a name of {len(name)} letters is too long, {MAX_NAME} are the most")
    if any(unicodedata.category(letter) in _NO_LETTERS or letter in _DIRECTIONS for letter in name):
        raise ValueError("a name has no line breaks, and no characters that move or turn text")
    return name


Name = Annotated[str, AfterValidator(checked_name)]
"""A text in a form that names something, in one line."""


@dataclass(frozen=True)
class Declaration:
    """Where something is declared, and how messages call it; each check raises `Misdeclared` of the key at fault."""

    where: tuple[str, ...]
    what: str

    @classmethod
    def of_column(cls, name: str) -> Declaration:
        return cls(("columns", name), f"column {name!r}")

    def wrong(self, key: str, text: str) -> Misdeclared:
        return Misdeclared((*self.where, key), f"{self.what}: {text}")

    def check_bounds(self, low: float, high: float) -> None:
        """Raise unless low < high are finite and far enough apart to divide by."""
        self.check_finite("low", low)
        self.check_finite("high", high)
        if low == high:
            said = f"low and high are both {low:g}, so it can have one value only and says nothing."
            raise self.wrong("low", f"{said} Leave it out, or declare the range its values can take.")
        if not low < high:
            said = f"low = {low:g} is not below high = {high:g}."
            raise self.wrong("low", f"{said} Declare the range its values can take.")
        if not (math.isfinite(high - low) and math.isfinite(2.0 / (high - low))):
            raise self.wrong("low", f"the range from {low:g} to {high:g} is too wide or too narrow to scale.")

    def check_transform(self, transform: str, low: float) -> None:
        """Raise unless the transform is known and takes numbers from `low` up."""
        self.check_choice("transform", transform, "'none', 'log1p'", ("none", "log1p"))
        if transform == "log1p" and low <= -1:
            raise self.wrong("low", f"log1p needs low above -1, not {low:g}.")

    def check_choice(self, key: str, value: Any, said: str, choices: tuple[str, ...]) -> None:
        if value not in choices:
            close = nearest_name(str(value), choices)
            raise self.wrong(key, f"{key} = {value!r} is not one of {said}.{close}")

    def check_values(self, key: str, values: tuple[str, ...]) -> None:
        """Raise unless the declared values are two or more, not empty and all different."""
        if len(values) < 2:
            raise self.wrong(key, f"{key} declares {len(values)} values; it needs at least 2.")
        if not all(value.strip() for value in values):
            raise self.wrong(key, f"{key} declares an empty text, which in a file means a missing value.")
        twice = sorted(value for value, times in Counter(values).items() if times > 1)
        if twice:
            raise self.wrong(key, f"{key} declares {twice[0]!r} more than once.")

    def check_member(self, key: str, value: str, among: tuple[str, ...]) -> None:
        if value not in among:
            raise self.wrong(key, f"{key} = {value!r} is not among its values.{nearest_name(value, among)}")

    def check_missing(self, value: float, low: float, high: float) -> None:
        """Raise unless the number that stands for a missing one lies within the bounds."""
        if not (is_finite(value) and low <= value <= high):
            written = str(value).lower() if isinstance(value, bool) else _written(value)
            said = f"missing = {written} is not a number from {low:g} to {high:g}"
            raise self.wrong("missing", f"{said}, its declared bounds.")

    def check_whole(self, key: str, value: int, *, low: int, high: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"{key} = {_written(value)} is not a whole number from {low} to {high}.")

    def check_finite(self, key: str, value: object) -> None:
        if not is_finite(value):
            raise self.wrong(key, f"{key} = {_written(value)} is not a finite number.")

    def check_positive(self, key: str, value: float) -> None:
        """Raise unless a declared number is finite, above 0 and far enough from it to divide by."""
        if not (is_finite(value) and value > 0 and math.isfinite(1.0 / value)):
            raise self.wrong(key, f"{key} = {_written(value)} is not a finite number above 0.")


def is_finite(value: object) -> bool:
    """Whether it is a number that a float can hold; Python's whole numbers have no end."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _written(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


# A peer's description is expanded too, so what it can ask for is limited.
MOST_NAMES = 1 << 15

# Fewer columns alike are easier to read and to correct one by one.
LEAST_RUN = 8

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,8})(\D*)", re.DOTALL)
_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")


def expand_name(name: str, where: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a name with ranges stands for, the last range fastest; a first 00 sets the width of all."""
    # Texts and ranges by turns: one text more than ranges.
    texts = _RANGE.split(name)[::3]
    ranges = []
    for first, last in _RANGE.findall(name):
        low, high = int(first), int(last)
        if low > high:
            raise Misdeclared(where, f"column {name!r}: the range from {first} to {last} runs backwards.")
        ranges.append((range(low, high + 1), len(first) if first.startswith("0") else 0))
    count = math.prod(len(numbers) for numbers, _ in ranges)
    if count > MOST_NAMES:
        raise Misdeclared(where, f"column {name!r} stands for {count} columns; {MOST_NAMES} is the most.")
    spelt = [[f"{number:0{width}d}" for number in numbers] for numbers, width in ranges]
    return tuple(
        texts[0] + "".join(number + text for number, text in zip(numbers, texts[1:], strict=True))
        for numbers in itertools.product(*spelt)
    )


def fold_names(names: Iterable[str]) -> list[str]:
    """Names in order, with runs of consecutive numbers written as one name with a range in it."""
    folded: list[str] = []
    run: list[str] = []

    def close() -> None:
        if len(run) >= LEAST_RUN:
            (head, first, tail), last = _parts(run[0]), _parts(run[-1])[1]
            folded.append(f"{head}{{{first}..{last}}}{tail}")
        else:
            folded.extend(run)
        run.clear()

    for name in names:
        head, number, tail = _parts(name)
        first, last, end = _parts(run[-1]) if run else ("", "", "")
        follows = bool(number and last) and (first, int(last) + 1, end) == (head, int(number), tail)
        if not follows:
            close()
        run.append(name)
    close()
    return folded


def _parts(name: str) -> tuple[str, str, str]:
    match = _NUMBERED.fullmatch(name)
    return (match[1], match[2], match[3]) if match else (name, "", "")
