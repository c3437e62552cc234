"""Frames that arrive on other threads, put in order for one event loop.

An engine delivers on threads of its own, in any order, perhaps twice. Frames are numbered by their sender; here each
line hands them out once and in order. Nothing in it knows an engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from dataclasses import dataclass, field

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime.wire import MAX_FRAME

#: Frames a sender may be ahead of its receiver.
AHEAD = 4
_MOST_PIECES = 1 << 12


@dataclass
class _Line:
    due: int = 0
    whole: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    pieces: dict[int, dict[int, bytes]] = field(default_factory=dict)
    ended: bool = False
    reason: str | None = None
    # How many frames a peer that finished had sent: its goodbye may overtake the last of them.
    total: int | None = None
    # When the peer was last known to have got on with its work.
    moved: float = -math.inf

    @property
    def arrived(self) -> int:
        number = self.due
        while number in self.whole:
            number += 1
        return number

    @property
    def exhausted(self) -> bool:
        return self.ended and (self.reason is not None or self.total is None or self.due >= self.total)


class Mailbox:
    """What has arrived for one member of one job and was not asked for yet."""

    def __init__(self, name: str, peers: tuple[str, ...]) -> None:
        self.name = name
        self._lines = {peer: _Line() for peer in peers}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell = asyncio.Event()
        #: Why this member itself is to stop waiting, if it is.
        self.interrupted: str | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake this loop from now on. Frames may have arrived before it began."""
        with self._lock:
            self._loop = loop

    def put(self, peer: str, number: int, step: str, piece: bytes, *, index: int = 0, of: int = 1) -> None:
        """Keep one piece of a frame.

        A piece that was there before is dropped, as is everything from strangers and what no sender that keeps to
        `AHEAD` would send: an engine may repeat, and memory is bounded.
        """
        line = self._lines.get(peer)
        if line is None:
            return
        with self._lock:
            fits = line.due <= number < line.due + AHEAD and 0 <= index < of <= _MOST_PIECES
            if fits and number not in line.whole and line.reason is None:
                held = line.pieces.setdefault(number, {})
                held.setdefault(index, piece)
                if sum(map(len, held.values())) > MAX_FRAME:
                    line.ended, line.reason = True, "it sent a frame over the limit"
                elif len(held) == of:
                    line.whole[number] = (step, b"".join(held[at] for at in range(of)) if of > 1 else piece)
                    del line.pieces[number]
        self._ring()

    def progress(self, peer: str) -> tuple[int, int]:
        """How many of a peer's frames were asked for by now, and how many have arrived without a gap."""
        line = self._lines.get(peer)
        if line is None:
            return 0, 0
        with self._lock:
            return line.due, line.arrived

    def end(self, peer: str, reason: str | None, *, total: int | None = None) -> None:
        """No more comes from this peer: than is here already, or than the `total` of frames that it has sent.

        The first reason counts; having finished is none.
        """
        line = self._lines.get(peer)
        if line is None:
            return
        with self._lock:
            if not line.ended or (line.reason is None and reason is not None):
                line.ended, line.reason, line.total = True, reason, total
        self._ring()

    def move(self, peer: str) -> None:
        """Note that a peer got on with its work, whomever it works with."""
        line = self._lines.get(peer)
        if line is not None:
            line.moved = time.monotonic()

    def interrupt(self, reason: str) -> None:
        """Let whoever waits here stop waiting, whomever it waits for."""
        self.interrupted = reason
        self._ring()

    def ended(self, peer: str) -> bool:
        """Whether a peer has left, or is known to be gone."""
        return self._lines[peer].ended

    def fell(self, peer: str) -> str | None:
        """Why a peer left, if it did not finish."""
        return self._lines[peer].reason

    async def take(self, peer: str, step: str, timeout: float) -> bytes:
        """The next frame of a peer, which must be for `step`.

        A peer that gets on with its work is waited for, whomever it works with; one that does not for `timeout`
        seconds is given up.
        """
        line, began = self._lines[peer], time.monotonic()
        while line.due not in line.whole:
            if line.exhausted:
                why = f": {line.reason}" if line.reason else " before it sent what was expected"
                raise RemoteProtocolError(f"{self.name} waits at step {step!r}, but {peer} stopped{why}")
            if self.interrupted is not None:
                raise RemoteProtocolError(
                    f"{self.name} waits at step {step!r} for {peer}: {self.interrupted}"
                )
            left = max(began, line.moved) + timeout - time.monotonic()
            if left <= 0:
                raise PeerTimeout(
                    f"{self.name} waited {timeout:g} s at step {step!r} for {peer}, which sent nothing. "
                    f"See whether {peer} still runs; a longer timeout goes into the job."
                )
            self._bell.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._bell.wait()
        with self._lock:
            sent, frame = line.whole.pop(line.due)
            line.due += 1
        if sent != step:
            raise RemoteProtocolError(f"{self.name} is at step {step!r} but {peer} sent {sent!r}")
        return frame

    def _ring(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._bell.set)
