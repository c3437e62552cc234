"""How a party talks: labelled frames to and from named peers; in one process, logged, and recorded for tests."""

from __future__ import annotations

import datetime
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from colonnade.runtime.wire import AHEAD, Mailbox

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
        """The next frame from `peer`, for `step`; else `RemoteProtocolError`, or `PeerTimeout` after `timeout` s."""

    def stop(self, reason: str | None) -> None:
        """Leave. Peers that wait for this party learn the reason; None means it has finished."""


def readable(reason: str) -> str:
    """A peer's words without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in reason)


@dataclass(frozen=True)
class Seen:
    sender: str
    step: str
    frame: bytes


@dataclass
class Traffic:
    """Bytes and messages a party sent, by receiver and kind of step, and how many rounds it waited for.

    A round is a step at which this party waited for others. `seconds`, each stretch counted to the step that ends it,
    can depend on the data, and steps in `own` on people whom others do not have: both are for the party itself.
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
    time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    measured = {**asdict(facts), "seconds": round(facts.seconds, 6)}
    return json.dumps({"time": time, "member": member, "job": job, **measured})


class LoggedChannel:
    """Passes everything on, and tells `note` of each step when the next begins; `step` is the one at hand."""

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


class MemoryChannel:
    """One party's end of an in-process network: it reads its own mailbox, and puts frames into those of its peers."""

    def __init__(self, name: str, boxes: Mapping[str, Mailbox]) -> None:
        self.name = name
        self._own = boxes[name]
        self._boxes = boxes
        self._sent: Counter[str] = Counter()

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self._own.check_peer(to)
        number = self._sent[to]
        self._sent[to] += 1
        while number - self._boxes[to].progress(self.name)[0] >= AHEAD and not self._own.ended(to):
            await self._own.changed()
        self._boxes[to].put(self.name, number, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        try:
            return await self._own.take(peer, step, timeout)
        finally:
            if peer in self._boxes:
                self._boxes[peer].ring()

    def stop(self, reason: str | None) -> None:
        for box in self._boxes.values():
            box.end(self.name, reason)


def memory_network(names: tuple[str, ...]) -> dict[str, MemoryChannel]:
    boxes = {name: Mailbox(name, tuple(other for other in names if other != name)) for name in names}
    return {name: MemoryChannel(name, boxes) for name in names}
