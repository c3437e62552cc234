"""A deterministic audit of a table: every integer fact that the proof of exactness rests on.

Statistics are weak here: a table with its slopes reversed passes a χ² of ten million draws. The proof
(docs/proofs/strip-rejection.md) needs four facts about finitely many integers, and these are checked:

A. the alias columns give cell j exactly weights[j] of 2^64;
B. the chord's band holds 2^24 times the acceptance probability;
C. the cells that the kernel reads cut the support into disjoint pieces, and 0 is a boundary;
D. no acceptance probability exceeds 1.

A and C are checked completely. B and D are checked at every value where the support is small, else at
sampled values of every cell; the proof covers the rest.
"""

from collections.abc import Iterator
from functools import lru_cache

from colonnade.noise.sampler import CAPACITY, COLUMNS, OFFSET_BITS, UNIFORM_BITS, Cell, StripTable

EVERY_VALUE = 1 << 12  # supports up to this size are checked value by value


def findings(table: StripTable, *, points: int = 4) -> tuple[str, ...]:
    """What does not hold, in words; empty for a table that may be used."""
    return (*_columns(table), *_partition(table), *_acceptance(table, points))


def _columns(table: StripTable) -> Iterator[str]:
    if len(table.weights) != len(table.cells) or sum(table.weights) != 1 << 64:
        yield "A: the weights of the cells do not sum to 2^64"
    received = [0] * COLUMNS
    for column, (threshold, target) in enumerate(table.rows[:, :2].tolist()):
        if not (0 <= threshold <= CAPACITY and 0 <= target < COLUMNS):
            yield f"A: column {column} has threshold {threshold} and target {target}"
            continue
        received[column] += threshold
        received[target] += CAPACITY - threshold
    owed = [*table.weights, *[0] * (COLUMNS - len(table.weights))]
    for cell, (has, should) in enumerate(zip(received, owed, strict=True)):
        if has != should:
            yield f"A: cell {cell} is picked {has} times in 2^64, its weight is {should}"


def _partition(table: StripTable) -> Iterator[str]:
    extent = 1 << table.law.exponent
    spans = []
    for index, cell in enumerate(table.cells):
        base, shift = (int(entry) for entry in table.rows[index, 2:4])
        if (base, shift) != (cell.base, OFFSET_BITS - cell.log_length):
            yield f"C: the kernel reads another span for cell {index} than the table says"
        if not 0 <= shift <= OFFSET_BITS:
            yield f"C: cell {index} is longer than an offset can reach"
        elif not cell.tail:
            spans.append((base, base + (1 << (OFFSET_BITS - shift))))
    spans.sort()
    edges = [start for start, _ in spans]
    if [stop for _, stop in spans] != [*edges[1:], extent] or edges[0] != (
        -extent if table.law.two_sided else 0
    ):
        yield "C: the cells do not cut the support into disjoint pieces"
    if 0 not in edges:
        yield "C: 0 lies inside a cell, where masses turn"
    tails = table.law.tails()
    expected = [] if tails is None else [(1, extent, tails[0]), (-1, -extent - 1, tails[1])]
    if [(cell.tail, cell.base, cell.left) for cell in table.cells if cell.tail] != expected:
        yield "C: the tails do not continue the support"


def _acceptance(table: StripTable, points: int) -> Iterator[str]:
    everywhere = 2 << table.law.exponent <= EVERY_VALUE
    mass = lru_cache(maxsize=None)(lambda k: table.law.mass(k))  # a cell and its mirror share most values
    for index, (cell, weight) in enumerate(zip(table.cells, table.weights, strict=False)):
        if abs(int(table.rows[index, 5])) > 1 << (UNIFORM_BITS + 1):
            yield f"B: the rise of cell {index} could overflow"
        if int(table.rows[index, 3]) != OFFSET_BITS - cell.log_length:
            continue  # another span than the cell's: found under C, and there is no chord to speak of
        unit = weight << table.scale_bits
        for offset in _offsets(cell, points=1 << cell.log_length if everywhere else points):
            held = cell.left if cell.tail else mass(abs(cell.base + offset))
            extent = table.scale * held << (cell.log_length + UNIFORM_BITS)
            chord, band = chord_at(table, index, offset)
            if not (chord - band) * unit <= extent <= (chord + band) * unit:
                yield f"B: the band of cell {index} misses the acceptance probability at offset {offset}"
            if extent > unit << UNIFORM_BITS:
                yield f"D: the acceptance probability of cell {index} at offset {offset} exceeds 1"
            if cell.tail and (chord - band > 0 or chord + band < 1 << UNIFORM_BITS):
                yield f"B: the kernel could decide a tail, cell {index}, which stands for no single value"


def _offsets(cell: Cell, *, points: int) -> list[int]:
    length = 1 << cell.log_length
    if length <= points + 3:
        return list(range(length))
    inner = {length * step // points for step in range(1, points)}
    return sorted({0, 1, length // 2, length - 1} | inner)


def chord_at(table: StripTable, cell: int, offset: int) -> tuple[int, int]:
    """The chord's height at an offset, in units of 2^-24, and the half-width of its band."""
    shift, start, rise, band = (int(entry) for entry in table.rows[cell, 3:7])
    return start + (rise * ((offset << shift) >> 8) >> 32), band
