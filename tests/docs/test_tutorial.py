"""The tutorial runs as written: its files are written, its commands are run in order, and they say what it shows.

A fence marked `toml` and a name is that file; one marked `sh` holds commands; one marked `text output` is what the
commands before it printed, in which an ellipsis stands for anything.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from colonnade.cli.app import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(?P<kind>\w+) ?(?P<rest>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def says(printed: str, shown: str) -> bool:
    """Whether a text is what a page shows; an ellipsis on a line of its own stands for any lines, or none."""
    whole = re.escape(shown.strip("\n"))
    whole = re.sub(r"(?:^|(?<=\n))…(?:\\\n|$)", lambda _: "(?:.*\n)*?", whole)
    whole = whole.replace("…", ".*")
    return re.fullmatch(f"{whole}\n*", printed) is not None


def perform(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    program, *words = shlex.split(line)
    if program == "colonnade":
        code = run(words)
        printed = capsys.readouterr()
        assert code == 0, f"{line}: {printed.err}"
        return printed.out
    assert program == "python", f"{line}: only these two programs are known here"
    script, *rest = words
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *rest], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    printed, commands, compared = "", 0, 0
    for fence in FENCE.finditer(PAGE.read_text(encoding="utf-8")):
        kind, rest, text = fence["kind"], fence["rest"].strip(), fence["text"]
        if kind == "toml":
            Path(rest).write_text(text, encoding="utf-8")
        elif kind == "sh":
            printed = "".join(perform(line, capsys) for line in text.splitlines())
            commands += len(text.splitlines())
        elif rest == "output":
            assert says(printed, text), f"the page shows\n{text}\nbut this was printed\n{printed}"
            compared += 1
    assert commands >= 8 and compared >= 6
    page = Path("for-the-board.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>".upper()) or page.lower().startswith("<!doctype html>")


def test_this_check_would_notice_another_text() -> None:
    assert (
        says("a\nb\nc\n", "a\n…\nc\n") and says("a\nc\n", "a\n…\nc\n") and says("run 12, on\n", "run …, on\n")
    )
    assert not says("a\nb\n", "a\nc\n") and not says("a\nb\nc\n", "a\n") and not says("b\na\n", "a\n…\n")


def test_the_exports_are_as_messy_as_the_page_says(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples/messy/make_tables.py"), str(tmp_path)], check=True)
    bank, clinic = (tmp_path / "bank.csv").read_bytes(), (tmp_path / "clinic.csv").read_text()
    assert bank.startswith(b"\xef\xbb\xbfCustomer;Age;") and b";199;" in bank and b";;" in bank
    assert b"Office" in bank and b"CARE" in bank
    ids = [line.split(",")[0] for line in clinic.splitlines()[1:]]
    assert all(name == f" {name.strip().lower()} " for name in ids) and ids != sorted(ids)
