"""How a party talks: labelled frames to and from named peers; in one process, logged, and recorded for tests."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError

#: The bytes of one message, in whatever a transport received them.
Frame = bytes | bytearray


class Channel(Protocol):
    """One party's end of its connections.

    A channel delivers each frame once and, between two parties, in the order sent. It does not read
    frames, and what it promises about secrecy is the transport's own claim.
    """

    async def send(self, to: str, step: str, frame: bytes) -> None:
        """Hand over a frame; waits while the receiver is far behind."""

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        """The next frame from `peer`, which must be for `step`.

        Raises `RemoteProtocolError` if the peer is at another step or has stopped, and `PeerTimeout`
        after `timeout` seconds without a frame.
        """

    def stop(self, reason: str | None) -> None:
        """Leave. Peers that wait for this party learn the reason; None means it has finished."""


def readable(reason: str) -> str:
    """A peer's words without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in reason)


@dataclass(frozen=True)
class Seen:
    """One frame that arrived, as it arrived."""

    sender: str
    step: str
    frame: bytes


@dataclass
class Traffic:
    """Bytes and messages a party sent, by receiver and kind of step, and how many rounds it waited for.

    A round is one labelled step at which this party had to wait for others. `seconds` is wall time by kind of step,
    each stretch counted to the step that ends it; it can depend on the data, so it is for the party itself. So are the
    kinds of steps in `own`, whose number and length depend on people whom the parties do not have in common.
    """

    sent: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    messages: int = 0
    rounds: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    own: set[str] = field(default_factory=set)
    aligning: bool = False
    _steps: set[str] = field(default_factory=set)
    _last: float = field(default_factory=time.perf_counter)

    def note_sent(self, to: str, step: str, size: int) -> None:
        self.sent[to, step_kind(step)] += size
        self.messages += 1
        self._stretch(step)

    def note_received(self, step: str) -> None:
        if step not in self._steps:
            self._steps.add(step)
            self.rounds += 1
        self._stretch(step)

    def _stretch(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step_kind(step)] += now - self._last
        self._last = now
        if self.aligning:
            self.own.add(step_kind(step))

    @property
    def rounds_by_step(self) -> dict[str, int]:
        return dict(Counter(step_kind(step) for step in sorted(self._steps)))

    @property
    def bytes_sent(self) -> int:
        return sum(self.sent.values())

    @property
    def shared(self) -> Traffic:
        """What everybody may read of it: bytes and rounds of all but this party's own steps, and no seconds."""
        steps = {step for step in self._steps if step_kind(step) not in self.own}
        sent = {(to, kind): size for (to, kind), size in self.sent.items() if kind not in self.own}
        return Traffic(sent=sent, rounds=len(steps), _steps=steps)


def step_kind(step: str) -> str:
    """What steps are counted under: their name without what numbers them."""
    return step.split(" ")[0]


@dataclass(frozen=True)
class StepFacts:
    """One step of one member: bytes sent and received, sealed or not as the channel inside has them, and seconds."""

    step: str
    sent: int
    received: int
    seconds: float


def step_line(member: str, job: str, facts: StepFacts) -> str:
    line = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "member": member,
        "job": job,
        "step": facts.step,
        "sent": facts.sent,
        "received": facts.received,
        "seconds": round(facts.seconds, 6),
    }
    return json.dumps(line)


class LoggedChannel:
    """Passes everything on to another channel, and tells `note` of each step when the next one begins.

    `step` is the one that this member is at: where it stands if the run stops.
    """

    def __init__(self, inner: Channel, note: Callable[[StepFacts], None]) -> None:
        self._inner = inner
        self._note = note
        self.step = ""
        self._sent = self._received = 0
        self._since = time.perf_counter()

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self._enter(step)
        self._sent += len(frame)
        await self._inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        self._enter(step)
        frame = await self._inner.receive(peer, step, timeout)
        self._received += len(frame)
        return frame

    def stop(self, reason: str | None) -> None:
        self._leave()
        self._inner.stop(reason)

    def _enter(self, step: str) -> None:
        if step != self.step:
            self._leave()
            self.step = step

    def _leave(self) -> None:
        now = time.perf_counter()
        if self.step:
            self._note(StepFacts(self.step, self._sent, self._received, now - self._since))
        self._sent = self._received = 0
        self._since = now


# Frames a sender may be ahead of a receiver: enough to keep both busy, few enough to bound memory.
_AHEAD = 4


class _StepLine:
    """Frames from one party to another, in order; both parties' bells are rung when something changes."""

    def __init__(self) -> None:
        self.frames: deque[tuple[str, bytes]] = deque()
        self.ended = False
        self.reason: str | None = None
        self.bells: weakref.WeakSet[asyncio.Event] = weakref.WeakSet()

    def changed(self) -> None:
        for bell in self.bells:
            bell.set()


class MemoryChannel:
    """One party's end of an in-process network."""

    def __init__(self, name: str, outgoing: dict[str, _StepLine], incoming: dict[str, _StepLine]) -> None:
        self.name = name
        self._outgoing = outgoing
        self._incoming = incoming
        self._bell = asyncio.Event()
        for line in (*outgoing.values(), *incoming.values()):
            line.bells.add(self._bell)

    async def send(self, to: str, step: str, frame: bytes) -> None:
        line = self._line(self._outgoing, to)
        while len(line.frames) >= _AHEAD and not self._incoming[to].ended:
            self._bell.clear()
            await self._bell.wait()
        line.frames.append((step, frame))
        line.changed()

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        line = self._line(self._incoming, peer)
        try:
            async with asyncio.timeout(timeout):
                while not line.frames:
                    if line.ended:
                        why = f": {line.reason}" if line.reason else " before it sent what was expected"
                        raise RemoteProtocolError(
                            f"{self.name} waits at step {step!r}, but {peer} stopped{why}"
                        )
                    self._bell.clear()
                    await self._bell.wait()
        except TimeoutError:
            raise PeerTimeout(
                f"{self.name} waited {timeout:g} s at step {step!r} for {peer}, which sent nothing. "
                f"See whether {peer} still runs; a longer timeout goes into the job."
            ) from None
        sent, frame = line.frames.popleft()
        line.changed()
        if sent != step:
            raise RemoteProtocolError(f"{self.name} is at step {step!r} but {peer} sent {sent!r}")
        return frame

    def stop(self, reason: str | None) -> None:
        for line in self._outgoing.values():
            line.ended, line.reason = True, reason
            line.changed()

    def _line(self, lines: dict[str, _StepLine], peer: str) -> _StepLine:
        if peer not in lines:
            raise LocalProtocolError(
                f"{self.name} has no connection to {peer!r}; its peers are {sorted(lines)}"
            )
        return lines[peer]


def memory_network(names: tuple[str, ...]) -> dict[str, MemoryChannel]:
    """A channel for each name, all connected. Call it inside a running event loop."""
    lines = {(a, b): _StepLine() for a in names for b in names if a != b}
    return {
        name: MemoryChannel(
            name,
            outgoing={other: lines[name, other] for other in names if other != name},
            incoming={other: lines[other, name] for other in names if other != name},
        )
        for name in names
    }
