"""How a message becomes bytes, how bytes that may be hostile become one, and frames in order for one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError

T = TypeVar("T")
MAGIC = b"CLND"
VERSION = 2
#: The wire versions that this release speaks, from the oldest to the newest. Members choose the newest one that all of
#: them speak when they meet. A newer one only adds fields, which an older reader passes over; a frame's layout stays.
SPOKEN = (2, 2)
MAX_HEADER = 1 << 20
MAX_FRAME = 1 << 28
_PREFIX = struct.Struct("<4sBI")
_TYPES = ("u1", "i4", "u4", "i8", "u8", "f8")


@dataclass(frozen=True)
class Envelope:
    """Where a message belongs; checked on arrival, so that no message can stand in for another."""

    run: str
    sender: str
    receiver: str
    step: str
    number: int


@dataclass(frozen=True, eq=False)
class Message:
    """Plain values and arrays, by name; `source` says who said it to whom, for what is found wrong in it."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def wrong(self, why: object) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.source}: {why}" if self.source else str(why))

    def text(self, name: str) -> str:
        return self._typed(name, str)

    def integer(self, name: str) -> int:
        return self._typed(name, int)

    def array(self, name: str, *, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = self.arrays.get(name)
        if array is None or array.dtype != np.dtype(dtype) or array.shape != shape:
            have = "none" if array is None else f"{array.dtype} of shape {array.shape}"
            raise self.wrong(f"expected an array {name!r} of {dtype} and shape {shape}, found {have}")
        return array

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self.fields.get(name)
        if type(value) is not kind:
            raise self.wrong(f"expected {name!r} to be of type {kind.__name__}, found {type(value).__name__}")
        return value


def encode(envelope: Envelope, message: Message, *, limit: int = MAX_FRAME) -> bytes:
    """The frame of a message. What cannot be serialised fails here, on the sender's own machine."""
    packed = _header(envelope, message)
    pieces: list[bytes | memoryview] = [_PREFIX.pack(MAGIC, VERSION, len(packed)), packed]
    pieces += [
        np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data.cast("B")
        for array in message.arrays.values()
        if array.size
    ]
    size = sum(len(piece) for piece in pieces)
    if len(packed) > MAX_HEADER or size > limit:
        raise LocalProtocolError(
            f"step {envelope.step!r}: a frame of {size} bytes is over the limit of {limit}; send smaller blocks"
        )
    return b"".join(pieces)


def frame_size(envelope: Envelope, message: Message) -> int:
    content = sum(array.nbytes for array in message.arrays.values())
    return _PREFIX.size + len(_header(envelope, message)) + content


def _header(envelope: Envelope, message: Message) -> bytes:
    arrays = []
    for name, array in message.arrays.items():
        code = array.dtype.newbyteorder("=").str[1:]
        if code not in _TYPES:
            raise LocalProtocolError(f"array {name!r} has type {array.dtype}, which does not travel")
        arrays.append([name, code, list(array.shape)])
    header = {
        "envelope": [envelope.run, envelope.sender, envelope.receiver, envelope.step, envelope.number],
        "fields": dict(message.fields),
        "arrays": arrays,
    }
    try:
        packed: bytes = msgpack.packb(header, use_bin_type=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(
            f"step {envelope.step!r}: this message cannot be serialised ({error})"
        ) from None
    return packed


def decode(frame: bytes | bytearray, *, limit: int = MAX_FRAME) -> tuple[Envelope, Message]:
    """The message in a frame, or `RemoteProtocolError`. Arrays are read-only views of the frame."""
    if len(frame) > limit:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes is over the limit of {limit}")
    if len(frame) < _PREFIX.size:
        raise RemoteProtocolError("a frame ended inside its prefix")
    magic, version, length = _PREFIX.unpack_from(frame)
    if magic != MAGIC:
        raise RemoteProtocolError("these bytes are not a Colonnade frame")
    if version != VERSION:
        raise RemoteProtocolError(
            f"a frame of layout {version}; this release reads layout {VERSION}. Install the same release of Colonnade."
        )
    start = _PREFIX.size + length
    if length > MAX_HEADER or start > len(frame):
        raise RemoteProtocolError("a frame ended inside its header")
    try:
        header = msgpack.unpackb(frame[_PREFIX.size : start], raw=False, strict_map_key=True)
        envelope, fields, listed = header["envelope"], header["fields"], header["arrays"]
        run, sender, receiver, step, number = envelope
        if not isinstance(fields, dict) or type(number) is not int:
            raise ValueError("wrong shape")
        if not all(isinstance(text, str) for text in (run, sender, receiver, step)):
            raise ValueError("wrong types")
        arrays, end = _arrays(frame, listed, start)
    except RemoteProtocolError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, msgpack.UnpackException):
        raise RemoteProtocolError("a frame's header does not parse") from None
    if end != len(frame):
        raise RemoteProtocolError(f"a frame has {len(frame)} bytes where its header announces {end}")
    return Envelope(run, sender, receiver, step, number), Message(fields, arrays)


def _arrays(frame: bytes | bytearray, listed: list[Any], start: int) -> tuple[dict[str, NDArray[Any]], int]:
    arrays: dict[str, NDArray[Any]] = {}
    content = memoryview(frame).toreadonly()
    for name, code, shape in listed:
        if not isinstance(name, str) or name in arrays or code not in _TYPES or len(shape) > 8:
            raise ValueError("wrong array")
        if not all(type(side) is int and 0 <= side <= MAX_FRAME for side in shape):
            raise ValueError("wrong shape")
        count = math.prod(shape)
        dtype = np.dtype("<" + code)
        if start + count * dtype.itemsize > len(frame):
            raise RemoteProtocolError(f"a frame ended inside its array {name!r}")
        arrays[name] = np.frombuffer(content, dtype=dtype, count=count, offset=start).reshape(shape)
        start += count * dtype.itemsize
    return arrays, start


#: Frames a sender may be ahead of its receiver.
AHEAD = 4
_MOST_PIECES = 1 << 12


@dataclass
class _PeerFrames:
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
        self._lines = {peer: _PeerFrames() for peer in peers}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell = asyncio.Event()
        #: Why this member itself is to stop waiting, if it is.
        self.interrupted: str | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake this loop, from other threads too, from now on. Frames may have arrived before it began."""
        with self._lock:
            self._loop = loop

    def put(self, peer: str, number: int, step: str, piece: bytes, *, index: int = 0, of: int = 1) -> None:
        """Keep one piece of a frame; repeats, strangers' and what is beyond `AHEAD` are dropped: memory is bounded."""
        line = self._lines.get(peer)
        if line is None:
            return
        with self._lock:
            fits = line.due <= number < line.due + AHEAD and 0 <= index < of <= _MOST_PIECES
            if fits and number not in line.whole and line.reason is None:
                pieces = line.pieces.setdefault(number, {})
                pieces.setdefault(index, piece)
                if sum(map(len, pieces.values())) > MAX_FRAME:
                    line.ended, line.reason = True, "it sent a frame over the limit"
                elif len(pieces) == of:
                    line.whole[number] = (step, b"".join(pieces[at] for at in range(of)) if of > 1 else piece)
                    del line.pieces[number]
        self.ring()

    def progress(self, peer: str) -> tuple[int, int]:
        """How many of a peer's frames were asked for by now, and how many have arrived without a gap."""
        line = self._lines.get(peer)
        if line is None:
            return 0, 0
        with self._lock:
            return line.due, line.arrived

    def end(self, peer: str, reason: str | None, *, total: int | None = None) -> None:
        """No more comes from this peer, or none beyond `total` frames. The first reason counts; to finish is none."""
        line = self._lines.get(peer)
        if line is None:
            return
        with self._lock:
            if not line.ended or (line.reason is None and reason is not None):
                line.ended, line.reason, line.total = True, reason, total
        self.ring()

    def move(self, peer: str) -> None:
        line = self._lines.get(peer)
        if line is not None:
            line.moved = time.monotonic()

    def interrupt(self, reason: str) -> None:
        self.interrupted = reason
        self.ring()

    def check_peer(self, peer: str) -> None:
        if peer not in self._lines:
            raise LocalProtocolError(
                f"{self.name} has no connection to {peer!r}; its peers are {sorted(self._lines)}"
            )

    def ended(self, peer: str) -> bool:
        return self._lines[peer].ended

    def fell(self, peer: str) -> str | None:
        return self._lines[peer].reason

    async def take(self, peer: str, step: str, timeout: float) -> bytes:
        """The next frame of a peer, which must be for `step`. One that gets on with its work is waited for."""
        self.check_peer(peer)
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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.changed()
        with self._lock:
            sent, frame = line.whole.pop(line.due)
            line.due += 1
        if sent != step:
            raise RemoteProtocolError(f"{self.name} is at step {step!r} but {peer} sent {sent!r}")
        return frame

    async def changed(self) -> None:
        self._bell.clear()
        await self._bell.wait()

    def ring(self) -> None:
        """Wake whoever waits here: from this loop, or from another thread once a loop is attached."""
        with self._lock:
            if self._loop is None:
                self._bell.set()
            elif not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._bell.set)
