"""Two organisations' files as a user would write them, and the command line run on them."""

import contextlib
import io
import json
import shlex
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from colonnade.cli.app import run
from colonnade.ledger import Ledger

# So many that at ε = 1 a class could only drown in the noise by eleven standard deviations.
ROWS = 400
PROJECT = Path(__file__).with_name("project")
JOB, PARTY = ((PROJECT / name).read_text() for name in ("job.toml", "party.toml"))


@dataclass(frozen=True)
class Project:
    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / name

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.path(name).read_text()
        assert old in text, f"{old!r} is not in {name}"
        self.path(name).write_text(text.replace(old, new))

    def row(self, name: str, number: int, line: str) -> None:
        lines = self.path(name).read_text().splitlines()
        lines[number] = line
        self.path(name).write_text("\n".join(lines) + "\n")

    def files(self) -> set[str]:
        """Everything in the folder but ledgers, which a refused run may have opened."""
        return {
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if ".ledger" not in path.name
        }

    def charges(self, party: str) -> int:
        """How many releases the party's ledger holds; the chain is checked."""
        path = self.path(f"{party}.ledger")
        if not path.exists() or not path.stat().st_size:
            return 0
        ledger = Ledger.open(path)
        ledger.verify()
        return sum(entry.kind == "charge" for entry in ledger.entries())


def write_project(folder: Path, rows: int = ROWS) -> Project:
    rng = np.random.default_rng(5)
    age, claims = rng.integers(18, 90, rows), rng.integers(0, 10, rows)
    job = np.array(["clerk", "farmer", "nurse"])[rng.integers(0, 3, rows)]
    smoker = np.array(["no", "yes"])[rng.integers(0, 2, rows)]
    risk = np.array(["low", "high"])[(age / 90 + claims / 9 + rng.normal(0, 0.2, rows) > 1).astype(int)]
    bank = ["customer,age,job,risk"] + [f"C{i},{age[i]},{job[i]},{risk[i]}" for i in range(rows)]
    insurer = ["customer,claims,smoker"] + [f"C{i},{claims[i]},{smoker[i]}" for i in range(rows)]
    for party, lines in (("bank", bank), ("insurer", insurer)):
        (folder / f"{party}.csv").write_text("\n".join(lines) + "\n")
        (folder / f"{party}.toml").write_text(PARTY.format(party=party))
        shutil.copyfile(PROJECT / f"{party}.schema.toml", folder / f"{party}.schema.toml")
    (folder / "job.toml").write_text(JOB)
    return Project(folder)


def train(project: Project, *options: str) -> int:
    return run(["train", str(project.path("job.toml")), *options])


class Killed(BaseException):
    """As a kill: nothing that follows is run, but for what the operating system does."""


def train_until_killed(project: Project, output: str) -> None:
    def kill(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        patched.setattr("colonnade.federation.train.train_on", kill)
        train(project, "--output", output)


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


def printed_by(act: Callable[[], object]) -> Said:
    """What is printed in this process meanwhile, with the exit code if it has one."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = act()
    return Said(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


def invoked(words: Iterable[str]) -> Said:
    return printed_by(lambda: run(list(words)))


@dataclass(frozen=True)
class Cli:
    """The command line: what a verb prints, and that it ends with the code that is expected.

    A command is one text, as people type it, or its words.
    """

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str, code: int = 0) -> str:
        return "".join(self._printed(words, code))

    def facts(self, *words: str, code: int = 0) -> dict[str, Any]:
        return one_object(self._printed((*words, "--json"), code)[0])

    def _printed(self, words: tuple[str, ...], code: int) -> tuple[str, str]:
        self.capsys.readouterr()
        first, rest = words[:1], words[1:]
        ended = run([*(shlex.split(first[0]) if first and " " in first[0] else first), *rest])
        printed = self.capsys.readouterr()
        assert ended == code, f"{' '.join(words)}: {printed.out}{printed.err}"
        return printed.out, printed.err


def one_object(text: str) -> dict[str, Any]:
    """The one JSON object that a text is, as a strict reader sees it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(text, parse_constant=refuse)
    assert isinstance(found, dict)
    return found
