"""What benchmarks/house.py counts is what it says it counts; what it must not find is not there."""

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
    # A late import of what needs an extra makes no circle.
    late = {"a": ast.parse("def f():\n    import b"), "b": ast.parse("import torch\nimport a")}
    assert house.cycles(house.graph(late)) == []
    assert house.cycles(house.graph({**late, "a": ast.parse("import b")})) == [["a", "b"]]


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


REPEATED = """
async def {name}(party: Party, table: Table, plan: {plan}) -> None:
    release = plan.release(party.name, run=party.run)
    await charge_first(party, release)
    for number, (rows, mine) in enumerate({blocks}):
        columns = await share_rows(party, mine, rows, plan, step=f"{step} {{number}}")
        party.progress("columns", number)
    return columns
"""


def test_six_lines_of_one_shape_are_found_whatever_they_name(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.py" for name in ("first", "second", "third"))
    first.write_text(REPEATED.format(name="a", plan="A", blocks="a_blocks", step="columns"))
    second.write_text(REPEATED.format(name="b", plan="B", blocks="b_blocks", step="phases"))
    third.write_text("class C:\n" + "".join(f"    {name}: int\n" for name in "abcdefg"))
    found = house.repeats([first, second, third])
    assert [place.split()[-1] for pair in found for place in pair] == ["a", "b"]
    assert house.repeats([first, second, third], least=7) == []


def test_no_two_plans_requests_sessions_or_commands_of_privacy_share_six_lines() -> None:
    """One shape, whatever is named: then it is one thing, and stands in one place."""
    patterns = (
        *("methods/*/plan.py", "methods/*/protocol.py", "protocols/*plan*.py", "protocols/evaluation.py"),
        *("protocols/session.py", "cli/*privacy*.py"),
    )
    paths = [path for pattern in patterns for path in (house.SOURCE / "colonnade").glob(pattern)]
    assert len(paths) > 17 and house.repeats(paths) == []


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return house.counted()


def test_no_module_imports_another_in_a_circle(figures: dict[str, Any]) -> None:
    assert figures["where"]["cycles"] == []


def test_no_name_has_a_word_that_was_given_up(figures: dict[str, Any]) -> None:
    assert figures["old_words"] == 0, figures["where"]["old words"]
    assert house.old_words("told = asked_of(Doorkeeper)") == ["told", "asked_of", "Doorkeeper"]


def test_only_the_table_of_methods_and_that_of_audits_name_methods(figures: dict[str, Any]) -> None:
    found = [place.split(":")[0] for place in figures["where"]["tables"]]
    assert found == ["colonnade.lab.targets", "colonnade.methods.table"]
