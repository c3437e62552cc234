"""Hundreds of ways of getting it wrong, each through the real verbs: told as what it is, and nothing lost by it."""

import os
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from corpus_cases import GROUPS, Case, load_cases
from corpus_runs import Stages, run_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CASES = load_cases()
LEAST = 500
TOGETHER = 12
# Quick ones: what is refused while files are read, or shown from files alone.
SEEDS = tuple(
    case
    for case in CASES
    if not case.process
    and case.code
    and case.run[0] in ("train", "show", "ledger", "report", "schema", "runs")
)
FRAGMENTS = (
    *("", "\0", "\x1b[2J", "\n", "\u202e", "=", "[[", '"""', "nan", "-0", "1e999", "9" * 400, "{", "é"),
    *("\ufeff", "ε", "true", "'; DROP TABLE x; --", "=HYPERLINK(1)", "../../etc/passwd"),
)
FILES = ("job.toml", "bank.toml", "bank.schema.toml", "bank.csv", "insurer.toml")


def _neighbours() -> list[Any]:
    """Cases of one group, a dozen at a time: a test for each would be seven hundred."""
    rows = []
    for group, slow in product(GROUPS, (False, True)):
        alike = [case for case in CASES if (case.group, case.slow) == (group, slow)]
        for start in range(0, len(alike), TOGETHER):
            some, marks = tuple(alike[start : start + TOGETHER]), [pytest.mark.slow] if slow else []
            rows.append(pytest.param(some, marks=marks, id=f"{group} from {some[0].name}"))
    return rows


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return Stages(tmp_path_factory.mktemp("stages"))


def test_the_corpus_is_large_and_of_every_group() -> None:
    assert sum(not case.slow for case in CASES) >= LEAST
    assert set(GROUPS) == {case.group for case in CASES}
    assert [name for name, times in Counter(map(str, CASES)).items() if times > 1] == []
    assert all(case.says for case in CASES if case.code), "each names what must be said"


@pytest.mark.parametrize("cases", _neighbours())
def test_a_case_is_told_as_what_it_is(cases: tuple[Case, ...], stages: Stages, tmp_path: Path) -> None:
    wrong = []
    for number, case in enumerate(cases):
        folder = tmp_path / str(number)
        stages.copy(case.stage, folder)
        ending, broken = run_case(case, folder)
        wrong += [f"{case}: {broken}\n{ending.all}"] if broken else []
    assert not wrong, "\n".join(wrong)


@st.composite
def mutated(draw: st.DrawFn) -> Case:
    """A case of the corpus with a further change to one of the files of its stage, or to its command line."""
    case = draw(st.sampled_from(SEEDS))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(case.run) - 1))
        word = draw(st.sampled_from([piece for piece in FRAGMENTS if "\0" not in piece]))
        words = draw(st.sampled_from([word, case.run[place] + word]))
        return replace(case, run=(*case.run[:place], words, *case.run[place + 1 :]))
    given = st.sampled_from(FILES), st.integers(0, 400), st.sampled_from(FRAGMENTS), st.integers(0, 20)
    return replace(case, changes=(*case.changes, ("splice", *map(draw, given))))


def holds(case: Case, stages: Stages) -> None:
    """No traceback, no mistake of ours, nothing charged or left, whatever is said; a change may also do no harm."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stages.copy(case.stage, folder)
        ending, broken = run_case(replace(case, says=(), never=()), folder)
        if ending.code == 0:
            return
        assert ending.code not in (1, -1), ending.all
        assert not [law for law in broken if not law.startswith("exit code")], (case, broken, ending.all)
        assert os.environ.get("COLONNADE_TRACEBACK") is None


@pytest.mark.parametrize("examples", [40, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_case_with_a_chance_change_ends_as_every_case_must(examples: int, stages: Stages) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(case=mutated())
    def each(case: Case) -> None:
        holds(case, stages)

    each()
