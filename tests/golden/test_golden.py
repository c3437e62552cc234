"""Answers of an earlier version to a corpus of cases: guarantees, codes, seeded releases, totals, exit codes.

The variable COLONNADE_GOLDEN names the folder of cases; without it these tests are skipped. `differences.toml` lists
where this version answers otherwise, each with its reason. Anything else that differs is a mistake.
"""

import json
import math
import os
import tomllib
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

KINDS = ("plans", "coding", "runs", "ledger", "cli", "models")
RELATIVE = 1e-9
LEARNT = ("model", "said", "onnx", "coefficients")
# What is learnt in floats of 32 bits, or by a fit whose end depends on the order of sums (the matched rule).
LOOSE = {
    "runs/network": 1e-4,
    "models/network": 1e-4,
    "models/trees": 1e-4,
    "runs/moments-bins": 5e-3,
    "models/logistic-matched": 5e-3,
}


def cases() -> Iterator[Any]:
    folder = os.environ.get("COLONNADE_GOLDEN")
    if not folder:
        yield pytest.param("", "", marks=pytest.mark.skip("COLONNADE_GOLDEN names no folder of golden cases"))
        return
    for kind in KINDS:
        for name in json.loads((Path(folder) / f"{kind}.json").read_text(encoding="utf-8")):
            yield pytest.param(kind, name, id=f"{kind}/{name}")


@pytest.mark.parametrize(("kind", "name"), list(cases()))
def test_a_golden_case_is_answered_as_before(kind: str, name: str) -> None:
    from answers import answer

    folder = Path(os.environ["COLONNADE_GOLDEN"]).resolve()
    case = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))[name]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        said = answer(kind, case["in"], folder)
    loose = next((bound for begin, bound in LOOSE.items() if f"{kind}/{name}".startswith(begin)), RELATIVE)
    differing = [
        line
        for key in [*case["out"], *(key for key in said if key not in case["out"])]
        for line in differences(
            {key: case["out"][key]} if key in case["out"] else {},
            {key: said[key]} if key in said else {},
            max(loose, 1e-5) if key == "onnx" else loose if key in LEARNT else RELATIVE,
        )
        if not explained(f"{kind}/{name}{line.partition(': ')[0]}")
    ]
    if "known" not in case:
        assert not differing, "\n".join(differing)


def explained(place: str) -> bool:
    document = tomllib.loads(Path(__file__).with_name("differences.toml").read_text(encoding="utf-8"))
    return any(fnmatchcase(place, pattern) for item in document["difference"] for pattern in item["places"])


def differences(golden: Any, said: Any, relative: float, place: str = "") -> Iterator[str]:
    """Where two plain values differ: floats by more than a relative bound, everything else at all."""
    if isinstance(golden, dict) and isinstance(said, dict):
        for key in [*golden, *(key for key in said if key not in golden)]:
            if key not in golden or key not in said:
                yield f"{place}.{key}: {'is new' if key not in golden else 'is gone'}"
            else:
                yield from differences(golden[key], said[key], relative, f"{place}.{key}")
    elif isinstance(golden, list) and isinstance(said, list) and len(golden) == len(said):
        for index, pair in enumerate(zip(golden, said, strict=True)):
            yield from differences(*pair, relative, f"{place}[{index}]")
    elif _is_number(golden) and _is_number(said) and float in (type(golden), type(said)):
        if not math.isclose(golden, said, rel_tol=relative, abs_tol=1e-12):
            yield f"{place}: {golden!r} is now {said!r}"
    elif type(golden) is not type(said) or golden != said:
        yield f"{place}: {json.dumps(golden)[:160]} is now {json.dumps(said)[:160]}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.parametrize(
    ("golden", "said"),
    [
        ({"ε": 1.0}, {"ε": 1.000001}),
        ({"rows": 3}, {"rows": 4}),
        ({"rows": 3}, {}),
        ({}, {"rows": 3}),
        ([1, 2], [1]),
        ({"leaks": False}, {"leaks": 0}),
    ],
)
def test_a_difference_would_be_noticed(golden: Any, said: Any) -> None:
    assert list(differences(golden, said, RELATIVE))


def test_every_difference_has_a_reason() -> None:
    document = tomllib.loads(Path(__file__).with_name("differences.toml").read_text(encoding="utf-8"))
    assert all(item["reason"].strip() and item["places"] for item in document["difference"])
