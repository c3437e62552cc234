"""`colonnade train` killed at random instants: ledgers verify, none under-counts, charges and paid releases are found.

    python -m reproduction.kills --kills 1000 --folder build/kills

Each kill is of a fresh process in a fresh project, with SIGKILL, at an instant drawn over what a whole run takes. The
process is forked from this one, which has trained before: what is killed is the run, not the loading of the program.
Then every law is held against what is on the disk. `progress.json` in the folder has how far it came; the same command
goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from colonnade.cli.app import run
from colonnade.ledger import Ledger

ROWS = 400
# A run of moments is one release; one of messages stays in parts with its parties.
METHODS = ("moments", "private-messages", "functional")
RUN = Path("runs/first")
TRAIN = ("train", "job.toml", "--output", str(RUN))
GLANCE_SECONDS = 0.001
JOB = """name = "Default risk"
task = "classification"
method = "{method}"
parties = ["bank", "insurer"]
active = "bank"
epsilon = 1.0
delta = 1e-5
"""
PARTY = """party = "{party}"
data = "{party}.csv"
schema = "{party}.schema.toml"
dataset = "customers"
ledger = "{party}.ledger"

[[budget]]
epsilon = 40.0
delta = 1e-5
"""
SCHEMAS = {
    "bank": """id = "customer"

[columns.age]
kind = "numeric"
low = 18
high = 90

[label]
column = "risk"
kind = "classes"
classes = ["low", "high"]
""",
    "insurer": """id = "customer"

[columns.claims]
kind = "numeric"
low = 0
high = 9
""",
}


class Broken(Exception):
    """A law that a kill broke."""


@dataclass(frozen=True)
class Ending:
    """What one kill left: how far the run had come, in a word."""

    method: str
    instant: float
    found: str


def fresh_project(folder: Path, method: str) -> None:
    """A job and two parties' files, as a user would write them, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(5)
    age, claims = rng.integers(18, 90, ROWS), rng.integers(0, 10, ROWS)
    risk = np.where(age / 90 + claims / 9 > 1, "high", "low")
    columns = {
        "bank": ("age,risk", zip(age, risk, strict=True)),
        "insurer": ("claims", zip(claims, strict=True)),
    }
    (folder / "job.toml").write_text(JOB.format(method=method), encoding="utf-8")
    for party, (header, rows) in columns.items():
        lines = [f"customer,{header}", *(f"C{i},{','.join(map(str, row))}" for i, row in enumerate(rows))]
        (folder / f"{party}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / f"{party}.schema.toml").write_text(SCHEMAS[party], encoding="utf-8")
        (folder / f"{party}.toml").write_text(PARTY.format(party=party), encoding="utf-8")


def kill_once(folder: Path, method: str, instant: float, *, from_draft: bool) -> Ending:
    """Start a run, kill it so many seconds after its start or its draft, and hold the laws against what it left."""
    fresh_project(folder, method)
    process = Forked(folder, TRAIN)
    if from_draft:
        # Where there is something to lose: a draft is there shortly before the ledgers are charged.
        process.wait_for(lambda: any((folder / RUN.parent).glob(".*")))
    until = time.perf_counter() + instant
    process.wait_for(lambda: time.perf_counter() > until)
    if process.code is None:
        process.kill()
    return Ending(method, instant, hold_laws(folder, ended=process.code == 0))


class Forked:
    """A verb in a process of its own, with its own group, that began with this program loaded."""

    def __init__(self, folder: Path, words: tuple[str, ...], said: Path = Path(os.devnull)) -> None:
        self.code: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            _be_the_verb(folder, words, said)

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Until it is so, or the process ended."""
        while self.code is None and not ready():
            time.sleep(GLANCE_SECONDS)
            self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Until the process ended: its exit code, or minus the signal that ended it."""
        while self.code is None:
            self._reap(0)
        return self.code

    def kill(self) -> None:
        """End it at once."""
        os.kill(self._pid, signal.SIGKILL)
        self.wait()

    def _reap(self, options: int) -> None:
        pid, status = os.waitpid(self._pid, options)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)


def _be_the_verb(folder: Path, words: tuple[str, ...], said: Path) -> NoReturn:
    code = 1
    try:
        os.setsid()
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(folder)
        code = run(list(words))
        sys.stdout.flush()
    finally:
        os._exit(code)


