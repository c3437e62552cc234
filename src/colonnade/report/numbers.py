"""Numbers as people read them: ε spent rounded up, ε left rounded down, sizes and times in a fitting unit."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from colonnade.privacy.guarantee import epsilon_text


def signed_text(value: float, half_width: float | None = None) -> str:
    """A number with its sign, and how far noise may have moved it, rounded up."""
    size = max(abs(value), half_width or 0.0)
    exact = Decimal(half_width or 0.0)
    if not size or 0.01 <= size < 1e6:
        places = 0 if size >= 100 else 2
        text, near = f"{value:+.{places}f}", f"{_up(exact, -places):f}"
    else:
        text, near = f"{value:+.1e}", f"{_up(exact, exact.adjusted() - 1):.1e}"
    return text if half_width is None else f"{text} ± {near}"


def _up(exact: Decimal, last: int) -> Decimal:
    return exact.quantize(Decimal(1).scaleb(last), rounding=ROUND_CEILING)


def spent_text(epsilon: float | None) -> str:
    """ε rounded up; a file of facts has null where no proof bounds it."""
    return epsilon_text(math.inf if epsilon is None else epsilon)


def budget_text(epsilon: float | None) -> str:
    """A budget as it was granted; ∞ where a coalition was accepted by name."""
    return "∞" if epsilon is None or math.isinf(epsilon) else f"{epsilon:g}"


def left_text(epsilon: float | None) -> str:
    """What is left of a budget, rounded down."""
    if epsilon is None or math.isinf(epsilon):
        return "∞"
    exact = Decimal(epsilon)
    if not exact:
        return "0"
    return f"{exact.quantize(Decimal(1).scaleb(min(-2, exact.adjusted() - 1)), rounding=ROUND_FLOOR):f}"


def size_text(size: int) -> str:
    """Bytes in a unit that people read."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def duration_text(seconds: float) -> str:
    """A time in a unit that people read."""
    if seconds < 99.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
