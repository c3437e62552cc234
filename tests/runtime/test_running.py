"""Groups, channels and runs."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from typed import there, untyped

from colonnade.errors import PlanError, RemoteProtocolError
from colonnade.protocols.messages import exchange, hear
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import Message

GROUP = Group.of(("bank", "insurer"), active="bank")


def desks() -> dict[str, PartyInputs]:
    # Nothing is released here, so that nobody asks for a ledger.
    return {name: PartyInputs(untyped(None)) for name in GROUP.members}


@pytest.mark.parametrize(
    ("owners", "computing_parties", "threshold"),
    [(2, ("server", "a", "b"), 1), (3, ("a", "b", "c"), 1), (4, ("a", "b", "c"), 1), (5, tuple("abcde"), 2)],
)
def test_the_default_committee_has_two_t_plus_one_computing_parties(
    owners: int, computing_parties: tuple[str, str, str], threshold: int
) -> None:
    group = Group.of(tuple("abcdef"[:owners]))
    assert (group.computing_parties, group.threshold) == (computing_parties, threshold)
    assert group.server_keeps == (owners == 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"owners": ("bank",)}, "at least two owners"),
        ({"owners": ("bank", "bank")}, "named once"),
        ({"owners": ("bank", "no name")}, "no name for a party"),
        ({"owners": ("bank", "server")}, "cannot also own columns"),
        ({"owners": ("bank", "shop"), "active": "other"}, "not among the owners"),
        ({"owners": ("bank", "shop"), "threshold": 2}, "exactly 2t \\+ 1 = 5 computing parties"),
        ({"owners": ("bank", "shop"), "threshold": 0}, "at least 1"),
        (
            {"owners": ("bank", "shop"), "computing_parties": ("k1", "k2", "k3", "k4", "k5"), "threshold": 2},
            "nobody's noise",
        ),
    ],
)
def test_a_group_that_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Group.of(**arguments)


def test_everybody_hears_what_everybody_says_inside_a_running_event_loop_and_recorded() -> None:
    async def program(party: Party, table: Any) -> list[str]:
        said = await exchange(party, "greeting", Message({"name": party.name}), party.group.members)
        return sorted(message.text("name") for message in said.values())

    async def notebook() -> Outcome:
        return run_here(program, GROUP, desks(), record=True)

    outcome = asyncio.run(notebook())
    assert outcome.results["bank"] == ["insurer", "server"]
    assert sorted(seen.sender for seen in there(outcome.seen["bank"])) == ["insurer", "server"]
    assert outcome.rounds == 1
    assert outcome.bytes_sent > 0


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("fails", [False, True])
def test_products_of_a_run_are_made_by_one_thread_and_the_setting_of_before_holds_again(fails: bool) -> None:
    found: list[set[int]] = []

    async def program(party: Party, table: Any) -> None:
        # They begin and end one after the other, each with its own length.
        for _ in range(1 + party.group.members.index(party.name)):
            found.append(blas_threads())
            await asyncio.sleep(0)
        if fails and party.name == "insurer":
            raise PlanError("no")

    with threadpool_limits(3, user_api="blas"):
        if fails:
            with pytest.raises(PlanError):
                run_here(program, GROUP, desks())
        else:
            run_here(program, GROUP, desks())
        assert blas_threads() == {3}
    assert len(found) > 3
    assert all(threads == {1} for threads in found)


def test_two_runs_at_once_share_one_limit() -> None:
    """Whoever ends last puts back what was there before either began."""
    within, over = threading.Event(), threading.Event()
    found: list[set[int]] = []

    async def longer(party: Party, table: Any) -> None:
        within.set()
        await asyncio.to_thread(over.wait, 30)
        found.append(blas_threads())

    async def shorter(party: Party, table: Any) -> None:
        found.append(blas_threads())

    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=run_here, args=(longer, GROUP, desks()))
        thread.start()
        assert within.wait(30)
        run_here(shorter, GROUP, desks())
        over.set()
        thread.join(30)
        assert blas_threads() == {2}
    assert found == [{1}] * 6


LOADED_INSIDE = """
from colonnade.numbers.threads import one_thread
from threadpoolctl import threadpool_info as pools
with one_thread():
    import scipy.linalg
    usual = max(pool["num_threads"] for pool in pools() if pool["user_api"] == "blas")
    with one_thread():
        assert {pool["num_threads"] for pool in pools() if pool["user_api"] == "blas"} == {1}
assert {pool["num_threads"] for pool in pools() if pool["user_api"] == "blas"} == {usual}
"""


def test_a_library_that_is_loaded_inside_sums_by_one_thread_from_the_next_block_on() -> None:
    subprocess.run(["env", "OPENBLAS_NUM_THREADS=2", sys.executable, "-c", LOADED_INSIDE], check=True)


def test_a_peer_that_stops_is_named_with_its_reason_and_its_own_error_is_raised() -> None:
    heard = []

    async def program(party: Party, table: Any) -> None:
        if party.name == "bank":
            raise PlanError("the bank cannot")
        try:
            await hear(party, "bank", "noise")
        except RemoteProtocolError as error:
            heard.append(str(error))
            raise

    with pytest.raises(PlanError, match="the bank cannot"):
        run_here(program, GROUP, desks())
    assert heard == [] or all("the bank cannot" in text for text in heard)


@pytest.mark.parametrize("part", ["run", "sender", "receiver", "step", "number"])
def test_a_frame_that_belongs_elsewhere_is_refused(part: str) -> None:
    """Replayed, reordered, redirected, or from another run: the envelope does not fit."""
    from colonnade.runtime.wire import Envelope, encode

    async def program(party: Party, table: Any) -> None:
        if party.name == "bank":
            right = {"run": "", "sender": "bank", "receiver": "insurer", "step": "noise", "number": 0}
            wrong = right | {part: 1 if part == "number" else "other"}
            await party.channel.send("insurer", "noise", encode(Envelope(**untyped(wrong)), Message()))
        elif party.name == "insurer":
            await hear(party, "bank", "noise")

    with pytest.raises(RemoteProtocolError, match=f"bank sent a frame with another {part}"):
        run_here(program, GROUP, desks())
