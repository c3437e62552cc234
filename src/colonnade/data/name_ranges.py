"""Many columns under one name: `pixel{0..195}`, or `{1..14}x{1..14}` row by row."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

from colonnade.errors import Misdeclared

# A peer's description is expanded too, so what it can ask for is limited.
MOST_NAMES = 1 << 15

# Fewer columns alike are easier to read and to correct one by one.
LEAST_RUN = 8

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,8})(\D*)", re.DOTALL)
_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")


def expand_name(name: str, where: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a name with ranges stands for, the last range running fastest; others stand for themselves.

    A first number with leading zeros sets the width of all of them.
    """
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
        if run and not _follows(run[-1], name):
            close()
        run.append(name)
    close()
    return folded


def _parts(name: str) -> tuple[str, str, str]:
    match = _NUMBERED.fullmatch(name)
    return (match[1], match[2], match[3]) if match else (name, "", "")


def _follows(before: str, name: str) -> bool:
    head, number, tail = _parts(name)
    first, last, end = _parts(before)
    return bool(number and last) and (first, int(last) + 1, end) == (head, int(number), tail)
