"""How a page is written so that what it shows is run, and its output compared.

A page is performed from top to bottom in an empty folder. Its fences say what they are:

- `python`: run, in one namespace for the page. The name `federation` is there (a shop and a club with 3,000 people).
- `python` and a path: an excerpt of that file; `...` on a line of its own stands for lines left out.
- `toml`, `csv` or `json` and a name: that file is written. A `toml` fence without a name whose first line is
  `# name.toml` is that file too; any other one must at least parse.
- `sh`: every line is a command that is run: `colonnade …`, `python path/of/a/script.py …` from the top of the
  repository, `mkdir -p`, `cd`. What follows ` #` is a remark. `sh exits 3` says which exit code its last command has.
- `text output`: what the `python` or `sh` fence before it printed (for `sh exits …` also what it said on the other
  stream). `…` stands for anything on its line, on a line of its own for any lines.
- `text` and another word, or nothing: a picture or a file to look at. Commands do not belong there.
- `console`: commands that are shown and not run. `tests/docs/commands.toml` has their number, with the reason.

A command that cannot be run in a test, because it needs another machine, runs for hours or is what runs the tests, is
under `not_run` there; one that would take long is run as `run_as` says. A page whose commands need files that it does
not write has a stage in tests/docs/stages.py.
"""

import contextlib
import os
import re
import runpy
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

from cli_project import Said, invoked, printed_by

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "site"))

from generated import whole

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<kind>\w*) ?(?P<rest>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN = ("toml", "csv", "json")


@dataclass(frozen=True)
class Fence:
    """One fence of a page: its language, what follows that, its lines, and where they begin."""

    kind: str
    rest: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        if self.kind not in WRITTEN:
            return None
        first = re.match(r"# ([\w.-]+\.toml)\n", self.text)
        return self.rest or (first[1] if first else None)

    @property
    def commands(self) -> list[str]:
        lines = (re.split(r"(?:^|\s)#", line)[0].strip() for line in self.text.splitlines())
        return [line for line in lines if line]


def text_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    docs = ROOT / "docs"
    return whole(page.relative_to(docs).as_posix(), text) if page.is_relative_to(docs) else text


def fences(page: Path) -> list[Fence]:
    text = text_of(page)
    return [
        Fence(found["kind"], found["rest"].strip(), found["text"], text[: found.start()].count("\n") + 2)
        for found in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    return FENCE.sub("", text_of(page))


def says(printed: str, shown: str) -> bool:
    """Whether a text is what a page shows; an ellipsis on a line of its own stands for any lines, or none."""
    whole = re.escape(shown.strip("\n"))
    whole = re.sub(r"(?:^|(?<=\n))…(?:\\\n|$)", lambda _: "(?:.*\n)*?", whole)
    whole = whole.replace("…", ".*")
    return re.fullmatch(f"{whole}\n*", printed) is not None


def perform(command: str) -> Said:
    program, *words = shlex.split(command)
    if program == "python":
        return script(ROOT / words[0], *words[1:])
    if program == "colonnade":
        few = [*DEMONSTRATION, "--output"]
        return demonstration(*words[4:]) if words in (DEMONSTRATION, [*few, *words[4:]]) else invoked(words)
    if program == "cd":
        os.chdir(words[0])
    elif program == "mkdir":
        Path(words[-1]).mkdir(parents=True, exist_ok="-p" in words)
    else:
        raise ValueError(f"{command}: pages run colonnade, python, cd and mkdir; see tests/docs/fences.py")
    return Said(0, "", "")


def script(path: Path, *words: str) -> Said:
    """Run a script in this process, as Python runs it by its name."""
    with patch.object(sys, "argv", [str(path), *words]):
        return printed_by(lambda: runpy.run_path(str(path), run_name="__main__"))


DEMONSTRATION = ["demo", "--people", "few"]


def demonstration(folder: str = "demo-run") -> Said:
    """What many pages begin with: it is run once, and each has a copy of its files."""
    place, said = _demonstrated()
    shutil.copytree(Path(place.name) / "demo-run", folder)
    return said._replace(out=said.out.replace("demo-run", folder))


@cache
def _demonstrated() -> tuple[tempfile.TemporaryDirectory[str], Said]:
    place = tempfile.TemporaryDirectory()
    with contextlib.chdir(place.name):
        return place, invoked(DEMONSTRATION)
