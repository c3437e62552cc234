"""What benchmarks/house.py counts is what it says it counts; what it must not find is not there."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import house

NAMES = {"moments", "slr", "local"}


def test_a_circle_of_imports_is_found_wherever_they_stand() -> None:
    trees = {
        "a": ast.parse("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import b"),
        "b": ast.parse("def late():\n    from c import x"),
        "c": ast.parse("import a\nimport d"),
        "d": ast.parse("import os"),
    }
    assert house.cycles(house.graph(trees)) == [["a", "b", "c"]]
    trees["c"] = ast.parse("import d")
    assert house.cycles(house.graph(trees)) == []


def test_a_late_import_of_what_needs_an_extra_makes_no_circle() -> None:
    late = {"a": ast.parse("def f():\n    import b"), "b": ast.parse("import torch\nimport a")}
    assert house.cycles(house.graph(late)) == []
    at_once = {**late, "a": ast.parse("import b")}
    assert house.cycles(house.graph(at_once)) == [["a", "b"]]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("T = {'moments': 1, 'slr': 2, 'local': 3}", 1),
        ("T = {'moments': 1, 'slr': 2}", 0),
        ("T = (('moments', 1), ('slr', 2), ('local', 3))", 1),
        ("match x:\n    case 'moments' | 'slr':\n        pass\n    case 'local':\n        pass", 1),
        ("T = (method_moments.METHOD, method_slr.METHOD, method_local.METHOD)", 1),
        ("@f.register\ndef a(x: APlan): ...\n@f.register(BPlan)\n@f.register(CPlan)\ndef b(x): ...", 1),
        ("T = 'moments' + 'slr' + 'local'", 0),
    ],
)
def test_a_table_names_three_methods(source: str, found: int) -> None:
    assert len(list(house.tables(ast.parse(source), NAMES))) == found


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return house.counted()


def test_no_module_imports_another_in_a_circle(figures: dict[str, Any]) -> None:
    assert figures["where"]["cycles"] == []


def test_only_the_table_of_methods_and_that_of_audits_name_methods(figures: dict[str, Any]) -> None:
    found = [place.split(":")[0] for place in figures["where"]["tables"]]
    assert found == ["colonnade.audits.targets", "colonnade.methods.table"]


def test_the_house_is_counted_as_it_stands(figures: dict[str, Any]) -> None:
    assert figures["modules"] > 100 and figures["source_lines"] > 100 * figures["modules"]
    assert any(place.startswith("colonnade.") for place in figures["where"]["tables"])
