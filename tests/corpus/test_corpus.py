"""Hundreds of ways of getting it wrong, each through the real verbs: told as what it is, and nothing lost by it."""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from corpus_cases import GROUPS, Case, load_cases
from corpus_runs import run_case
from corpus_stages import Stages

CASES = load_cases()
LEAST = 500
TOGETHER = 12


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
