"""Which function computes which reference value: a name pattern, and a function of the value's inputs.

Most are functions of the library. Counterexamples, Monte-Carlo figures and brute force live in tests/oracles.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

Inputs = Mapping[str, Any]
Binding = Callable[[Inputs, re.Match[str]], float]
BINDINGS: list[tuple[re.Pattern[str], Binding]] = []
NUMBER = r"[0-9.e+-]+"


def binds(pattern: str) -> Callable[[Binding], Binding]:
    """Bind the names that match the whole pattern, in which # stands for a number."""

    def remember(function: Binding) -> Binding:
        BINDINGS.append((re.compile(pattern.replace("#", NUMBER)), function))
        return function

    return remember


def compute(name: Any, inputs: Any) -> float:
    """The value that our code gives; a name without exactly one binding is an error."""
    found = [(match, function) for pattern, function in BINDINGS if (match := pattern.fullmatch(name))]
    if len(found) != 1:
        raise LookupError(f"{name} matches {len(found)} bindings; bind it to exactly one")
    match, function = found[0]
    return function(inputs, match)
