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
    *(
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
        "ε",
    ),
    *("'; DROP TABLE x; --", "=HYPERLINK(1)", "../../etc/passwd", "true"),
)
FILES = ("job.toml", "bank.toml", "bank.schema.toml", "bank.csv", "insurer.toml")


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


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return Stages(tmp_path_factory.mktemp("stages"))


@pytest.mark.parametrize("examples", [40, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_case_with_a_chance_change_ends_as_every_case_must(examples: int, stages: Stages) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(case=mutated())
    def each(case: Case) -> None:
        holds(case, stages)

    each()
