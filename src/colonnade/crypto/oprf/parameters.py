"""How large everything is, from the two sizes that the parties show each other: 40 bits statistical, 128 computational.

docs/proofs/psi-transfer.md has the proof of each figure; tests compute them again.
"""

from __future__ import annotations

import math
from functools import cache

STATISTICAL_BITS = 40
COMPUTATIONAL_BITS = 128
FUNCTIONS = 3
"""Hash functions of the table, one bin in each third of it."""
EXPANSION = 1.35
LEAST_ROOM = 2048
"""Tables have room for at least so many ids: below, filling one fails too often."""
WIDTHS = (448, 512)
"""Lengths of the code in bits, the shorter one while it is far enough apart."""
ROWS = 1 << 15
"""Rows of the table in one frame."""
RECORDS = 1 << 15
"""Records in one frame."""
MOST_VALUE_BYTES = 12


def third_of(ids: int) -> int:
    """How many bins each third of the table for so many ids has.

    >>> third_of(10), third_of(1_000_000)
    (922, 450000)
    """
    return math.ceil(EXPANSION * max(ids, LEAST_ROOM) / FUNCTIONS)


def code_bits(records: int) -> int:
    """The length of the code, so that no two of the words compared are nearer than 128 bits, but for 2^−40.

    Each of the sender's records meets one other word in each of its three bins.

    >>> code_bits(10_000_000), code_bits(100_000_000)
    (448, 512)
    """
    for width in WIDTHS:
        if FUNCTIONS * max(records, 1) * _near(width) <= 1 << (width - STATISTICAL_BITS):
            return width
    raise ValueError(f"there is no code for {records} records")


@cache
def _near(width: int) -> int:
    """How many words of so many bits have fewer than 128 ones."""
    return sum(math.comb(width, ones) for ones in range(COMPUTATIONAL_BITS))


def value_bytes(ids: int, records: int) -> int:
    """How long values are, so that no two of different ids agree anywhere, but for 2^−40.

    >>> value_bytes(1_000_000, 1_000_000), value_bytes(10_000_000, 10_000_000)
    (10, 11)
    """
    pairs = max(ids, 1) * max(records, 1)
    return -(-(STATISTICAL_BITS + (pairs - 1).bit_length()) // 8)
