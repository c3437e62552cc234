"""How many threads sums of doubles are made by."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

_FEW = 1 << 20


class _Limit:
    """One limit for all of this process: the first who wants it sets it, the last to leave puts back what was there.

    BLAS has one setting for a process. If each of several parties put back what it had found, the last one would leave
    what the first had set.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._modules = 0
        self._libraries: list[Any] = []
        self._before: dict[str, tuple[Any, int]] = {}

    def enter(self) -> None:
        with self._lock:
            # Libraries come with modules, at any time; to look for them takes milliseconds, to set them microseconds.
            if self._modules != len(sys.modules):
                self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self._modules = len(sys.modules)
            for library in self._libraries:
                if library.filepath not in self._before:
                    self._before[library.filepath] = (library, library.num_threads)
                    _set(library, 1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for library, count in self._before.values():
                    _set(library, count)
                self._before = {}


def _set(library: Any, count: int) -> None:
    # Newer versions of threadpoolctl heed only the thread that was the first to set OpenBLAS, until it is done; a
    # notebook's run is in another one, and the last to leave need not be the first who came.
    free = getattr(library, "clear_controlling_thread", lambda **_: None)
    free(force=True)
    library.set_num_threads(count)
    free(force=True)


_LIMIT = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums by one thread: the same digits on any number of cores.

    A short sum is also over before a second thread has woken, which then spins for longer than all of it takes. What
    was set before holds again when the last block that asks for one thread has ended; until then, all of this process
    sums by one.
    """
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


def few_threads(numbers: int) -> AbstractContextManager[object]:
    """One thread for sums over so few numbers that a second one would only spin; for more, as many as there are."""
    return one_thread() if numbers <= _FEW else nullcontext()
