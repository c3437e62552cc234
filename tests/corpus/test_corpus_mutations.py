"""New cases from old ones: whatever a chance change makes of a case, it ends as every case must."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from corpus_cases import Case, load_cases
from corpus_runs import run_case
from corpus_stages import Stages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Quick ones: what is refused while files are read, or shown from files alone.
SEEDS = tuple(
    case
    for case in load_cases()
    if not case.process
    and case.code
    and case.run[0] in ("train", "show", "ledger", "report", "schema", "runs")
)
FRAGMENTS = (
    "",
    "\0",
    "\x1b[2J",
    "\n",
    "\u202e",
    "=",
    "[[",
    '"""',
    "nan",
    "-0",
    "1e999",
    "9" * 400,
    "{",
    "é",
    "\ufeff",
    "'; DROP TABLE x; --",
    "=HYPERLINK(1)",
    "../../etc/passwd",
    "ε",
    "true",
)


@st.composite
def mutated(draw: st.DrawFn) -> Case:
    """A case of the corpus with a further change to one of the files of its stage, or to its command line."""
    case = draw(st.sampled_from(SEEDS))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(case.run) - 1))
        word = draw(st.sampled_from([piece for piece in FRAGMENTS if "\0" not in piece]))
        words = (
            *case.run[:place],
            draw(st.sampled_from([word, case.run[place] + word])),
            *case.run[place + 1 :],
        )
        return replace(case, run=words)
    file = draw(st.sampled_from(["job.toml", "bank.toml", "bank.schema.toml", "bank.csv", "insurer.toml"]))
    return replace(
        case,
        changes=(
            *case.changes,
            (
                "splice",
                (file, draw(st.integers(0, 400)), draw(st.sampled_from(FRAGMENTS)), draw(st.integers(0, 20))),
            ),
        ),
    )


def holds(case: Case, stages: Stages) -> None:
    """No traceback, no mistake of ours, nothing charged or left, whatever is said; a change may also do no harm."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stages.copy(case.stage, folder)
        ending, broken = run_case(replace(case, says=(), never=()), folder)
        if ending.code == 0:
            return
        assert ending.code not in (1, -1), ending.said
        assert not [law for law in broken if not law.startswith("exit code")], (case, broken, ending.said)
        assert os.environ.get("COLONNADE_TRACEBACK") is None


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return Stages(tmp_path_factory.mktemp("stages"))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=mutated())
def test_a_case_with_a_chance_change_ends_as_every_case_must(case: Case, stages: Stages) -> None:
    holds(case, stages)


@pytest.mark.slow
@settings(
    max_examples=3000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(case=mutated())
def test_thousands_of_chance_changes_end_as_every_case_must(case: Case, stages: Stages) -> None:
    holds(case, stages)