def hold_laws(folder: Path, *, ended: bool) -> str:
    """What the run had reached; raises `Broken` where a law does not hold."""
    charges = {party: charges_of(folder / f"{party}.ledger") for party in SCHEMAS}
    draft, whole = folder / RUN.with_name(f".{RUN.name}.draft"), folder / RUN
    opened = [place for place in (draft, whole) if holds_release(place)]
    # What was opened had been charged before by everybody: a ledger that does not have it under-counts.
    if opened and not all(charges.values()):
        raise Broken(f"{opened[0]} holds a release that {charges} does not count")
    if ended and not (whole / "facts.json").is_file():
        raise Broken(f"the run ended well, and {whole} is not whole")
    listed = {}
    if (folder / RUN.parent).is_dir():
        listed = {Path(line["run"]).name: line["state"] for line in requested(folder, "runs", "runs")["runs"]}
    if not opened:
        again(folder)
        if any(charges.values()) and listed.get(RUN.name) != "failed":
            raise Broken(f"{charges} were charged, and `runs` lists {listed}")
        return "charged" if any(charges.values()) else "nothing"
    if (whole / "facts.json").is_file() and not (whole / "paid.json").exists():
        return "whole"
    if listed.get(RUN.name) not in ("unfinished", "failed"):
        raise Broken(f"{opened[0]} holds a release, and `runs` lists {listed}")
    if not (opened[0] / "paid.json").exists():
        # Between the release and the note beside it: the release is there, is listed, and is read as it is.
        check_release(opened[0])
        return "release"
    facts = requested(folder, "recover", str(RUN))
    if not (whole / "facts.json").is_file() or facts["run"] is None:
        raise Broken(f"{opened[0]} was not recovered")
    if charges != {party: charges_of(folder / f"{party}.ledger") for party in SCHEMAS}:
        raise Broken("to recover a run changed a ledger")
    return "recovered"


def charges_of(path: Path) -> int:
    """How many charges a ledger holds; its chain is verified. A ledger that was not made holds none."""
    if not path.exists():
        return 0
    ledger = Ledger.open(path)
    ledger.verify()
    return sum(entry.kind == "charge" for entry in ledger.entries())


def holds_release(folder: Path) -> bool:
    """Whether something that was paid for is in a folder."""
    return (folder / "release.npz").is_file() or any(folder.glob("parties/*.model.json"))


def check_release(folder: Path) -> None:
    """Raise unless what is in a folder can be read."""
    from colonnade.models.release import MomentRelease

    if (folder / "release.npz").is_file():
        MomentRelease.load(folder / "release.npz")


def again(folder: Path) -> None:
    """A kill that left nothing keeps nobody from running the same job again into the same folder."""
    if leftover := [path.name for path in folder.glob("*.ledger") if not path.stat().st_size]:
        raise Broken(f"empty ledgers were left: {leftover}")


def requested(folder: Path, *words: str) -> dict[str, Any]:
    """What a verb answers, which must end well."""
    said = folder / "said.json"
    if Forked(folder, (*words, "--json"), said).wait():
        raise Broken(f"colonnade {' '.join(words)}: {said.read_text(encoding='utf-8')}")
    answer: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))
    return answer


def seconds_of(folder: Path, method: str) -> tuple[float, float]:
    """How long a whole run takes here, from its start to its draft and from there to its end."""
    fresh_project(folder, method)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        run(list(TRAIN))  # loads here all that a run needs, for what is forked
    fresh_project(folder, method)
    began = time.perf_counter()
    process = Forked(folder, TRAIN)
    process.wait_for(lambda: any((folder / RUN.parent).glob(".*")))
    drafted = time.perf_counter()
    process.wait()
    ended = time.perf_counter()
    return drafted - began, ended - drafted


def study(folder: Path, kills: int, *, seed: int = 1) -> dict[str, Any]:
    """Kill so many times, going on from what was done before, and return what was found."""
    folder.mkdir(parents=True, exist_ok=True)
    recorded = folder / "progress.json"
    known: dict[str, Any] = (
        json.loads(recorded.read_text()) if recorded.exists() else {"kills": 0, "found": {}}
    )
    seconds = {method: seconds_of(folder / "project", method) for method in METHODS}
    for number in range(known["kills"], kills):
        rng = random.Random(f"{seed}/{number}")
        method = METHODS[number % len(METHODS)]
        # Most of a run is spent on starting; of four kills three are later, where there is something to lose.
        late = bool(number % 4)
        before, after = seconds[method]
        instant = rng.uniform(0.0, after if late else before)
        ending = kill_once(folder / "project", method, instant, from_draft=late)
        known["found"][ending.found] = known["found"].get(ending.found, 0) + 1
        known["kills"] = number + 1
        recorded.write_text(json.dumps(known), encoding="utf-8")
        sys.stderr.write(f"{number + 1} of {kills} kills: {known['found']}\n")
    shutil.rmtree(folder / "project", ignore_errors=True)
    return known


def main() -> None:
    """Run the study and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000, help="how many")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/kills"), help="where projects and progress lie"
    )
    given = parser.parse_args()
    sys.stdout.write(json.dumps(study(given.folder, given.kills)) + "\n")


if __name__ == "__main__":
    main()
