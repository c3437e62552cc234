"""How far rehearsals have come: seconds spent, over seconds spent and expected."""

from __future__ import annotations

import time
from collections.abc import Callable

Advance = Callable[[str, int, int], None]
STEP = "rehearsing"
# What a part takes at least before any has ended.
_GUESS = 0.5


class Work:
    """Tells in per cent how much of so many parts is over; it never goes back. A method is a part, and so are trials.

    The rest of the part at hand is what its rehearsals say; parts to come take what those before took on average, and
    the first is taken for as long as it says that it will be.
    """

    def __init__(self, advance: Advance, parts: int) -> None:
        self._advance, self._parts, self._over = advance, parts, 0
        self._began = time.perf_counter()
        self._finished = 0.0
        self._shown = 0
        self._show(0.0)

    def notify(self, left: float) -> None:
        """So many seconds may be left of the part at hand."""
        self._show(left)

    def done(self) -> None:
        self._over += 1
        self._finished = time.perf_counter() - self._began
        self._show(0.0)

    def end(self) -> None:
        self._advance(STEP, 100, 100)

    def _show(self, left: float) -> None:
        spent = time.perf_counter() - self._began
        each = self._finished / self._over if self._over else max(_GUESS, spent + left)
        coming = max(0, self._parts - self._over - (1 if left else 0)) * each
        total = spent + left + coming
        # The last per cent is for the comparison, so that a bar that is full is over.
        self._shown = max(self._shown, min(99, int(100 * spent / total) if total > 0 else 0))
        self._advance(STEP, self._shown, 100)
