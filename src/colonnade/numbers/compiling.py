"""Loops as machine code, kept on the disk between runs where there is a place for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import caching

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
