"""A channel that notes, step by step, how much went and came and how long it took. Of contents it notes nothing."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from colonnade.runtime.channel import Channel, Frame


@dataclass(frozen=True)
class StepFacts:
    """One step of one member: bytes sent and received, sealed or not as the channel inside has them, and seconds."""

    step: str
    sent: int
    received: int
    seconds: float


def step_line(member: str, job: str, facts: StepFacts) -> str:
    """The line of a member's log for a step that has just ended."""
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
