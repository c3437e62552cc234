"""What a plan can be refused for because it is too large: the grid for the field, the matrix for the memory."""

from __future__ import annotations

import os
from collections.abc import Callable

from colonnade.errors import PlanError, TooMuchMemory

# A peer's declaration decides how large the matrix is.
MOST_COLUMNS = 1 << 15
# What one party holds for an entry of the matrix at its peak: shares in three limbs, noise, and their sums.
BYTES_PER_ENTRY = 64


def gamma_advice(attempt: Callable[[int], object], *, least: int, asked: int) -> str:
    """The largest γ below the one asked for at which a plan can be made, in a sentence."""

    def fits(gamma: int) -> bool:
        try:
            attempt(gamma)
        except PlanError:
            return False
        return True

    if asked <= least or not fits(least):
        return f"No gamma from {least} up fits: raise epsilon, or use fewer rows, fewer columns or another noise."
    low, high = least, asked
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return f"The largest gamma that fits is {low}."


def check_memory(columns: int, *, what: str = "a moment matrix") -> None:
    """Refuse a matrix that nobody, or not this machine, could hold, and say what it would take."""
    need = columns * columns * BYTES_PER_ENTRY
    held = physical_memory()
    if columns > MOST_COLUMNS:
        limit = f"{MOST_COLUMNS} columns is the most"
    elif held is not None and need > held:
        limit = "a machine that takes part has less"
    else:
        return
    raise TooMuchMemory(
        f"the declared columns make {what} of {columns} columns, which takes {need / 2**30:.0f} GiB of memory at every "
        f"party; {limit}. Declare fewer of them, or map them to fewer features."
    )


def physical_memory() -> int | None:
    """How many bytes of memory this machine has, where it says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
