"""The worked examples of docs/contributing, applied to a copy of the sources.

A fence `diff PATH` is a change of that file: lines that begin with a blank must be there, `-` lines go, `+` lines come.
A file that is not there yet is all of `+` lines. `check.py` lies beside the sources and is run.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRIBUTING = ROOT / "docs" / "contributing"
CHECK = "check.py"
CHANGE = re.compile(r"^```diff (?P<file>[^\n]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def changes(page: str) -> list[tuple[str, str]]:
    text = (CONTRIBUTING / page).read_text(encoding="utf-8")
    return [(found["file"].strip(), found["text"]) for found in CHANGE.finditer(text)]


def files_to_touch(page: str) -> list[str]:
    return sorted({file for file, _ in changes(page) if (ROOT / file).exists()})


def apply(page: str, copy: Path) -> None:
    # With loops that are compiled: those of a file that stays as it is are good in the copy too.
    shutil.copytree(ROOT / "src", copy / "src")
    for file, text in changes(page):
        lines = text.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        target = copy / file
        found = target.read_text(encoding="utf-8") if target.exists() else ""
        assert found.count(before) == 1 if before else not found, (page, file)
        target.parent.mkdir(exist_ok=True)
        target.write_text(found.replace(before, after) if before else after, encoding="utf-8")


def run(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """The check of the example, or these tests with the sources of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    command = [sys.executable, *(("-m", "pytest", "-rA", *tests) if tests else (CHECK,))]
    folder = ROOT if tests else copy
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
