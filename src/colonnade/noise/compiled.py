"""Compiling integer kernels: no float, no fast-math, the interpreter's lock released."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from colonnade.numbers.compiling import machine_code

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function as machine code, kept on disk between runs; `.py_func` is the Python it came from.

    Kernels hold int64 and uint64 only, and cast by hand wherever the two meet: left to itself the
    compiler turns such a pair into float64.
    """
    return machine_code(function)
