"""What every channel owes, held against each transport."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError
from colonnade.runtime.memory import memory_network
from colonnade.runtime.sockets import LOOPBACK, connect

NAMES = ("bank", "insurer", "server")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((LOOPBACK, 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@asynccontextmanager
async def memory():
    yield memory_network(NAMES)


@asynccontextmanager
async def sockets():
    ports = dict(zip(NAMES, free_ports(3), strict=True))
    channels = dict(zip(NAMES, await asyncio.gather(*(connect(name, ports) for name in NAMES)), strict=True))
    try:
        yield channels
    finally:
        for channel in channels.values():
            await channel.close()


@pytest.fixture(params=[memory, sockets], ids=["memory", "sockets"])
def network(request):
    return request.param


def on(network, scenario):
    async def main():
        async with network() as channels:
            return await asyncio.wait_for(scenario(channels), 20)

    return asyncio.run(main())


def test_frames_arrive_once_and_in_order(network):
    async def scenario(channels):
        for number in range(3):
            await channels["bank"].send("insurer", f"step {number}", bytes([number]) * number)
        return [await channels["insurer"].receive("bank", f"step {number}", 5) for number in range(3)]

    assert on(network, scenario) == [b"", b"\x01", b"\x02\x02"]


def test_large_frames_sent_by_both_at_once_do_not_block_each_other(network):
    async def talk(mine, other):
        await mine.send(other, "big", bytes(8_000_000))
        return len(await mine.receive(other, "big", 15))

    async def scenario(channels):
        return await asyncio.gather(talk(channels["bank"], "insurer"), talk(channels["insurer"], "bank"))

    assert on(network, scenario) == [8_000_000, 8_000_000]


def test_peers_do_not_hear_each_others_frames(network):
    async def scenario(channels):
        await channels["bank"].send("insurer", "x", b"for the insurer")
        await channels["bank"].send("server", "x", b"for the server")
        return await channels["server"].receive("bank", "x", 5), await channels["insurer"].receive(
            "bank", "x", 5
        )

    assert on(network, scenario) == (b"for the server", b"for the insurer")


def test_another_step_is_named(network):
    async def scenario(channels):
        await channels["bank"].send("insurer", "moments", b"")
        await channels["insurer"].receive("bank", "noise", 5)

    with pytest.raises(RemoteProtocolError, match="insurer is at step 'noise' but bank sent 'moments'"):
        on(network, scenario)


def test_silence_ends_in_a_timeout_that_names_the_peer(network):
    async def scenario(channels):
        await channels["insurer"].receive("bank", "noise", 0.05)

    with pytest.raises(PeerTimeout, match=r"insurer waited 0\.05 s at step 'noise' for bank"):
        on(network, scenario)


def test_a_peer_that_stops_gives_its_reason(network):
    async def scenario(channels):
        channels["bank"].stop("the budget is spent")
        await channels["insurer"].receive("bank", "noise", 5)

    with pytest.raises(RemoteProtocolError, match="bank stopped: the budget is spent"):
        on(network, scenario)


def test_what_was_sent_before_stopping_still_arrives(network):
    async def scenario(channels):
        await channels["bank"].send("insurer", "last", b"words")
        channels["bank"].stop(None)
        return await channels["insurer"].receive("bank", "last", 5)

    assert on(network, scenario) == b"words"


def test_a_stranger_is_a_local_error(network):
    async def scenario(channels):
        await channels["bank"].send("stranger", "x", b"")

    with pytest.raises(LocalProtocolError, match="no connection to 'stranger'"):
        on(network, scenario)


def test_a_socket_party_that_dies_is_noticed_at_once():
    async def scenario(channels):
        channels["bank"]._peers["insurer"].connection.shutdown(socket.SHUT_RDWR)
        await channels["insurer"].receive("bank", "noise", 10)

    with pytest.raises(RemoteProtocolError, match="bank stopped: its connection closed"):
        on(sockets, scenario)


def test_garbage_on_a_socket_is_refused():
    async def scenario(channels):
        channels["bank"]._peers["insurer"].connection.send(b"\xff" * 64)
        await channels["insurer"].receive("bank", "noise", 5)

    with pytest.raises(RemoteProtocolError, match="it sent a header that no Colonnade writes"):
        on(sockets, scenario)


def test_a_party_that_never_comes_is_named():
    ports = dict(zip(("bank", "insurer"), free_ports(2), strict=True))
    with pytest.raises(PeerTimeout, match=r"bank waited 0\.2 s for insurer"):
        asyncio.run(connect("bank", ports, timeout=0.2))


def test_uninvited_callers_are_turned_away():
    async def scenario():
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
