"""Parties as separate processes on one machine: a channel over loopback TCP.

For trying a federation out and for measuring it. Sockets here are neither encrypted nor authenticated, so they
are bound to the loopback address and to nothing else.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError
from colonnade.runtime.channel import Frame, readable
from colonnade.runtime.wire import MAX_FRAME

LOOPBACK = "127.0.0.1"
# Frames taken off a socket before the party asks for them, so that two parties that both send first do not
# wait for each other.
_AHEAD = 4
_HEADER = struct.Struct("<BHQ")
_FRAME, _STOP = 0, 1
_MAX_STEP = 1 << 12
_MAX_NAME = 1 << 8
_MAX_REASON = 1 << 12
_RETRY_SECONDS = 0.05
_FAREWELL_SECONDS = 5.0


class _Peer:
    """One connection, without a buffer of its own: frames are sent from and received to where they stay."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.arrived: asyncio.Queue[tuple[int, str, Frame]] = asyncio.Queue(_AHEAD)
        self.listening = asyncio.create_task(self._listen())
        self._turn = asyncio.Lock()
        self._whole = True

    async def send(self, kind: int, step: str, frame: bytes) -> None:
        label, loop = step.encode(), asyncio.get_running_loop()
        async with self._turn:
            if not self._whole:
                # A send was cancelled in the middle of its frame: nothing after it would be understood.
                raise ConnectionError
            self._whole = False
            await loop.sock_sendall(self.connection, _HEADER.pack(kind, len(label), len(frame)) + label)
            await loop.sock_sendall(self.connection, frame)
            self._whole = True

    async def _listen(self) -> None:
        try:
            while True:
                kind, step_size, size = _HEADER.unpack(await self._exactly(_HEADER.size))
                most = MAX_FRAME if kind == _FRAME else _MAX_REASON
                if kind not in (_FRAME, _STOP) or step_size > _MAX_STEP or size > most:
                    raise ValueError("a header that no Colonnade writes")
                step = (await self._exactly(step_size)).decode()
                await self.arrived.put((kind, step, await self._exactly(size)))
        except (EOFError, ConnectionError):
            await self.arrived.put((_STOP, "", b"its connection closed"))
        except ValueError as error:
            await self.arrived.put((_STOP, "", f"it sent {error}".encode()))

    async def _exactly(self, size: int) -> bytearray:
        loop, data = asyncio.get_running_loop(), bytearray(size)
        rest = memoryview(data)
        while rest:
            count = await loop.sock_recv_into(self.connection, rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return data


class SocketChannel:
    """One party's end of a loopback network; made by `connect`."""

    def __init__(self, name: str, peers: Mapping[str, _Peer]) -> None:
        self.name = name
        self._peers = peers
        self._farewells: list[asyncio.Task[None]] = []

    async def send(self, to: str, step: str, frame: bytes) -> None:
        peer = self._peer(to)
        try:
            await peer.send(_FRAME, step, frame)
        except ConnectionError:
            raise RemoteProtocolError(f"{self.name} at step {step!r}: {to} closed its connection") from None

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        try:
            kind, sent, frame = await asyncio.wait_for(self._peer(peer).arrived.get(), timeout)
        except TimeoutError:
            raise PeerTimeout(
                f"{self.name} waited {timeout:g} s at step {step!r} for {peer}, which sent nothing. "
                f"See whether {peer} still runs; a longer timeout goes into the job."
            ) from None
        if kind == _STOP:
            why = readable(frame.decode(errors="replace")) or "before it sent what was expected"
            raise RemoteProtocolError(f"{self.name} waits at step {step!r}, but {peer} stopped: {why}")
        if sent != step:
            raise RemoteProtocolError(f"{self.name} is at step {step!r} but {peer} sent {sent!r}")
        return frame

    def stop(self, reason: str | None) -> None:
        text = (reason or "").encode()[:_MAX_REASON]
        self._farewells += [asyncio.create_task(peer.send(_STOP, "", text)) for peer in self._peers.values()]

    async def close(self) -> None:
        """Finish what is on its way, as long as peers take it, and let the sockets go."""
        if self._farewells:
            _, late = await asyncio.wait(self._farewells, timeout=_FAREWELL_SECONDS)
            for farewell in late:
                farewell.cancel()
            await asyncio.gather(*self._farewells, return_exceptions=True)
        for peer in self._peers.values():
            peer.listening.cancel()
        await asyncio.gather(*(peer.listening for peer in self._peers.values()), return_exceptions=True)
        for peer in self._peers.values():
            peer.connection.close()

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
    arrived: dict[str, socket.socket] = {}
    door = _Door({other for other in ports if other < name}, arrived)
    listener = socket.create_server((LOOPBACK, ports[name]))
    listener.setblocking(False)
    opening = asyncio.create_task(door.open(listener))
    try:
        async with asyncio.timeout(timeout):
            for other in ports:
                if other > name:
                    arrived[other] = await _call(name, ports[other])
            await door.complete.wait()
    except TimeoutError:
        for connection in arrived.values():
            connection.close()
        missing = sorted(set(ports) - set(arrived) - {name})
        raise PeerTimeout(
            f"{name} waited {timeout:g} s for {', '.join(missing)} to be reachable on {LOOPBACK}. Start every party."
        ) from None
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        listener.close()
    return SocketChannel(name, {other: _Peer(connection) for other, connection in arrived.items()})


class _Door:
    """Lets the expected callers in, each once, and turns everybody else away."""

    def __init__(self, callers: set[str], arrived: dict[str, socket.socket]) -> None:
        self._callers, self._arrived = callers, arrived
        self.complete = asyncio.Event()
        if not callers:
            self.complete.set()

    async def open(self, listener: socket.socket) -> None:
        async with asyncio.TaskGroup() as callers:
            while True:
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
                callers.create_task(self._welcome(connection))

    async def _welcome(self, connection: socket.socket) -> None:
        caller, let_in = b"", False
        try:
            while not caller.endswith(b"\n") and len(caller) < _MAX_NAME:
                piece = await asyncio.get_running_loop().sock_recv(connection, 1)
                if not piece:
                    return
                caller += piece
            name = caller.decode(errors="replace").strip()
            if name in self._callers and name not in self._arrived:
                self._arrived[name], let_in = _without_delay(connection), True
        except ConnectionError:
            return
        finally:
            if not let_in:
                connection.close()
        if self._callers <= set(self._arrived):
            self.complete.set()


async def _call(name: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    while True:
        connection = socket.socket()
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, (LOOPBACK, port))
            await loop.sock_sendall(connection, name.encode() + b"\n")
        except ConnectionError:
            connection.close()
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        except BaseException:
            connection.close()
            raise
        return _without_delay(connection)


def _without_delay(connection: socket.socket) -> socket.socket:
    # A header goes out at once instead of waiting for the frame behind it to fill a packet.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
