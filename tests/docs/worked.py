"""The worked examples of docs/contributing, applied to a copy of the sources.

A fence `diff PATH` is a change of that file: lines that begin with a blank must be there, `-` lines go, `+` lines come.
A file that is not there yet is all of `+` lines. `check.py` lies beside the sources and is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from fences import ROOT, Fence, fences

CONTRIBUTING = ROOT / "docs" / "contributing"
CHECK = "check.py"


def changes(page: str) -> list[Fence]:
    """The changes that a page makes, in order."""
    return [fence for fence in fences(CONTRIBUTING / page) if fence.kind == "diff"]


def files_to_touch(page: str) -> list[str]:
    """The files that exist and that the worked example changes."""
    return sorted({fence.rest for fence in changes(page) if (ROOT / fence.rest).exists()})


def apply(page: str, copy: Path) -> None:
    """Apply a page's changes to a copy of the sources."""
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for fence in changes(page):
        lines = fence.text.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        target = copy / fence.rest
        found = target.read_text(encoding="utf-8") if target.exists() else ""
        assert found.count(before) == 1 if before else not found, (page, fence.line)
        target.write_text(found.replace(before, after) if before else after, encoding="utf-8")


def run(copy: Path) -> subprocess.CompletedProcess[str]:
    """Run what the page checks, with the copy's sources."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    return subprocess.run(
        [sys.executable, CHECK], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
