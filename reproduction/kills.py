"""`colonnade train` killed at random instants: every ledger verifies, none under-counts, every paid release is found.

    python -m reproduction.kills --kills 1000 --folder build/kills

Each kill is of a fresh process in a fresh project, with SIGKILL, at an instant drawn over what a whole run takes. Then
every law is held against what is on the disk. `progress.json` in the folder has how far it came; the same command goes
on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.ledger import Ledger

ROWS = 400
# A run of moments is one release; one of messages stays in parts with its parties.
METHODS = ("moments", "intermediate", "functional")
COMMAND = (sys.executable, "-c", "from colonnade.cli import main; main()")
RUN = Path("runs/first")
TRAIN = (*COMMAND, "train", "job.toml", "--output", str(RUN))
GLANCE_SECONDS = 0.002
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


def write_project(folder: Path, method: str) -> None:
    """A job and two parties' files, as a user would write them."""
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
    shutil.rmtree(folder, ignore_errors=True)
    write_project(folder, method)
    process = subprocess.Popen(
        [*TRAIN],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Where there is something to lose: a draft is there shortly before the ledgers are charged.
    while from_draft and process.poll() is None and not any((folder / RUN.parent).glob(".*")):
        time.sleep(GLANCE_SECONDS)
    try:
        process.wait(instant)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = process.returncode == 0
    return Ending(method, instant, hold_laws(folder, ended=ended))


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
    if not opened:
        again(folder)
        return "charged" if any(charges.values()) else "nothing"
    if (whole / "facts.json").is_file() and not (whole / "paid.json").exists():
        return "whole"
    listed = {Path(line["run"]).name: line["state"] for line in asked(folder, "runs", "runs")["runs"]}
    if listed.get(RUN.name) not in ("unfinished", "failed"):
        raise Broken(f"{opened[0]} holds a release, and `runs` lists {listed}")
    if not (opened[0] / "paid.json").exists():
        # Between the release and the note beside it: the release is there, is listed, and is read as it is.
        check_release(opened[0])
        return "release"
    facts = asked(folder, "recover", str(RUN))
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
    from colonnade.learn.release import MomentRelease

    if (folder / "release.npz").is_file():
        MomentRelease.load(folder / "release.npz")


def again(folder: Path) -> None:
    """A kill that left nothing keeps nobody from running the same job again into the same folder."""
    if leftover := [path.name for path in folder.glob("*.ledger") if not path.stat().st_size]:
        raise Broken(f"empty ledgers were left: {leftover}")


def asked(folder: Path, *words: str) -> dict[str, Any]:
    """What a verb answers, which must end well."""
    ended = subprocess.run(
        [*COMMAND, *words, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise Broken(f"colonnade {' '.join(words)}: {ended.stdout}{ended.stderr}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def seconds_of(folder: Path, method: str) -> tuple[float, float]:
    """How long a whole run takes here, from its start to its draft and from there to its end."""
    for _ in range(2):
        # The first one has the disk to warm up.
        shutil.rmtree(folder, ignore_errors=True)
        write_project(folder, method)
        began = time.perf_counter()
        process = subprocess.Popen([*TRAIN], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not any((folder / RUN.parent).glob(".*")):
            time.sleep(GLANCE_SECONDS)
        drafted = time.perf_counter()
        process.wait()
        ended = time.perf_counter()
    return drafted - began, ended - drafted


def study(folder: Path, kills: int, *, seed: int = 1) -> dict[str, Any]:
    """Kill so many times, going on from what was done before, and return what was found."""
    folder.mkdir(parents=True, exist_ok=True)
    noted = folder / "progress.json"
    known: dict[str, Any] = json.loads(noted.read_text()) if noted.exists() else {"kills": 0, "found": {}}
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
        noted.write_text(json.dumps(known), encoding="utf-8")
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
