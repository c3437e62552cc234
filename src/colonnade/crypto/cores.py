"""How work that leaves the interpreter lock is spread over the cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """How many cores the operating system lets this process use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def pieces(count: int, *, smallest: int = 1) -> list[slice]:
    """Contiguous parts of `range(count)`, at most one a core, each but the last a multiple of `smallest`."""
    share = -(-count // usable_cores())
    share = max(smallest, -(-share // smallest) * smallest)
    return [slice(start, min(start + share, count)) for start in range(0, count, share)]
