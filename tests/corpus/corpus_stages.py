"""Good files that cases spoil a copy of: each stage is made once, by the verbs that make such files."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from cli_project import invoked, write_project

POLICY = """methods = ["moments"]
parties = ["insurer"]
delta = 1e-5

[epsilon]
"*" = 2.0
"""


class Stages:
    """Folders of good files by name, each made when the first case asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def copy(self, name: str, to: Path) -> None:
        made = self._folder / name
        if not made.exists():
            made.mkdir()
            STAGES[name](made)
        shutil.copytree(made, to, dirs_exist_ok=True, symlinks=True)


def project(folder: Path) -> None:
    write_project(folder)
    people = [
        f"N{i},{20 + 3 * i},{('clerk', 'farmer', 'nurse')[i % 3]},{i % 10},{('no', 'yes')[i % 2]}"
        for i in range(20)
    ]
    (folder / "policy.toml").write_text(POLICY)
    (folder / "new.csv").write_text("\n".join(["customer,age,job,claims,smoker", *people]) + "\n")


def public(folder: Path) -> None:
    """The same, all of it declared public."""
    project(folder)
    for party in ("bank", "insurer"):
        path = folder / f"{party}.toml"
        path.write_text(path.read_text().replace("patience", "public = true\npatience"))


def trained(folder: Path) -> None:
    """The same after a run, with ledgers that hold its charge and each other's receipts, and an export of one."""
    project(folder)
    _well(folder, "train job.toml --output out")
    _well(folder, "ledger bank.toml --export bank.json --key officer.key")


def split(folder: Path) -> None:
    """The same after a run whose model stays in parts with the parties."""
    project(folder)
    path = folder / "job.toml"
    path.write_text(path.read_text().replace('"moments"', '"intermediate"'))
    _well(folder, "train job.toml --output out")


def federation(folder: Path) -> None:
    """A federation with all kits in one place, beside a job and two parties' files."""
    project(folder)
    _well(folder, "federation new ours --party bank --party insurer --port 18002")


STAGES: dict[str, Callable[[Path], None]] = {
    stage.__name__: stage for stage in (project, public, trained, split, federation)
}


def _well(folder: Path, line: str) -> None:
    with contextlib.chdir(folder):
        said = invoked(line.split())
    if said.code != 0:
        raise ValueError(f"{line}: {said.all}")
