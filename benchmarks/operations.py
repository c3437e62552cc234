"""What a federation does when things go wrong: real processes, real kits and mutual TLS, on this machine's loopback.

    python benchmarks/operations.py --json

One federation of two parties, of which one calls its server through a proxy, and one of ten. Prints one JSON object on
its last line:

* ``idle_connections_held``: connections without a certificate that stay open while everything below runs, and half as
  many more that stop in a handshake or talk nonsense;
* ``failed_jobs``: jobs that were to end well and did not;
* ``job_overhead_over_protocol_s``: from submitting a job to its end, less the seconds of its steps, where every member
  has the spare process that it has between jobs; ``job_overhead_back_to_back_s``: where another job has just ended;
* ``partition_noticed_s``: from the moment that nothing passes between a party and its server, to the other party's
  outcome that names it;
* ``duplicate_kit_noticed_s``: from the start of a second process with a party's kit until both are told;
* ``faults_tried``, ``faults_right_or_named``: faults in the middle of a job of many steps, and those after which the
  job ended well or every member that did not finish names another one and the step, and the job, resumed, ends well;
* ``double_charges``: charges above one for each of these jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracles"))

from live_federation import Live, federation_of
from proxies import Proxy, proxied
from ten_parties import TEN, ten_text, write_one_of_ten
from two_houses import MEMBERS, PARTIES, job_text, split

from colonnade.errors import ColonnadeError
from colonnade.sites.presence import Presence
from colonnade.sites.processes import kit_processes

IDLE = 200
LONG = split(600)
ENDED = "FINISHED:COMPLETED"
DOWN_SECONDS = 20.0
MEGABIT = 1e6 / 8
SERVER_RESTARTED = "the server is killed and starts again"
THREE_JOBS, TEN_PARTIES = "three jobs for one budget", "ten parties"
# A wait that takes longer is a fault that nobody named, and the whole is ended after so long, whatever it waits for.
ROW_SECONDS, WHOLE_SECONDS = 300.0, 5400
# What a job of ε = 1 costs whoever learns most from it fits into this once.
SCARCE = 1.6


def overhead(running: Live) -> tuple[float, bool]:
    """Seconds of a short job outside its steps, and whether it ended well."""
    began = time.monotonic()
    job_id = running.submit(job_text())
    well = running.wait(job_id) == ENDED
    whole = time.monotonic() - began
    lines = (running.kits["bank"].run_folder(job_id) / "log.jsonl").read_text().splitlines()
    return whole - sum(json.loads(line)["seconds"] for line in lines), well


def duplicate(running: Live) -> float:
    """Seconds from the start of a second process with the bank's kit until it and the first are told."""
    bank, folder = running.kits["bank"], running.folder / "copy"
    keep = shutil.ignore_patterns("console*", "runs", "presence.json", "*.fl", "*-*-*-*-*")
    shutil.copytree(bank.path, folder, ignore=keep)
    began = time.monotonic()
    command = [sys.executable, "-c", "from colonnade.cli import main; main()", "party", "start", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if "is connected already" not in done.stderr:
        raise AssertionError(f"the second was not told: {done.stderr}")
    running.until(lambda: bool((first := Presence.load(bank.path)) and first.others))
    return time.monotonic() - began


def kill_whole(running: Live, member: str) -> None:
    """End everything of a member at once, and start it again."""
    for process in kit_processes(running.kits[member]):
        with suppress(Exception):
            process.kill()
    running.until(lambda: not kit_processes(running.kits[member]))
    running.start(member)


def deeds(running: Live, proxy: Proxy, job_id: str) -> dict[str, Callable[[], object]]:
    """What goes wrong, by the name of its row."""

    def kill(member: str) -> None:
        os.kill(running.job_process(member, job_id), signal.SIGKILL)

    def link_down() -> None:
        proxy.dark.set()
        time.sleep(DOWN_SECONDS)
        proxy.dark.clear()

    def full_disk() -> None:
        # No file of this process may grow: what it writes fails, as on a disk that is full.
        job = running.job_process("shop", job_id)
        resource.prlimit(job, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    return {
        "100 ms": lambda: setattr(proxy, "pause", 0.1),
        "2 % loss": lambda: setattr(proxy, "lost_percent", 2),
        "20 Mbit/s": lambda: setattr(proxy, "rate", 20 * MEGABIT),
        "the link is down for 20 s": link_down,
        "partition": proxy.dark.set,
        "the connection is cut": proxy.cut,
        "the bank's job is killed": lambda: kill("bank"),
        "the shop's job is killed": lambda: kill("shop"),
        "the server's job is killed": lambda: kill("server"),
        "the shop's disk is full": full_disk,
        SERVER_RESTARTED: lambda: kill_whole(running, "server"),
    }


def named(running: Live, job_id: str) -> bool:
    """Whether every member that did not finish a job names another one and the step."""
    right = True
    for member in MEMBERS:
        outcome = running.outcome(member, job_id)
        if outcome is not None and outcome["state"] != "finished":
            others = [other for other in MEMBERS if other != member]
            right &= any(other in outcome["reason"] for other in others) and "step '" in outcome["reason"]
    return right


def fault(running: Live, proxy: Proxy, name: str, stack: ExitStack) -> tuple[bool, int, float]:
    """Let one thing go wrong in the middle of a job: whether all was right or named, charges too many, seconds."""
    before = {party: running.charges(party) for party in PARTIES}
    job_id = running.submit(job_text(LONG))
    running.at_step("bank", job_id, "scores 20", timeout=ROW_SECONDS)
    began = time.monotonic()
    deeds(running, proxy, job_id)[name]()
    if name == SERVER_RESTARTED:
        stack.enter_context(running.session_again())
    other = "shop" if name == "the bank's job is killed" else "bank"
    running.until(lambda: running.has_ended(other, job_id), timeout=ROW_SECONDS)
    noticed = time.monotonic() - began
    proxy.heal()
    ended = running.wait(job_id, timeout=ROW_SECONDS)
    right = named(running, job_id)
    for _ in range(3):
        if ended == ENDED:
            break
        with suppress(AssertionError):
            running.until(lambda: set(running.session.parties()) >= set(PARTIES), timeout=120)
        ended = running.wait(running.submit(job_text(LONG), resumes=job_id), timeout=ROW_SECONDS)
    charged = [running.charges(party) - before[party] for party in PARTIES]
    right &= ended == ENDED and min(charged) == 1
    return right, sum(max(0, count - 1) for count in charged), noticed


def three_for_one_budget(running: Live) -> tuple[bool, int, float]:
    """Three jobs at once, of which a party can pay one: whether one was paid, and each refusal says so."""
    began = time.monotonic()
    for party in PARTIES:
        path = running.folder / f"{party}.toml"
        text = path.read_text().replace('dataset = "d"', 'dataset = "scarce"')
        path.write_text(text.replace("epsilon = 500.0", f"epsilon = {SCARCE}"))
    before = {party: running.charges(party) for party in PARTIES}
    jobs = [running.submit(job_text()) for _ in range(3)]
    ends = [running.wait(job, timeout=2 * ROW_SECONDS) for job in jobs]
    right = ends.count(ENDED) <= 1
    for job, end in zip(jobs, ends, strict=True):
        announced = [running.outcome(party, job) for party in PARTIES]
        if end != ENDED:
            right &= any(outcome is not None and "left" in outcome.get("reason", "") for outcome in announced)
    charged = [running.charges(party) - before[party] for party in PARTIES]
    twice = sum(max(0, count - 1) for count in charged)
    return right and max(charged) == 1, twice, time.monotonic() - began


def ten_parties(folder: Path) -> tuple[bool, int, float]:
    """A job of ten parties: whether it ended well, charges too many, and seconds."""
    began = time.monotonic()
    sites = {party: write_one_of_ten(folder, party) for party in TEN}
    with federation_of(folder, {**sites, "server": {}}) as running:
        well = running.wait(running.submit(ten_text()), timeout=2 * ROW_SECONDS) == ENDED
        charged = [running.charges(party) for party in TEN]
    twice = sum(count - 1 for count in charged if count > 1)
    return well and min(charged) == 1, twice, time.monotonic() - began


@dataclass
class Tally:
    """What was found, row by row."""

    found: list[bool] = field(default_factory=list)
    doubled: int = 0

    def add(self, name: str, row: Callable[[], tuple[bool, int, float]]) -> float:
        """Try one row, and say how it went; a wait that never ends is a row that went wrong. Returns its seconds."""
        try:
            fine, twice, seconds = row()
        except (AssertionError, ColonnadeError) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            fine, twice, seconds = False, 0, ROW_SECONDS
        self.found.append(fine)
        self.doubled += twice
        said = "right or named" if fine else "NOT NAMED"
        print(f"{name}: {said}, {seconds:.1f} s", file=sys.stderr, flush=True)
        return seconds


def measure(only: str = "") -> dict[str, object]:
    """All figures; with `only`, of rows whose name has that in it."""
    figures: dict[str, object] = {"idle_connections_held": IDLE}
    tally, wells = Tally(), []
    with (
        tempfile.TemporaryDirectory() as folder,
        proxied(Path(folder), seeded=False, idle=IDLE) as (running, proxy),
        ExitStack() as stack,
    ):
        print("the federation runs", file=sys.stderr, flush=True)
        if not only:
            running.until(lambda: all(running.has_spare(member) for member in MEMBERS))
            for figure in ("job_overhead_over_protocol_s", "job_overhead_back_to_back_s"):
                seconds, well = overhead(running)
                wells.append(well)
                figures[figure] = round(seconds, 1)
            print(figures, file=sys.stderr, flush=True)
            figures["duplicate_kit_noticed_s"] = round(duplicate(running), 1)
        for name in deeds(running, proxy, ""):
            if only in name:
                noticed = tally.add(name, partial(fault, running, proxy, name, stack))
                if name == "partition":
                    figures["partition_noticed_s"] = round(noticed, 1)
        wells.append(overhead(running)[1])
        if only in THREE_JOBS:
            tally.add(THREE_JOBS, partial(three_for_one_budget, running))
    if only in TEN_PARTIES:
        with tempfile.TemporaryDirectory() as folder:
            tally.add(TEN_PARTIES, partial(ten_parties, Path(folder)))
    return {
        **figures,
        "failed_jobs": sum(not well for well in wells),
        "faults_tried": len(tally.found),
        "faults_right_or_named": sum(tally.found),
        "double_charges": tally.doubled,
    }


def _too_long(_number: int, _frame: object) -> None:
    raise TimeoutError(f"it was not done after {WHOLE_SECONDS} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="try only the faults with this in their name"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(WHOLE_SECONDS)
    figures = measure(options.only)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<32} {value}")


if __name__ == "__main__":
    main()
