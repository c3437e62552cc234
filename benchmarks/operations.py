"""What a federation does when things go wrong: real processes, real kits and mutual TLS, on this machine's loopback.

    python benchmarks/operations.py --json

One federation of two parties, of which one calls its server through a proxy. Prints one JSON object on its last line:

* ``idle_connections_held``: connections without a certificate that stay open while everything below runs, and half as
  many more that stop in a handshake or talk nonsense;
* ``failed_jobs``: jobs that were to end well and did not;
* ``job_overhead_over_protocol_s``: from submitting a job to its end, less the seconds of its steps;
* ``partition_noticed_s``: from the moment that nothing passes between a party and its server, to the other party's
  outcome that names it;
* ``duplicate_kit_noticed_s``: from the start of a second process with a party's kit until both are told;
* ``faults_tried``, ``faults_right_or_named``: faults in the middle of a job of many steps, and those after which every
  member that did not finish names another one and the step, and the job, resumed, ends well;
* ``double_charges``: charges above one for each of these jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracles"))

from live_federation import Live
from proxies import Proxy, proxied
from two_houses import MEMBERS, PARTIES, job_text, split

from colonnade.runtime.presence import Presence

IDLE = 200
LONG = split(600)
FAULTS = ("partition", "a party's job is killed", "the server's job is killed", "the connection is cut")
ENDED = "FINISHED:COMPLETED"


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
    subprocess.run(command, capture_output=True, check=False, timeout=600)

    def told() -> bool:
        first, second = Presence.load(bank.path), Presence.load(folder)
        return bool(first and first.others and second and second.refused)

    running.until(told)
    return time.monotonic() - began


def fault(running: Live, proxy: Proxy, name: str) -> tuple[bool, int, float]:
    """Let one thing go wrong in the middle of a job: whether all was right or named, charges too many, seconds."""
    before = {party: running.charges(party) for party in PARTIES}
    job_id = running.submit(job_text(LONG))
    running.at_step("bank", job_id, "scores 20")
    began = time.monotonic()
    deeds: dict[str, Callable[[], object]] = {
        "partition": proxy.dark.set,
        "a party's job is killed": lambda: os.kill(running.job_process("shop", job_id), signal.SIGKILL),
        "the server's job is killed": lambda: os.kill(running.job_process("server", job_id), signal.SIGKILL),
        "the connection is cut": proxy.cut,
    }
    deeds[name]()
    running.until(lambda: running.outcome("bank", job_id) is not None)
    noticed = time.monotonic() - began
    proxy.dark.clear()
    right = True
    ended = running.wait(job_id)
    for member in MEMBERS:
        outcome = running.outcome(member, job_id)
        if outcome is not None and outcome["state"] != "finished":
            others = [other for other in MEMBERS if other != member]
            right &= any(other in outcome["reason"] for other in others) and "step '" in outcome["reason"]
    for _ in range(3):
        if ended == ENDED:
            break
        with suppress(AssertionError):
            running.until(lambda: set(running.session.parties()) >= set(PARTIES), timeout=120)
        ended = running.wait(running.submit(job_text(LONG), resumes=job_id))
    charged = [running.charges(party) - before[party] for party in PARTIES]
    right &= ended == ENDED and min(charged) == 1
    return right, sum(max(0, count - 1) for count in charged), noticed


def measure() -> dict[str, object]:
    """All figures, in one federation."""
    with (
        tempfile.TemporaryDirectory() as folder,
        proxied(Path(folder), seeded=False, idle=IDLE) as (running, proxy),
    ):
        print("the federation runs", file=sys.stderr, flush=True)
        outside, well = overhead(running)
        figures: dict[str, object] = {
            "idle_connections_held": IDLE,
            "job_overhead_over_protocol_s": round(outside, 1),
        }
        print(figures, file=sys.stderr, flush=True)
        figures["duplicate_kit_noticed_s"] = round(duplicate(running), 1)
        failed, right, doubled = int(not well), 0, 0
        for name in FAULTS:
            fine, twice, noticed = fault(running, proxy, name)
            right, doubled = right + fine, doubled + twice
            if name == "partition":
                figures["partition_noticed_s"] = round(noticed, 1)
            said = "right or named" if fine else "NOT NAMED"
            print(f"{name}: {said}, {noticed:.1f} s", file=sys.stderr, flush=True)
        _, well = overhead(running)
        return {
            **figures,
            "failed_jobs": failed + int(not well),
            "faults_tried": len(FAULTS),
            "faults_right_or_named": right,
            "double_charges": doubled,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args()
    figures = measure()
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<32} {value}")


if __name__ == "__main__":
    main()
