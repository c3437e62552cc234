"""How work is done: by how many threads, and by loops that are machine code kept on the disk between runs."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import caching
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
        self._before: list[int] = []

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                # Libraries come with modules; to look for them takes milliseconds, to set them microseconds.
                if self._modules != len(sys.modules):
                    self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                    self._modules = len(sys.modules)
                self._before = [library.num_threads for library in self._libraries]
                self._set([1] * len(self._libraries))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._set(self._before)

    def _set(self, threads: list[int]) -> None:
        for library, count in zip(self._libraries, threads, strict=True):
            # Newer versions of threadpoolctl heed only the thread that was the first to set OpenBLAS, until it is done;
            # a notebook's run is in another one, and the last to leave need not be the first who came.
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


Function = TypeVar("Function", bound=Callable[..., object])

# numba has no types.
_Cache: Any = caching.FunctionCache
_announced: list[str] = []


def machine_code(function: Function) -> Function:
    """The function as machine code that runs without the interpreter's lock; `.py_func` is the Python it came from.

    A place for compiled loops that cannot be written to, is full or holds damaged files costs the time to compile,
    half a minute in all, and never a run: some loops are compiled when a release is already charged.
    """
    compiled: Any = njit(nogil=True)(function)
    try:
        compiled._cache = _Kept(function)  # noqa: SLF001  numba has no other place for it
    except (RuntimeError, OSError):
        # numba finds no folder that it could write to.
        _tell("there is no folder that they could be written to")
    # Callers see the Python signature, which the machine code keeps.
    return cast(Function, compiled)


class _Kept(_Cache):  # type: ignore[misc]
    """numba's files of compiled loops, of which none is needed."""

    def load_overload(self, *given: Any) -> Any:
        try:
            return super().load_overload(*given)
        except Exception:
            # Cut off, or of another version: compiled again, as if it were not there.
            return None

    def save_overload(self, *given: Any) -> None:
        try:
            super().save_overload(*given)
        except OSError as error:
            _tell(f"{self.cache_path} cannot be written ({error.strerror})")


def _tell(why: str) -> None:
    """Once, in one line, wherever warnings go."""
    if not _announced:
        _announced.append(why)
        logging.getLogger("colonnade").warning(
            "note: compiled loops are not kept, because %s: every start compiles them for half a minute. Set "
            "NUMBA_CACHE_DIR to a folder of your own.",
            why,
        )
