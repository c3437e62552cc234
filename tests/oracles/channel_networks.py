"""Every transport as the suite for channels takes it: an asynchronous context in which all names are connected."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache

from certificates import Root
from loopback import LOOPBACK, SocketChannel, connect

from colonnade.runtime.channel import Channel, LoggedChannel, memory_network
from colonnade.runtime.identity import Identity, Trust, seal

Ends = Mapping[str, Channel]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((LOOPBACK, 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@asynccontextmanager
async def memory(names: tuple[str, ...]) -> AsyncIterator[Ends]:
    """Queues in one process."""
    yield memory_network(names)


@asynccontextmanager
async def logged(names: tuple[str, ...]) -> AsyncIterator[Ends]:
    """The same with a diary at every end."""
    yield {name: LoggedChannel(end, lambda facts: None) for name, end in memory_network(names).items()}


@asynccontextmanager
async def sockets(names: tuple[str, ...]) -> AsyncIterator[Mapping[str, SocketChannel]]:
    """Loopback connections."""
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    ends = dict(zip(names, await asyncio.gather(*(connect(name, ports) for name in names)), strict=True))
    try:
        yield ends
    finally:
        for end in ends.values():
            await end.close()


async def unplug(ends: Ends, name: str) -> None:
    """End one party of a loopback network as a crash would."""
    end = ends[name]
    assert isinstance(end, SocketChannel)
    for peer in end._peers.values():
        peer.connection.shutdown(socket.SHUT_RDWR)


@cache
def _identities(names: tuple[str, ...]) -> tuple[Trust, dict[str, Identity]]:
    root = Root.make()
    return Trust(root.certificate), {name: root.issue(name) for name in names}


@asynccontextmanager
async def sealed(names: tuple[str, ...]) -> AsyncIterator[Ends]:
    """Sealed lines over queues."""
    inner = memory_network(names)
    trust, identities = _identities(names)
    ends = await asyncio.gather(
        *(seal(inner[name], name, names, job="job", identity=identities[name], trust=trust) for name in names)
    )
    yield dict(zip(names, ends, strict=True))
