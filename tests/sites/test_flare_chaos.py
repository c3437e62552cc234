"""Chaos among real FLARE processes: whole sites and single jobs are killed, and connections cut, at any moment.

Parties reach their server through a proxy that delays what passes and cuts connections, which is all that a network
can do to mutual TLS. Every job ends right or fails by name everywhere, goes on when it is resumed, and is charged once.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from live_federation import Live, live
from proxies import Proxy, proxied
from relayed_jobs import own_weights, part_of
from two_houses import MEMBERS, PARTIES, SEED, in_process, job_text, split

from colonnade.sites.kit import Kit
from colonnade.sites.processes import kit_processes

RUNS = 6
STEPS = split(150)
DEEDS = ("kill the job", "kill the site", "cut", "nothing")


def do(deed: str, victim: str, running: Live, proxy: Proxy, job_id: str) -> None:
    if deed == "kill the job":
        os.kill(running.job_process(victim, job_id), signal.SIGKILL)
    elif deed == "kill the site":
        for process in kit_processes(running.kits[victim]):
            process.kill()
    elif deed == "cut":
        proxy.cut()


def _is_gone(kit: Kit) -> bool:
    return not kit_processes(kit)


def revive(running: Live) -> None:
    """Start again what was killed: parties, or everybody if it was the server."""
    down = [member for member in ("server", *PARTIES) if running.processes[member].poll() is not None]
    for member in down:
        running.until(partial(_is_gone, running.kits[member]))
        running.start(member)


@pytest.mark.slow
def test_real_processes_in_chaos_end_right_or_fail_by_name_and_are_charged_once(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    drawn, done, seconds = np.random.default_rng(5), Counter[str](), []
    with proxied(tmp_path) as (running, proxy):
        for number in range(RUNS):
            # The server's own site is left alone here: killing it ends this session too, not only the job.
            deed = DEEDS[number % len(DEEDS)]
            victim = str(drawn.choice(PARTIES if deed == "kill the site" else MEMBERS))
            for member in MEMBERS:
                announced = {**running.kits[member].site(), "noise_seed": SEED + number}
                running.kits[member].tell_site(announced)
            before = {party: running.charges(party) for party in PARTIES}
            proxy.pause = float(drawn.uniform(0, 0.01))
            job_id = running.submit(job_text(STEPS))
            running.at_step("bank", job_id, f"scores {drawn.integers(1, 100)}")
            began = time.monotonic()
            do(deed, victim, running, proxy, job_id)
            done[f"{deed} {victim}"] += 1
            ended = running.wait(job_id)
            seconds.append(round(time.monotonic() - began, 1))
            first, attempts = job_id, 1
            while ended != "FINISHED:COMPLETED":
                named = victim if deed.startswith("kill") else r"bank|shop|server"
                for member in MEMBERS:
                    outcome = running.outcome(member, job_id)
                    if outcome is not None and outcome["state"] == "failed":
                        assert re.search(named, outcome["reason"]) and outcome["step"], (number, outcome)
                assert attempts < 4, (number, deed, victim)
                revive(running)
                job_id, attempts = running.submit(job_text(STEPS), resumes=first), attempts + 1
                ended = running.wait(job_id)
            right = in_process(STEPS, seed=SEED + number).runs[0]
            for party in PARTIES:
                outcome = running.outcome(party, job_id)
                assert outcome is not None
                kept = own_weights(running.kits[party], party, job_id)
                assert kept == part_of(STEPS, right, party), (number, party)
                assert running.charges(party) - before[party] == 1, (number, party)
    record_testsuite_property("done", dict(done))
    record_testsuite_property("seconds until the job had ended", seconds)


@pytest.mark.slow
def test_a_server_that_is_killed_whole_stops_the_job_by_name_and_may_come_back(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        job_id = running.submit(job_text(split(4000)))
        running.at_step("bank", job_id, "scores 20")
        for process in kit_processes(running.kits["server"]):
            process.kill()
        for party in PARTIES:
            running.until(partial(running.has_ended, party, job_id))
            outcome = running.outcome(party, job_id)
            assert outcome is not None and outcome["state"] == "failed"
            assert "server" in outcome["reason"] and "step '" in outcome["reason"], outcome
        running.until(lambda: not kit_processes(running.kits["server"]))
        running.start("server")
        with running.session_again():
            running.until(lambda: set(running.session.parties()) >= set(PARTIES))
            assert running.wait(job_id) == "FINISHED:ABANDONED"
            again = running.submit(job_text(split(4000)), resumes=job_id)
            assert running.wait(again) == "FINISHED:COMPLETED"
            assert [running.charges(party) for party in PARTIES] == [1, 1]


@pytest.mark.slow
def test_every_row_of_the_fault_table_ends_right_or_named_and_is_charged_once(
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    command = [sys.executable, str(Path(__file__).parents[2] / "benchmarks" / "operations.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    record_testsuite_property("operations", figures)
    assert figures["faults_right_or_named"] == figures["faults_tried"] == 13, done.stderr
    assert (figures["failed_jobs"], figures["double_charges"]) == (0, 0)
