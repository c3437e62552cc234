"""Every reference value, computed by our code from its inputs.

Further files of the same form may be named in the environment variable COLONNADE_VECTORS, separated as in PATH.
A name that no binding matches fails.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from bindings import BINDINGS, compute

OWN = Path(__file__).with_name("reference_values.json")
FURTHER = [Path(name) for name in os.environ.get("COLONNADE_VECTORS", "").split(os.pathsep) if name]
VECTORS = [vector for path in (OWN, *FURTHER) for vector in json.loads(path.read_text("utf-8"))["values"]]
PARTS = 8


def agrees(found: float, expected: Any, *, tolerance: Any, kind: str) -> bool:
    allowed = tolerance * abs(expected) if kind == "relative" else tolerance
    return math.isfinite(found) and abs(found - expected) <= allowed


def difference(vector: dict[str, Any]) -> str:
    """In which way our code does not reproduce a value, or nothing."""
    found = compute(vector["name"], vector["inputs"])
    kind = vector.get("tolerance_kind", "relative")
    assert kind in ("relative", "absolute")
    if agrees(found, vector["value"], tolerance=vector["tolerance"], kind=kind):
        return ""
    return f"{vector['name']}: {found!r}, not {vector['value']!r} within {vector['tolerance']} ({kind})"


@pytest.mark.parametrize("part", range(PARTS))
def test_our_code_reproduces(part: int) -> None:
    assert len(VECTORS) > 200
    assert [wrong for vector in VECTORS[part::PARTS] if (wrong := difference(vector))] == []


def test_a_name_that_nothing_binds_fails() -> None:
    with pytest.raises(LookupError, match="matches 0 bindings"):
        compute("eps_of_everything", {})


def test_names_are_unique_and_every_binding_is_used() -> None:
    names = [vector["name"] for vector in VECTORS]
    assert len(set(names)) == len(names) or FURTHER
    unused = [pattern.pattern for pattern, _ in BINDINGS if not any(map(pattern.fullmatch, names))]
    assert unused == []


def test_the_comparison_would_notice_a_value_just_outside_its_tolerance() -> None:
    assert agrees(1.0 + 1e-9, 1.0, tolerance=1e-9 * (1 + 1e-6), kind="relative")
    assert not agrees(1.0 + 1.1e-9, 1.0, tolerance=1e-9, kind="relative")
    assert not agrees(4.0000001, 4.0, tolerance=0, kind="absolute")
    assert not agrees(math.nan, 1.0, tolerance=1.0, kind="absolute")
