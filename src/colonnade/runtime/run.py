"""Run a protocol: every party here in this process, or as one party of a real federation.

A program is a coroutine ``program(party, table, *agreed)``. Every party runs the same lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from colonnade.errors import ColonnadeError, RemoteProtocolError, RowsNotProved
from colonnade.numbers.threads import one_thread
from colonnade.randomness import Randomness, SystemRandomness
from colonnade.runtime.channel import Channel, LoggedChannel, Seen, Traffic, memory_network, step_line
from colonnade.runtime.journal import Journal, JournalChannel
from colonnade.runtime.party import Accountant, Group, Party, silent

# Below glibc's DEFAULT_MMAP_THRESHOLD_MAX with its header and alignment.
_LARGEST_KEPT = (1 << 25) - (1 << 16)

T = TypeVar("T")
Program = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Outcome:
    """What each party came away with, what it sent, and, where recorded or logged, what it saw or its steps."""

    results: Mapping[str, Any]
    traffic: Mapping[str, Traffic]
    seen: Mapping[str, list[Seen] | None] = field(default_factory=dict)
    log: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def bytes_sent(self) -> int:
        return sum(traffic.bytes_sent for traffic in self.traffic.values())

    @property
    def bytes_by_step(self) -> dict[str, int]:
        steps: dict[str, int] = {}
        for traffic in self.traffic.values():
            for (_, step), size in traffic.sent.items():
                steps[step] = steps.get(step, 0) + size
        return steps

    @property
    def rounds(self) -> int:
        """The longest chain of steps any party waited for."""
        return max(traffic.rounds for traffic in self.traffic.values())

    @property
    def shared(self) -> Outcome:
        """The traffic that everybody may read of, without results: nothing in it counts whom only one party knows."""
        return Outcome({}, {member: traffic.shared for member, traffic in self.traffic.items()})


@dataclass(frozen=True, eq=False)
class PartyInputs:
    """What one party brings to a run, as `Party` has it; in one process no policy could not accept the server."""

    ledger: Accountant
    table: Any = None
    dataset: str = ""
    shown_ids: int | None = None
    most_ids: int | None = None
    remembers: Callable[[Any, str], None] | None = None
    part: Any = None
    randomness: Randomness = field(default_factory=SystemRandomness)
    asks: Callable[[Any, bool], None] | None = None
    approves: Callable[[Mapping[str, Any], Sequence[Any]], Awaitable[None]] | None = None
    trusts_server: bool = True
    public: bool = False

    def party(self, name: str, group: Group, channel: Channel, **more: Any) -> Party:
        own = {each.name: getattr(self, each.name) for each in fields(PartyInputs) if each.name != "table"}
        return Party(name=name, group=group, channel=channel, **(own | more))


async def run_as(party: Party, program: Program, *arguments: Any) -> Any:
    """Run a program as one party; peers are told why it stops unless that is about its own data or files."""
    # By default glibc gives freed arrays of the size of a block back to the kernel, which hands them out again page by
    # page: about a third of the processor time of a product. Once an array near 32 MB was freed, glibc keeps up to
    # twice that (mallopt(3), M_MMAP_THRESHOLD). The array is never written, so it takes no memory.
    np.empty(_LARGEST_KEPT, dtype=np.uint8)
    try:
        # A second thread of BLAS would mostly spin, on a core that another party could use.
        with one_thread():
            result = await program(party, *arguments)
    except BaseException as error:
        party.channel.stop(reason_for_peers(error))
        raise
    party.channel.stop(None)
    return result


def reason_for_peers(error: BaseException) -> str:
    if isinstance(error, ColonnadeError) and error.for_peers:
        return str(error)
    kind = error.family if isinstance(error, ColonnadeError) else type(error).__name__
    return f"it cannot take part ({kind}); its own operator can see why"


def run_here(
    program: Program,
    group: Group,
    inputs: Mapping[str, PartyInputs],
    *agreed: Any,
    timeout: float = 60.0,
    record: bool = False,
    logged: bool = False,
    progress: Callable[[str, int, int], None] = silent,
    journals: Mapping[str, Journal] | None = None,
) -> Outcome:
    """Run every party of a group in this process, in a notebook too; the first error of any stops all."""
    missing = sorted(set(group.members) - set(inputs))
    if missing:
        raise ValueError(f"no inputs for {', '.join(missing)}: every member brings at least a ledger")

    async def run_all() -> Outcome:
        network: dict[str, Channel] = dict(memory_network(group.members))
        log: dict[str, list[str]] = {name: [] for name in group.members} if logged else {}
        for name, lines in log.items():
            network[name] = _logged(name, network[name], lines)
        records = {name: JournalChannel(name, network[name], one) for name, one in (journals or {}).items()}
        network.update(records)
        reporting = (group.server, group.active or group.owners[0])
        parties = {
            name: inputs[name].party(
                name,
                group,
                network[name],
                timeout=timeout,
                progress=progress if name in reporting else silent,
                seen=[] if record else None,
            )
            for name in group.members
        }

        async def goes_on(party: Party, *arguments: Any) -> Any:
            # Members who go on have first said how far their records reach.
            if party.name in records and records[party.name].resumed:
                await records[party.name].compare(group.others(party.name), timeout=party.timeout)
            return await program(party, *arguments)

        tasks = {
            name: asyncio.create_task(run_as(party, goes_on, inputs[name].table, *agreed), name=name)
            for name, party in parties.items()
        }
        try:
            await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        # The error that started the trouble: a party's own before what its peers made of it.
        ended = [task.exception() for task in tasks.values() if not task.cancelled()]
        errors = [error for error in ended if error is not None]
        if errors:
            raise min(
                errors, key=lambda one: isinstance(one, RemoteProtocolError) > isinstance(one, RowsNotProved)
            )
        return Outcome(
            results={name: task.result() for name, task in tasks.items()},
            traffic={name: party.traffic for name, party in parties.items()},
            seen={name: party.seen for name, party in parties.items()},
            log=log,
        )

    return _finish(run_all())


def _logged(name: str, channel: Channel, lines: list[str]) -> Channel:
    return LoggedChannel(channel, lambda step: lines.append(step_line(name, "", step)))


def _finish(work: Awaitable[T]) -> T:
    outcome: list[T] = []

    async def main() -> None:
        # Kept here and not returned: when asyncio.run puts the signal handler back, Python prints the task into an
        # error that nobody sees, with its result, which may be large.
        outcome.append(await work)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
        return outcome[0]
    # A notebook's loop already runs in this thread; the parties get a thread and a loop of their own. The pool is not
    # waited for: Ctrl-C ends the cell at once.
    ThreadPoolExecutor(1, thread_name_prefix="colonnade").submit(asyncio.run, main()).result()
    return outcome[0]
