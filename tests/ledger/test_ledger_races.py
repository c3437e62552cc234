"""Many at once: threads and processes of one party never spend the same ε twice."""

import os
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ledger_samples import DELTA, STEP, release

from colonnade.errors import BudgetExceeded, LedgerError
from colonnade.ledger import Ledger
from colonnade.privacy.events import Repeated
from colonnade.privacy.guarantee import account

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


def test_of_processes_that_race_for_a_budget_exactly_as_many_succeed_as_fit(tmp_path: Path) -> None:
    path = tmp_path / "bank.ledger"
    ledger = Ledger.create(path, "bank")
    ledger.set_budget("adult", "record", "server", budget_for(FIT), DELTA)
    check(ledger, sum(in_processes(lambda worker: attempt(Ledger.open(path), worker))))


def test_a_ledger_that_was_opened_before_a_fork_is_safe_after_it(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "bank.ledger", "bank")
    ledger.set_budget("adult", "record", "server", budget_for(FIT), DELTA)
    check(ledger, sum(in_processes(lambda worker: attempt(ledger, worker))))


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
