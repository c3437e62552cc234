"""How many threads sums of doubles are made by."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

_FEW = 1 << 20


def one_thread() -> AbstractContextManager[object]:
    """Sums by one thread: the same digits on any number of cores.

    A short sum is also over before a second thread has woken, which then spins for longer than all of it takes.

    >>> with one_thread():
    ...     sum((1.0, 2.0))
    3.0
    """
    limited: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limited


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def few_threads(numbers: int) -> AbstractContextManager[object]:
    """One thread for sums over so few numbers that a second one would only spin; for more, as many as there are.

    >>> with few_threads(1000):
    ...     sum((1.0, 2.0))
    3.0
    """
    return one_thread() if numbers <= _FEW else nullcontext()
