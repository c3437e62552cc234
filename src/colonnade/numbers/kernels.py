"""Which inner loops run: the compiled ones, or the plain numpy ones that give the same integers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers import fallback

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]


class Kernels(Protocol):
    """The loops that exist twice: in `compiled` and in `fallback`."""

    def add(self, left: Words, right: Words, primes: Triple, out: Words) -> None: ...
    def subtract(self, left: Words, right: Words, primes: Triple, out: Words) -> None: ...
    def multiply(self, left: Words, right: Words, primes: Triple, out: Words) -> None: ...
    def add_scaled(self, total: Words, words: Words, factor: Words, primes: Triple) -> None: ...
    def encode(self, values: NDArray[np.int64], primes: Triple, out: Words) -> int: ...
    def invalid(self, words: Words, primes: Triple) -> NDArray[np.int64]: ...
    def drop_top_bit(self, words: Words) -> None: ...
    def row_products(self, left: Words, right: Words, primes: Triple, out: Words) -> None: ...
    def weighted_rows(self, words: Words, factors: Words, total: NDArray[np.int64]) -> None: ...
    def unpack(self, words: Words, out: Floats, at: int) -> None: ...
    def fold(self, product: Floats, total: Floats, prime: int) -> None: ...
    def decode(self, words: Words, primes: Triple, inverses: Triple, out: NDArray[np.int64]) -> None: ...


_chosen: ContextVar[Kernels | None] = ContextVar("kernels", default=None)


@cache
def _quickest() -> Kernels:
    try:
        # Here, not above: importing numba takes longer than most commands run.
        from colonnade.numbers import compiled
    except ImportError:
        return fallback
    return compiled


def kernels() -> Kernels:
    """The loops in force: compiled wherever numba can be imported."""
    return _chosen.get() or _quickest()


@contextmanager
def plain_numpy() -> Iterator[None]:
    """Run the plain numpy loops inside this block."""
    token = _chosen.set(fallback)
    try:
        yield
    finally:
        _chosen.reset(token)
