"""The tab key: verbs, options, names of methods and numbers of errors; files where a file is meant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from colonnade.cli import screen as completing
from colonnade.federation.job import _JobForm
from colonnade.methods.table import METHODS

PROGRAM = "import sys; from colonnade.cli import main; sys.argv[0] = 'colonnade'; main()"


def completed(words: str, **environment: str) -> list[str]:
    """What bash is offered for a line whose last word is not finished."""
    requested = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_COLONNADE_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **requested, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.stdout.split()


def test_names_that_are_offered_are_those_of_the_tables() -> None:
    assert sorted(METHODS) == sorted(completing.method_names())
    assert _JobForm.model_fields["task"].annotation.__args__ == completing.TASKS  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("colonnade tr", ["train"]),
        ("colonnade privacy mom", ["moments"]),
        ("colonnade train --ou", ["--output"]),
        ("colonnade compare --methods moments,fun", ["moments,functional"]),
        ("colonnade new --task cl", ["classification"]),
        ("colonnade explain E32", ["E320", "E321", "E322"]),
        # Nothing is offered where a file is meant, and the shell then completes files.
        ("colonnade train ", []),
    ],
)
def test_the_tab_key_offers(words: str, offered: list[str]) -> None:
    assert completed(words) == offered


@pytest.mark.parametrize(
    ("shell", "file", "piece"),
    [
        ("bash", ".bash_completions/colonnade.sh", "complete -o default"),
        ("zsh", ".zfunc/_colonnade", "#compdef colonnade"),
        ("fish", ".config/fish/completions/colonnade.fish", "complete --command colonnade"),
    ],
)
def test_completion_is_installed_for_each_shell(tmp_path: Path, shell: str, file: str, piece: str) -> None:
    script = (
        "import shellingham\n"
        f"shellingham.detect_shell = lambda *_: ({shell!r}, {shell!r})\n"
        f"{PROGRAM.replace('main()', 'main', 1)}\n"
        "sys.argv[1:] = ['--install-completion']\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert piece in (tmp_path / file).read_text()
