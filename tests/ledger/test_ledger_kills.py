"""kill -9 at any instant: what left was charged. Real processes, real kills."""

import itertools
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from ledger_samples import DELTA, STEP, release

from colonnade.errors import BudgetExceeded, LedgerError
from colonnade.ledger import Ledger
from colonnade.privacy.events import Gaussian, Repeated
from colonnade.privacy.guarantee import account

KILLS = 40
CONTROL_KILLS = 20
MOST_TURNS = 4  # a child has at least fewer turns than this before the clock of its death starts
LONGEST_WAIT = 0.03  # seconds from there to its death
SMALL = Gaussian(sensitivity=1, sigma=1000)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def kill_at_random(
    work: Callable[[Callable[[], None]], None], rng: np.random.Generator, *, wait: bool
) -> None:
    """Run `work` in a child and kill it; with `wait`, the clock starts when the child calls its argument."""
    ready_out, ready_in = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ready_out)
            work(lambda: os.close(ready_in))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(ready_in)
    if wait:
        os.read(ready_out, 1)
    time.sleep(rng.uniform(0, LONGEST_WAIT))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    os.close(ready_out)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the child failed; its traceback is above"


def live(
    path: Path, wire: Path, life: int, *, charge_first: bool, turns: int
) -> Callable[[Callable[[], None]], None]:
    """A party that charges and releases, over and over, until it dies; ready to die after so many turns."""

    def work(ready: Callable[[], None]) -> None:
        ledger = Ledger.open(path)
        out = os.open(wire, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

        def leave(name: str) -> None:
            os.write(out, f"{name}\n".encode())
            os.fsync(out)

        for turn in itertools.count():
            if turn == turns:
                ready()
            name = f"{life}-{turn}"
            if not charge_first:
                leave(name)
            ledger.charge(release(name, event=SMALL), "adult")
            if charge_first:
                leave(name)

    return work


def kill_often(folder: Path, kills: int, *, charge_first: bool) -> tuple[Ledger, set[str], set[str]]:
    """The ledger after many deaths, the ids it charged, and the ids that left."""
    path, wire = folder / "bank.ledger", folder / "wire"
    Ledger.create(path, "bank").set_budget("adult", "record", "server", epsilon=1000.0, delta=DELTA)
    rng = np.random.default_rng(kills)
    for life in range(kills):
        # One life in four may also end while it opens, reads and recovers what the last one left.
        party = live(path, wire, life, charge_first=charge_first, turns=int(rng.integers(MOST_TURNS)))
        kill_at_random(party, rng, wait=life % 4 != 0)
    ledger = Ledger.open(path)
    charged = {entry.body["release"]["id"] for entry in ledger.entries() if entry.kind == "charge"}
    return ledger, charged, set(wire.read_text().split())


def test_after_many_kills_everything_that_left_was_charged(tmp_path: Path) -> None:
    ledger, charged, left = kill_often(tmp_path, KILLS, charge_first=True)
    assert left <= charged
    assert len(charged - left) <= KILLS  # a death can cost the release that was on its way, and no more
    assert (
        len(left) >= KILLS
    )  # their turns before the clocks start are that many, however slow the machine is
    found = ledger.verify([ledger.receipt()])
    assert found.entries == len(charged) + 2
    again = Ledger.open(tmp_path / "bank.ledger")
    assert again.totals() == ledger.totals()
    assert again.totals()[0].entries == len(charged)


def test_this_loop_would_notice_a_release_that_leaves_before_it_is_charged(tmp_path: Path) -> None:
    _, charged, left = kill_often(tmp_path, CONTROL_KILLS, charge_first=False)
    assert left - charged


def test_a_kill_while_a_ledger_is_created_leaves_a_ledger_or_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    outcomes = set()
    for life in range(20):
        path = tmp_path / f"{life}.ledger"

        def work(ready: Callable[[], None], path: Path = path, early: bool = life % 4 != 0) -> None:
            if early:
                ready()
            Ledger.create(path, "bank")
            if not early:
                ready()
            time.sleep(10)

        kill_at_random(work, rng, wait=True)
        try:
            assert Ledger.open(path).verify().entries == 1
            outcomes.add("whole")
        except LedgerError as error:
            assert "there is no ledger here" in str(error) or "this file is empty" in str(error)
            outcomes.add("none")
    assert "whole" in outcomes


# Many at once: threads and processes of one party never spend the same ε twice.


WORKERS, TRIES, FIT = 6, 4, 9


def budget_for(releases: int) -> float:
    return account(Repeated(STEP, releases), DELTA).epsilon


def attempt(ledger: Ledger, worker: int) -> int:
    """How many of this worker's releases the ledger admits."""
    admitted = 0
    for index in range(TRIES):
        try:
            ledger.charge(release(f"{worker}-{index}"), "adult")
        except BudgetExceeded:
            continue
        admitted += 1
    return admitted


def in_processes(work: Callable[[int], int]) -> list[int]:
    """The results of `work` in processes that start together; each result is an exit code below 100."""
    gate_out, gate_in = os.pipe()
    children = []
    for worker in range(WORKERS):
        child = os.fork()
        if child == 0:
            code = 100
            try:
                os.close(gate_in)
                os.read(gate_out, 1)  # returns at once for all, when the parent closes its end
                code = work(worker)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    os.close(gate_out)
    os.close(gate_in)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert max(codes) < 100, "a worker failed; its traceback is above"
    return codes


def check(ledger: Ledger, admitted: int) -> None:
    assert admitted == FIT
    (total,) = ledger.totals()
    assert total.entries == FIT
    assert total.epsilon <= total.budget_epsilon
    assert ledger.verify([ledger.receipt()]).entries == FIT + 2


@pytest.mark.parametrize("opened", ["before the fork", "after it"])
def test_of_racing_processes_exactly_as_many_succeed_as_fit(tmp_path: Path, opened: str) -> None:
    path = tmp_path / "bank.ledger"
    ledger = Ledger.create(path, "bank")
    ledger.set_budget("adult", "record", "server", budget_for(FIT), DELTA)

    def work(worker: int) -> int:
        return attempt(ledger if opened == "before the fork" else Ledger.open(path), worker)

    check(ledger, sum(in_processes(work)))


@pytest.mark.parametrize("where", ["file", "memory", "file, each thread its own"])
def test_of_threads_that_race_for_a_budget_exactly_as_many_succeed_as_fit(tmp_path: Path, where: str) -> None:
    path = tmp_path / "bank.ledger"
    ledger = Ledger.in_memory("bank") if where == "memory" else Ledger.create(path, "bank")
    ledger.set_budget("adult", "record", "server", budget_for(FIT), DELTA)
    start = threading.Barrier(WORKERS)

    def work(worker: int) -> int:
        mine = Ledger.open(path) if where.endswith("own") else ledger
        start.wait()
        return attempt(mine, worker)

    with ThreadPoolExecutor(WORKERS) as pool:
        check(ledger, sum(pool.map(work, range(WORKERS))))


def test_processes_that_charge_the_same_release_charge_it_once(tmp_path: Path) -> None:
    path = tmp_path / "bank.ledger"
    ledger = Ledger.create(path, "bank")
    ledger.set_budget("adult", "record", "server", budget_for(1), DELTA)
    entries = in_processes(lambda _: Ledger.open(path).charge(release("same"), "adult").entry)
    assert entries == [3] * WORKERS
    assert ledger.totals()[0].entries == 1


def test_of_processes_that_create_one_ledger_exactly_one_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "bank.ledger"

    def create(worker: int) -> int:
        try:
            Ledger.create(path, f"party {worker}")
        except LedgerError:
            return 0
        return 1

    assert sum(in_processes(create)) == 1
    assert Ledger.open(path).verify().entries == 1
