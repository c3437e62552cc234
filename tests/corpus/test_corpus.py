"""Hundreds of ways of getting it wrong, each through the real verbs: told as what it is, and nothing lost by it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from corpus_cases import GROUPS, Case, load_cases
from corpus_runs import run_case
from corpus_stages import Stages

CASES = load_cases()
LEAST = 500


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return Stages(tmp_path_factory.mktemp("stages"))


def test_the_corpus_is_large_and_of_every_group() -> None:
    assert sum(not case.slow for case in CASES) >= LEAST
    assert set(GROUPS) == {case.group for case in CASES}
    assert [name for name, times in Counter(map(str, CASES)).items() if times > 1] == []
    assert all(case.says for case in CASES if case.code), "each names what must be said"


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] if case.slow else []) for case in CASES], ids=str
)
def test_a_case_is_told_as_what_it_is(case: Case, stages: Stages, tmp_path: Path) -> None:
    stages.copy(case.stage, tmp_path)
    ending, broken = run_case(case, tmp_path)
    assert not broken, f"{broken}\n{ending.said}"
