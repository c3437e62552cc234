"""Every transport keeps every law of channels; and what only sockets have to fear."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from channel_networks import free_ports, logged, memory, sealed, sockets, unplug
from loopback import LOOPBACK, SocketChannel, connect

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.testing import check_channel

NAMES = ("bank", "insurer", "server")


@pytest.mark.parametrize(
    ("network", "vanish"),
    [(memory, None), (logged, None), (sealed, None), (sockets, unplug)],
    ids=["memory", "logged", "sealed", "sockets"],
)
def test_every_law_of_channels_holds(network: Callable[..., Any], vanish: Any) -> None:
    check_channel(network, vanish=vanish)


def on(network: Callable[..., Any], scenario: Callable[..., Any]) -> Any:
    async def main() -> Any:
        async with network(NAMES) as channels:
            return await asyncio.wait_for(scenario(channels), 20)

    return asyncio.run(main())


def test_garbage_on_a_socket_is_refused() -> None:
    async def scenario(channels: dict[str, SocketChannel]) -> None:
        channels["bank"]._peers["insurer"].connection.send(b"\xff" * 64)
        await channels["insurer"].receive("bank", "noise", 5)

    with pytest.raises(RemoteProtocolError, match="it sent a header that no Colonnade writes"):
        on(sockets, scenario)


def test_a_party_that_never_comes_is_named() -> None:
    ports = dict(zip(("bank", "insurer"), free_ports(2), strict=True))
    with pytest.raises(PeerTimeout, match=r"bank waited 0\.2 s for insurer"):
        asyncio.run(connect("bank", ports, timeout=0.2))


def test_uninvited_callers_are_turned_away() -> None:
    async def scenario() -> tuple[bytes, bytes | bytearray]:
        ports = dict(zip(("bank", "insurer"), free_ports(2), strict=True))
        waiting = asyncio.create_task(connect("insurer", ports, timeout=5))
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection(LOOPBACK, ports["insurer"])
        writer.write(b"mallory\n")
        turned_away = await reader.read()
        writer.close()
        bank = await connect("bank", ports, timeout=5)
        insurer = await waiting
        await bank.send("insurer", "x", b"hello")
        heard = await insurer.receive("bank", "x", 5)
        await bank.close()
        await insurer.close()
        return turned_away, heard

    assert asyncio.run(scenario()) == (b"", b"hello")
