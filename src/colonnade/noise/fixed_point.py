"""Real functions as integers: a private mpmath context, taken one caller at a time.

mpmath keeps its working precision in a shared context. The samplers' proofs need `mass(k)` to be the
same integer every time it is asked, so they use a context that nobody else can touch, behind a lock,
with the precision named at every use.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.libmp import from_rational, mpf_exp, to_fixed

_CONTEXT = mpmath.mp.clone()
_LOCK = threading.RLock()


@contextmanager
def working(bits: int) -> Iterator[Any]:
    """The context at `bits` of precision, for this thread alone while the block lasts."""
    with _LOCK, _CONTEXT.workprec(bits):
        yield _CONTEXT


def real(context: Any, value: Fraction) -> Any:
    """An exact fraction at the context's precision, correctly rounded."""
    return context.mpf(value.numerator) / value.denominator


def scaled_floor(context: Any, value: Any, bits: int) -> int:
    """⌊2^bits · value⌋ of what the context computed; its error is the caller's to bound."""
    return int(context.floor(context.ldexp(value, bits)))


def scaled_decay(numerator: int, denominator: int, *, bits: int, working_bits: int) -> int:
    """⌊2^bits · e^(−numerator/denominator)⌋, of what is computed at `working_bits`: no context, and no lock."""
    power = from_rational(-numerator, denominator, working_bits, "n")
    return int(to_fixed(mpf_exp(power, working_bits, "n"), bits))
