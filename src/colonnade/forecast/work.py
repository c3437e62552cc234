"""How far rehearsals have come: seconds spent, over seconds spent and expected."""

from __future__ import annotations

import time
from collections.abc import Callable

Advance = Callable[[str, int, int], None]
STEP = "rehearsing"
# What a method takes before any has been rehearsed.
_GUESS = 0.5


class Work:
    """Tells in per cent how much of the work on so many methods is over; it never goes back.

    The rest of the method at hand is what its rehearsals say; methods to come take what those before took on average.

    >>> heard = []
    >>> work = Work(lambda step, done, total: heard.append((done, total)), methods=2)
    >>> work.told(1.0); work.done(); work.done(); work.end()
    >>> heard[0][0] <= heard[1][0] <= heard[-1][0], heard[-1]
    (True, (100, 100))
    """

    def __init__(self, advance: Advance, methods: int) -> None:
        self._advance, self._methods, self._over = advance, methods, 0
        self._began = time.perf_counter()
        self._finished = 0.0
        self._shown = 0
        self._show(0.0)

    def told(self, left: float) -> None:
        """So many seconds may be left of the method at hand."""
        self._show(left)

    def done(self) -> None:
        """One method is over."""
        self._over += 1
        self._finished = time.perf_counter() - self._began
        self._show(0.0)

    def end(self) -> None:
        """Everything is over."""
        self._advance(STEP, 100, 100)

    def _show(self, left: float) -> None:
        spent = time.perf_counter() - self._began
        each = self._finished / self._over if self._over else _GUESS
        coming = max(0, self._methods - self._over - (1 if left else 0)) * each
        total = spent + left + coming
        # The last per cent is for the comparison, so that a bar that is full is over.
        self._shown = max(self._shown, min(99, int(100 * spent / total) if total > 0 else 0))
        self._advance(STEP, self._shown, 100)
