"""The same machine in Python integers: slow, plain, and the reference for the compiled kernel."""

from collections.abc import Iterable
from dataclasses import dataclass

from table_audit import chord_at

from colonnade.noise.sampler import CAPACITY, COLUMN_BITS, OFFSET_BITS, StripTable


@dataclass(frozen=True)
class Candidate:
    """What two words propose: a cell, an offset in it, and 24 bits of the acceptance uniform."""

    cell: int
    offset: int
    uniform: int


def propose(table: StripTable, first: int, second: int) -> Candidate:
    column = first >> (64 - COLUMN_BITS)
    cell = column if first % CAPACITY < int(table.rows[column, 0]) else int(table.rows[column, 1])
    offset = (second % (1 << OFFSET_BITS)) >> (OFFSET_BITS - table.cells[cell].log_length)
    return Candidate(cell, offset, second >> OFFSET_BITS)


def verdict(table: StripTable, candidate: Candidate) -> bool | None:
    """Taken, refused, or None: too close to the chord to tell from 24 bits."""
    chord, band = chord_at(table, candidate.cell, candidate.offset)
    if candidate.uniform < chord - band:
        return True
    return False if candidate.uniform >= chord + band else None


def run(table: StripTable, words: Iterable[int]) -> list[int | Candidate]:
    """What the kernel writes from these words: a value for each slot, or the candidate in doubt."""
    slots: list[int | Candidate] = []
    stream = iter(words)
    for first, second in zip(stream, stream, strict=False):
        candidate = propose(table, int(first), int(second))
        decision = verdict(table, candidate)
        if decision is None:
            slots.append(candidate)
        elif decision:
            slots.append(table.cells[candidate.cell].base + candidate.offset)
    return slots


def run_binomial(trials: int, numerators: Iterable[int], words: Iterable[int]) -> list[int]:
    """What the binomial kernel writes from these words: each uniform compared with p by itself, bit by bit.

    Fresh bits come 64 at a time for whole words of undecided uniforms; the rest of them take theirs from
    the last word opened, lowest first, and open another if it has too few left.
    """
    stream = iter(words)
    spare: list[int] = []
    counts = []
    for numerator in numerators:
        bit, undecided, below = 52, trials, 0
        while bit >= 0 and undecided:
            fresh = [digit for _ in range(undecided // 64) for digit in _digits(next(stream))]
            if undecided % 64 > len(spare):
                spare = _digits(next(stream))
            fresh += spare[: undecided % 64]
            spare = spare[undecided % 64 :]
            digit_of_p = numerator >> bit & 1
            below += sum(digit < digit_of_p for digit in fresh)
            undecided = sum(digit == digit_of_p for digit in fresh)
            bit -= 1
        counts.append(trials if numerator == 1 << 53 else below)
    return counts


def _digits(word: int) -> list[int]:
    return [word >> place & 1 for place in range(64)]
