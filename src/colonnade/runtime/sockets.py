"""Parties as separate processes on one machine: a channel over loopback TCP.

For trying a federation out and for measuring it. Sockets here are neither encrypted nor authenticated, so they
are bound to the loopback address and to nothing else.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError
from colonnade.runtime.wire import MAX_FRAME

LOOPBACK = "127.0.0.1"
# Frames taken off a socket before the party asks for them, so that two parties that both send first do not
# wait for each other.
_AHEAD = 4
_HEADER = struct.Struct("<BHQ")
_FRAME, _STOP = 0, 1
_MAX_STEP = 1 << 12
_RETRY_SECONDS = 0.05


class _Peer:
    """One connection: a writer, and a task that takes frames off the reader."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.writer = writer
        self.arrived: asyncio.Queue[tuple[int, str, bytes]] = asyncio.Queue(_AHEAD)
        self.listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                kind, step_size, size = _HEADER.unpack(await reader.readexactly(_HEADER.size))
                if kind not in (_FRAME, _STOP) or step_size > _MAX_STEP or size > MAX_FRAME:
                    raise ValueError("a header that no Colonnade writes")
                step = (await reader.readexactly(step_size)).decode()
                await self.arrived.put((kind, step, await reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.arrived.put((_STOP, "", b"its connection closed"))
        except ValueError as error:
            await self.arrived.put((_STOP, "", f"it sent {error}".encode()))


class SocketChannel:
    """One party's end of a loopback network; made by `connect`."""

    def __init__(self, name: str, peers: Mapping[str, _Peer]) -> None:
        self.name = name
        self._peers = peers

    async def send(self, to: str, step: str, frame: bytes) -> None:
        peer = self._peer(to)
        label = step.encode()
        try:
            peer.writer.write(_HEADER.pack(_FRAME, len(label), len(frame)) + label)
            peer.writer.write(frame)
            await peer.writer.drain()
        except ConnectionError:
            raise RemoteProtocolError(f"{self.name} at step {step!r}: {to} closed its connection") from None

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        try:
            kind, sent, frame = await asyncio.wait_for(self._peer(peer).arrived.get(), timeout)
        except TimeoutError:
            raise PeerTimeout(
                f"{self.name} waited {timeout:g} s at step {step!r} for {peer}, which sent nothing. "
                f"See whether {peer} still runs; a longer timeout goes into the job."
            ) from None
        if kind == _STOP:
            why = frame.decode(errors="replace") or "before it sent what was expected"
            raise RemoteProtocolError(f"{self.name} waits at step {step!r}, but {peer} stopped: {why}")
        if sent != step:
            raise RemoteProtocolError(f"{self.name} is at step {step!r} but {peer} sent {sent!r}")
        return frame

    def stop(self, reason: str | None) -> None:
        text = (reason or "").encode()
        for peer in self._peers.values():
            if not peer.writer.is_closing():
                peer.writer.write(_HEADER.pack(_STOP, 0, len(text)) + text)

    async def close(self) -> None:
        """Flush what is on its way and let the sockets go."""
        for peer in self._peers.values():
            peer.listening.cancel()
            peer.writer.close()
        for peer in self._peers.values():
            try:
                await peer.writer.wait_closed()
            except ConnectionError:
                continue

    def _peer(self, name: str) -> _Peer:
        if name not in self._peers:
            raise LocalProtocolError(
                f"{self.name} has no connection to {name!r}; its peers are {sorted(self._peers)}"
            )
        return self._peers[name]


async def connect(name: str, ports: Mapping[str, int], *, timeout: float = 30.0) -> SocketChannel:
    """This party's channel, once every other party of `ports` is there.

    Each party listens on its own port; of two parties, the one whose name sorts first calls the other.
    """
    arrived: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
    callers = {other for other in ports if other < name}
    complete = asyncio.Event()
    if not callers:
        complete.set()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            caller = (await reader.readline()).decode().strip()
        except (ConnectionError, UnicodeDecodeError, ValueError):
            caller = ""
        if caller not in callers or caller in arrived:
            writer.close()
            return
        arrived[caller] = (reader, writer)
        if callers <= set(arrived):
            complete.set()

    server = await asyncio.start_server(welcome, LOOPBACK, ports[name])
    try:
        async with asyncio.timeout(timeout):
            for other in ports:
                if other > name:
                    arrived[other] = await _call(name, ports[other])
            await complete.wait()
    except TimeoutError:
        missing = sorted(set(ports) - set(arrived) - {name})
        raise PeerTimeout(
            f"{name} waited {timeout:g} s for {', '.join(missing)} to be reachable on {LOOPBACK}. Start every party."
        ) from None
    finally:
        server.close()
    return SocketChannel(name, {other: _Peer(other, *streams) for other, streams in arrived.items()})


async def _call(name: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
        except ConnectionError:
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        writer.write(name.encode() + b"\n")
        await writer.drain()
        return reader, writer
