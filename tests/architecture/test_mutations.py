"""What benchmarks/mutants.py draws are mistakes in what the program does, known by what they are, not by their line."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import mutants  # noqa: E402
from mutations import DRAW, Mutation, mutations  # noqa: E402

SOURCE = '''"""One is less than 2."""
from typing import NDArray
LIMIT: int | None = 7
Kind = NDArray[int] | None


def capacity(rows: int, randomness: object, *, step: int) -> int:
    """Rows in 3 steps."""
    check(rows)
    if rows < step or not step:
        raise ValueError(f"{rows - step} is less than 0")
    log(rows + 1)
    mask = randomness.bytes(32)
    return max(math.ceil(rows * 2), -(-rows // step), scaled(rows, step))


class Row:
    def __repr__(self) -> str:
        return str(1 + 1)
'''


def made(kind: str) -> set[tuple[str, str]]:
    return {(one.before, one.after) for one in mutations("privacy/rows.py", SOURCE) if one.kind == kind}


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("arithmetic", "rows * 2", "rows / 2"),
        ("comparison", "rows < step", "rows <= step"),
        ("comparison", "rows < step", "rows >= step"),
        ("boolean", "rows < step or not step", "rows < step and (not step)"),
        ("boolean", "not step", "step"),
        ("refusal", "rows < step or not step", "False"),
        ("refusal", "check(rows)", "None"),
        ("extreme", SOURCE.partition("return ")[2].partition("\n")[0], "min"),
        ("rounding", "math.ceil(rows * 2)", "math.floor(rows * 2)"),
        ("rounding", "-(-rows // step)", "rows // step"),
        ("arguments", "scaled(rows, step)", "scaled(step, rows)"),
        ("constant", "7", "8"),
        ("constant", "2", "1"),
        (DRAW, "randomness.bytes(32)", 'b"\\x5a" * (32)'),
    ],
)
def test_every_kind_of_mistake_is_made(kind: str, before: str, after: str) -> None:
    assert any(was == before and now.startswith(after) for was, now in made(kind))


def test_words_types_logging_and_what_a_value_looks_like_are_left_alone() -> None:
    touched = {one.before for one in mutations("privacy/rows.py", SOURCE)}
    assert not {"rows - step", "rows + 1", "1 + 1", "0", "3", "NDArray[int] | None", "int | None"} & touched


def test_a_mutant_is_the_module_with_one_mistake() -> None:
    for one in mutations("privacy/rows.py", SOURCE):
        changed = one.applied(SOURCE)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert len(changed.splitlines()) <= len(SOURCE.splitlines())


def test_a_sample_stays_the_same_when_modules_move_and_other_lines_are_added() -> None:
    names = [one.name for one in mutants.sample(5, mutations("noise/a.py", SOURCE), {"noise": 6})]
    later = '"""Moved."""\n\n\n' + SOURCE.partition("\n")[2]
    assert [one.name for one in mutants.sample(5, mutations("noise/b/c.py", later), {"noise": 6})] == names
    assert [one.name for one in mutants.sample(6, mutations("noise/a.py", SOURCE), {"noise": 6})] != names


def test_a_seed_draws_a_hundred_and_twenty_over_the_rooms_that_are_there() -> None:
    assert sum(mutants.quotas_of(list(mutants.QUOTAS)).values()) == 120
    assert mutants.quotas_of(["noise"]) == {"noise": mutants.QUOTAS["noise"]}


def test_whatever_is_called_equivalent_has_a_reason_and_is_a_mutation_of_the_tree() -> None:
    there = mutants.everything(list(mutants.QUOTAS))
    for one in mutants.equivalents():
        assert len(one["reason"].split()) >= 5, one
        assert any(mutants.is_listed(mutation, [one]) for mutation in there), one


def test_what_is_listed_is_one_of_several_alike_and_is_found_where_its_module_went() -> None:
    one, other = [found for found in mutations("privacy/rows.py", "x = f(1, 1)") if found.after == "2"]
    entry = {"module": "privacy/rows.py", "function": "", "before": "1", "after": "2", "nth": 1, "reason": ""}
    assert [mutants.is_listed(each, [entry]) for each in (one, other)] == [False, True]
    stays = next(path for path in (mutants.PACKAGE / "privacy").glob("*.py"))
    elsewhere = entry | {"module": str(stays.relative_to(mutants.PACKAGE))}
    assert not mutants.is_listed(other, [elsewhere])


def test_the_share_is_of_those_that_change_what_the_program_does(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Mutation] = mutations("privacy/rows.py", SOURCE)[:4]
    first = drawn[0]
    same = {name: getattr(first, name) for name in ("module", "function", "before", "after", "nth")}
    monkeypatch.setattr(mutants, "equivalents", lambda: [same])
    killers = (None, "t", "t", None)
    found = mutants.summary(drawn, [mutants.Verdict(killer, 1, 0.0) for killer in killers])
    assert (found["killed_share"], found["equivalent_share"]) == (round(2 / 3, 4), 0.25)
    assert len(found["survivors"]) == 1
