"""The tab key: verbs, options, names of methods and numbers of errors; files where a file is meant."""

from pathlib import Path

import pytest

from colonnade.cli import screen as completing
from colonnade.cli.app import app
from colonnade.federation.job import _JobForm
from colonnade.methods.table import METHODS


def performed(*words: str) -> None:
    """What a shell that completes runs; it ends the program before a verb begins."""
    with pytest.raises(SystemExit) as ended:
        app(args=list(words), prog_name="colonnade")
    assert not ended.value.code


def test_names_that_are_offered_are_those_of_the_tables() -> None:
    assert sorted(METHODS) == sorted(completing.method_names())
    assert _JobForm.model_fields["task"].annotation.__args__ == completing.TASKS  # type: ignore[union-attr]


OFFERED = {
    "colonnade tr": ["train"],
    "colonnade privacy mom": ["moments"],
    "colonnade train --ou": ["--output"],
    "colonnade compare --methods moments,fun": ["moments,functional"],
    "colonnade new --task cl": ["classification"],
    "colonnade explain E32": ["E320", "E321", "E322"],
    # Nothing is offered where a file is meant, and the shell then completes files.
    "colonnade train ": [],
}


def test_the_tab_key_offers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_COLONNADE_COMPLETE", "complete_bash")
    for line, offered in OFFERED.items():
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        performed()
        assert capsys.readouterr().out.split() == offered, line


def test_completion_is_installed_for_each_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {
        "bash": (".bash_completions/colonnade.sh", "complete -o default"),
        "zsh": (".zfunc/_colonnade", "#compdef colonnade"),
        "fish": (".config/fish/completions/colonnade.fish", "complete --command colonnade"),
    }
    monkeypatch.setenv("HOME", str(tmp_path))
    for shell, (file, piece) in installed.items():
        monkeypatch.setattr("shellingham.detect_shell", lambda *_, found=shell: (found, found))
        performed("--install-completion")
        assert piece in (tmp_path / file).read_text()
