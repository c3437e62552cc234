"""Good files that cases spoil a copy of: each stage is made once, by the verbs that make such files."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from colonnade.cli.app import run

ROWS = 400
JOB = """name = "Default risk"
task = "classification"
method = "moments"
parties = ["bank", "insurer"]
active = "bank"
epsilon = 1.0
delta = 1e-5
"""
BANK_SCHEMA = """id = "customer"

[columns.age]
kind = "numeric"
low = 18
high = 90

[columns.job]
kind = "categorical"
categories = ["clerk", "farmer", "nurse"]

[label]
column = "risk"
kind = "classes"
classes = ["low", "high"]
"""
INSURER_SCHEMA = """id = "customer"

[columns.claims]
kind = "numeric"
low = 0
high = 9

[columns.smoker]
kind = "binary"
values = ["no", "yes"]
"""
PARTY = """party = "{party}"
data = "{party}.csv"
schema = "{party}.schema.toml"
dataset = "customers"
ledger = "{party}.ledger"
patience = 0.2

[[budget]]
epsilon = 4.0
delta = 1e-5
"""
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
        """A copy of a stage, for a case to spoil."""
        made = self._folder / name
        if not made.exists():
            made.mkdir()
            STAGES[name](made)
        shutil.copytree(made, to, dirs_exist_ok=True, symlinks=True)


def project(folder: Path) -> None:
    """A job and two parties' files; nothing has run."""
    rng = np.random.default_rng(5)
    age, claims = rng.integers(18, 90, ROWS), rng.integers(0, 10, ROWS)
    job = np.array(["clerk", "farmer", "nurse"])[rng.integers(0, 3, ROWS)]
    smoker = np.array(["no", "yes"])[rng.integers(0, 2, ROWS)]
    risk = np.array(["low", "high"])[(age / 90 + claims / 9 + rng.normal(0, 0.2, ROWS) > 1).astype(int)]
    bank = ["customer,age,job,risk"] + [f"C{i},{age[i]},{job[i]},{risk[i]}" for i in range(ROWS)]
    insurer = ["customer,claims,smoker"] + [f"C{i},{claims[i]},{smoker[i]}" for i in range(ROWS)]
    both = ["customer,age,job,claims,smoker"] + [
        f"N{i},{age[i]},{job[i]},{claims[i]},{smoker[i]}" for i in range(20)
    ]
    texts = {
        "job.toml": JOB,
        "bank.toml": PARTY.format(party="bank"),
        "insurer.toml": PARTY.format(party="insurer"),
        "bank.schema.toml": BANK_SCHEMA,
        "insurer.schema.toml": INSURER_SCHEMA,
        "policy.toml": POLICY,
        "bank.csv": "\n".join(bank) + "\n",
        "insurer.csv": "\n".join(insurer) + "\n",
        "new.csv": "\n".join(both) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


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
    """A verb that must end well."""
    before, said = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run(line.split())
    finally:
        os.chdir(before)
    if code != 0:
        raise ValueError(f"{line}: {said.getvalue()}")
