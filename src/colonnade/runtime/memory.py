"""Parties in one process: a channel of byte queues and nothing else.

A party's end holds only queues of frames. The bells that wake a waiting party are weak references, so
that following the references of one party's objects never arrives at another party's task or rows.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError

# Frames a sender may be ahead of a receiver: enough to keep both busy, few enough to bound memory.
_AHEAD = 4


class _Line:
    """Frames from one party to another, in order."""

    def __init__(self) -> None:
        self.frames: deque[tuple[str, bytes]] = deque()
        self.ended = False
        self.reason: str | None = None
        self._bells: list[weakref.ref[asyncio.Event]] = []

    def announce_to(self, bell: asyncio.Event) -> None:
        self._bells.append(weakref.ref(bell))

    def changed(self) -> None:
        for reference in self._bells:
            bell = reference()
            if bell is not None:
                bell.set()


class MemoryChannel:
    """One party's end of an in-process network."""

    def __init__(self, name: str, outgoing: dict[str, _Line], incoming: dict[str, _Line]) -> None:
        self.name = name
        self._outgoing = outgoing
        self._incoming = incoming
        self._bell = asyncio.Event()
        for line in (*outgoing.values(), *incoming.values()):
            line.announce_to(self._bell)

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
            line.ended = True
            line.reason = reason
            line.changed()

    def _line(self, lines: dict[str, _Line], peer: str) -> _Line:
        if peer not in lines:
            raise LocalProtocolError(
                f"{self.name} has no connection to {peer!r}; its peers are {sorted(lines)}"
            )
        return lines[peer]


def memory_network(names: tuple[str, ...]) -> dict[str, MemoryChannel]:
    """A channel for each name, all connected. Call it inside a running event loop."""
    lines = {(a, b): _Line() for a in names for b in names if a != b}
    return {
        name: MemoryChannel(
            name,
            outgoing={other: lines[name, other] for other in names if other != name},
            incoming={other: lines[other, name] for other in names if other != name},
        )
        for name in names
    }
