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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracles"))

from live_federation import Live, federation_of
from proxies import Proxy, proxied
from ten_houses import TEN, ten_text, write_one_of_ten
from two_houses import MEMBERS, PARTIES, job_text, policy_text, split

from colonnade.runtime.presence import Presence
from colonnade.runtime.processes import family

IDLE = 200
LONG = split(600)
ENDED = "FINISHED:COMPLETED"
DOWN_SECONDS = 20.0
MEGABIT = 1e6 / 8
SERVER_RESTARTED = "the server is killed and starts again"
# Of jobs that cost this much one fits into what each party of the two has.
DEAR = 300.0


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
    for process in family(running.kits[member]):
        with suppress(Exception):
            process.kill()
    running.until(lambda: not family(running.kits[member]))
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
    running.at_step("bank", job_id, "scores 20")
    began = time.monotonic()
    deeds(running, proxy, job_id)[name]()
    if name == SERVER_RESTARTED:
        stack.enter_context(running.session_again())
    if name == "the bank's job is killed":
        running.until(lambda: running.outcome("shop", job_id) is not None)
    else:
        running.until(lambda: running.outcome("bank", job_id) is not None)
    noticed = time.monotonic() - began
    proxy.heal()
    ended = running.wait(job_id)
    right = named(running, job_id)
    for _ in range(3):
        if ended == ENDED:
            break
        with suppress(AssertionError):
            running.until(lambda: set(running.session.parties()) >= set(PARTIES), timeout=120)
        ended = running.wait(running.submit(job_text(LONG), resumes=job_id))
    charged = [running.charges(party) - before[party] for party in PARTIES]
    right &= ended == ENDED and min(charged) == 1
    return right, sum(max(0, count - 1) for count in charged), noticed


def three_for_one_budget(running: Live) -> tuple[bool, int]:
    """Three jobs at once, of which a party can pay one: whether none was overdrawn and each refusal says so."""
    for party in PARTIES:
        (running.folder / f"{party}.policy.toml").write_text(policy_text(party, epsilon=1e6))
    before = {party: running.charges(party) for party in PARTIES}
    jobs = [running.submit(job_text(epsilon=DEAR)) for _ in range(3)]
    ends = [running.wait(job) for job in jobs]
    right = ends.count(ENDED) <= 1
    for job, end in zip(jobs, ends, strict=True):
        told = [running.outcome(party, job) for party in PARTIES]
        if end != ENDED:
            right &= any(outcome is not None and "left" in outcome.get("reason", "") for outcome in told)
    charged = [running.charges(party) - before[party] for party in PARTIES]
    return right and max(charged) <= 1, sum(max(0, count - 1) for count in charged)


def ten_parties(folder: Path) -> tuple[bool, int]:
    """A job of ten parties: whether it ended well, and charges too many."""
    sites = {party: write_one_of_ten(folder, party) for party in TEN}
    with federation_of(folder, {**sites, "server": {}}) as running:
        well = running.wait(running.submit(ten_text())) == ENDED
        charged = [running.charges(party) for party in TEN]
    return well and min(charged) == 1, sum(count - 1 for count in charged if count > 1)


def say(name: str, fine: bool, seconds: float) -> None:
    """One line while it runs."""
    print(
        f"{name}: {'right or named' if fine else 'NOT NAMED'}, {seconds:.1f} s", file=sys.stderr, flush=True
    )


def measure() -> dict[str, object]:
    """All figures."""
    figures: dict[str, object] = {"idle_connections_held": IDLE}
    found: list[bool] = []
    doubled = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        proxied(Path(folder), seeded=False, idle=IDLE) as (running, proxy),
        ExitStack() as stack,
    ):
        print("the federation runs", file=sys.stderr, flush=True)
        running.until(lambda: all(running.has_spare(member) for member in MEMBERS))
        warm, first = overhead(running)
        cold, second = overhead(running)
        figures["job_overhead_over_protocol_s"] = round(warm, 1)
        figures["job_overhead_back_to_back_s"] = round(cold, 1)
        print(figures, file=sys.stderr, flush=True)
        figures["duplicate_kit_noticed_s"] = round(duplicate(running), 1)
        for name in deeds(running, proxy, ""):
            fine, twice, noticed = fault(running, proxy, name, stack)
            found, doubled = [*found, fine], doubled + twice
            if name == "partition":
                figures["partition_noticed_s"] = round(noticed, 1)
            say(name, fine, noticed)
        _, last = overhead(running)
        began = time.monotonic()
        fine, twice = three_for_one_budget(running)
        found, doubled = [*found, fine], doubled + twice
        say("three jobs for one budget", fine, time.monotonic() - began)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        fine, twice = ten_parties(Path(folder))
        found, doubled = [*found, fine], doubled + twice
        say("ten parties", fine, time.monotonic() - began)
    return {
        **figures,
        "failed_jobs": sum(not well for well in (first, second, last)),
        "faults_tried": len(found),
        "faults_right_or_named": sum(found),
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
