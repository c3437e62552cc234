"""The contract with FLARE's messaging: what the channel needs of it, on FLARE's own cells."""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import nvflare
import pytest
from cells import addresses, cells, stop
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.sites import flare as flare_module
from colonnade.sites.flare import FlareChannel
from colonnade.testing import check_channel

NAMES = ("server", "bank", "shop")


@asynccontextmanager
async def opened(names: tuple[str, ...], made: dict[str, Any]) -> AsyncIterator[dict[str, FlareChannel]]:
    channels = {name: FlareChannel(name, made[name], addresses(made)) for name in names}
    await asyncio.gather(*(channel.open(20) for channel in channels.values()))
    try:
        yield channels
    finally:
        await asyncio.gather(*(channel.close() for channel in channels.values()))


def talk(
    program: Callable[[dict[str, FlareChannel], dict[str, Any]], Awaitable[Any]],
    *,
    relay: Callable[[Any], Any] | None = None,
) -> Any:
    async def main() -> Any:
        with cells(NAMES[1:], relay=relay) as made:
            async with opened(NAMES, made) as channels:
                return await program(channels, made)

    return asyncio.run(main())


def frames(message: Any) -> bool:
    return bool(message.get_header("of"))


async def refusal(channel: FlareChannel, peer: str) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        await channel.receive(peer, "columns 3", 600)
    return str(caught.value)


def test_the_pinned_release_of_flare_is_the_one_that_is_tested() -> None:
    assert nvflare.__version__ == "2.9.0"


@asynccontextmanager
async def flare(names: tuple[str, ...]) -> AsyncIterator[dict[str, FlareChannel]]:
    with cells(tuple(name for name in names if name != "server")) as made:
        async with opened(names, made) as channels:
            yield channels


def test_every_law_of_channels_holds_between_sites_and_with_the_server() -> None:
    check_channel(flare)


def test_large_frames_go_in_pieces_and_a_slow_receiver_slows_the_sender_down() -> None:
    large = bytes(range(256)) * (36 << 10)

    async def program(channels: dict[str, FlareChannel], made: Any) -> int:
        async def sender() -> None:
            for number in range(8):
                await channels["bank"].send("shop", str(number), large)

        sending = asyncio.create_task(sender())
        await asyncio.sleep(0.5)
        ahead = channels["bank"]._sent["shop"]
        for number in range(8):
            assert await channels["shop"].receive("bank", str(number), 20) == large
        await sending
        return ahead

    assert talk(program) <= 5


def test_what_the_relay_loses_is_sent_again() -> None:
    lost: list[int] = []

    def relay(message: Any) -> Any:
        if frames(message) and len(lost) < 4:
            lost.append(1)
            time.sleep(0.05)
            return make_reply(ReturnCode.TIMEOUT)
        return None

    async def program(channels: dict[str, FlareChannel], made: Any) -> list[bytes]:
        for number in range(4):
            await channels["bank"].send("shop", "s", bytes([number]))
        return [await channels["shop"].receive("bank", "s", 10) for _ in range(4)]

    assert talk(program, relay=relay) == [bytes([number]) for number in range(4)]
    assert len(lost) == 4


def test_a_peer_whose_process_is_gone_is_named_long_before_the_timeout() -> None:
    async def program(channels: dict[str, FlareChannel], made: Any) -> None:
        threading.Thread(target=stop, args=(made["shop"],), daemon=True).start()
        with pytest.raises(RemoteProtocolError, match="bank waits at step 'columns 3', but shop stopped"):
            await channels["bank"].receive("shop", "columns 3", 60)
        with pytest.raises(RemoteProtocolError, match=r"bank at step 'noise': shop .*cannot be reached"):
            await channels["bank"].send("shop", "noise", b"x")

    talk(program)


def test_a_peer_that_is_cut_off_is_named_long_before_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flare_module, "SILENCE_SECONDS", 2.0)
    monkeypatch.setattr(flare_module, "_PING_PATIENCE", 1.0)
    cut: list[str] = []

    def relay(message: Any) -> Any:
        """Nothing passes between the shop and anybody, and nobody is told."""
        ends = {
            message.get_header(key).split(".")[0]
            for key in (MessageHeaderKey.ORIGIN, MessageHeaderKey.DESTINATION)
        }
        return make_reply(ReturnCode.TIMEOUT) if cut and "shop" in ends else None

    async def program(channels: dict[str, FlareChannel], made: Any) -> tuple[str, str]:
        cut.append("shop")
        return await refusal(channels["bank"], "shop"), await refusal(channels["shop"], "bank")

    at_bank, at_shop = talk(program, relay=relay)
    assert "shop stopped: it has not answered for 2 s" in at_bank and "own connection" not in at_bank
    assert "bank stopped: it has not answered for 2 s" in at_shop


def test_where_the_relay_is_gone_it_is_named_beside_whoever_was_waited_for() -> None:
    async def program(channels: dict[str, FlareChannel], made: Any) -> str:
        threading.Thread(target=stop, args=(made["server"],), daemon=True).start()
        return await refusal(channels["bank"], "shop")

    assert re.search(r"shop stopped: its process .*, nor did server answer", talk(program))


def test_a_peer_that_is_gone_is_blamed_and_not_the_connection_that_others_just_spoke_over() -> None:
    """The server notices too, says so and leaves: nobody is left to ask, and nothing is wrong with the connection."""

    async def program(channels: dict[str, FlareChannel], made: Any) -> str:
        channels["server"].stop("shop stopped: its process cannot be reached any more")
        await asyncio.gather(*channels["server"]._farewells)
        await asyncio.get_running_loop().run_in_executor(None, stop, made["shop"])
        return await refusal(channels["bank"], "shop")

    announced = talk(program)
    assert announced.startswith(
        "bank waits at step 'columns 3', but shop stopped: its process cannot be reached"
    )
    assert "connection" not in announced and "server" not in announced


def test_whoever_is_slow_to_answer_when_a_peer_is_lost_is_not_lost_too() -> None:
    slow: list[str] = []

    def relay(message: Any) -> Any:
        """The server takes longer than a second for everything, as on a busy machine."""
        if slow and message.get_header(MessageHeaderKey.DESTINATION) == "server":
            time.sleep(1.5)
        return None

    async def program(channels: dict[str, FlareChannel], made: Any) -> str:
        slow.append("server")
        await asyncio.get_running_loop().run_in_executor(None, stop, made["shop"])
        return await refusal(channels["bank"], "shop")

    announced = talk(program, relay=relay)
    assert "shop stopped: its process cannot be reached any more" in announced
    assert "connection" not in announced and "server" not in announced


def test_a_peer_that_stops_says_why_without_moving_the_cursor() -> None:
    async def program(channels: dict[str, FlareChannel], made: Any) -> None:
        channels["shop"].stop("no\x1b[2Jbudget")
        with pytest.raises(RemoteProtocolError, match=r"shop stopped: no \[2Jbudget"):
            await channels["bank"].receive("shop", "s", 10)

    talk(program)


def test_whoever_waits_when_a_job_is_stopped_learns_who_is_gone() -> None:
    async def program(channels: dict[str, FlareChannel], made: Any) -> None:
        waiting = asyncio.create_task(channels["server"].receive("bank", "finished", 60))
        await asyncio.get_running_loop().run_in_executor(None, stop, made["shop"])
        await channels["server"].interrupt("the job was stopped by its server")
        with pytest.raises(RemoteProtocolError) as caught:
            await waiting
        # The engine stops a job for everybody when one member dies: that one is the reason, and not the server.
        announced = "server waits at step 'finished' for bank: shop cannot be reached any more, so the job was stopped"
        assert str(caught.value) == announced
        await channels["bank"].interrupt("the job was stopped by its server")

    talk(program)


def test_a_member_that_never_comes_is_named_and_not_asked_before_it_has_called() -> None:
    requested: list[str] = []

    def relay(message: Any) -> None:
        requested.append(message.get_header(MessageHeaderKey.DESTINATION))

    with cells(("bank",), relay=relay) as made:
        everybody = {**addresses(made), "shop": "shop"}
        FlareChannel("server", made["server"], everybody)
        channel = FlareChannel("bank", made["bank"], everybody)
        with pytest.raises(PeerTimeout, match=r"bank waited 2 s at step 'joining' for shop"):
            asyncio.run(channel.open(2))
    assert "server" in requested and "shop" not in requested


@pytest.mark.parametrize(
    "headers",
    [{}, {"number": "0", "index": 0, "of": 1, "step": "s"}, {"number": 0, "index": 0, "of": 1, "step": 7}],
    ids=json.dumps,
)
def test_requests_of_another_shape_are_refused(headers: dict[str, Any]) -> None:
    from nvflare.fuel.f3.cellnet.utils import new_cell_message

    async def program(channels: dict[str, FlareChannel], made: Any) -> str:
        def ask() -> Any:
            message = new_cell_message(dict(headers), b"x")
            return made["shop"].core_cell.send_request(
                "colonnade", "frame", addresses(made)["bank"], message, 5
            )

        reply = await asyncio.get_running_loop().run_in_executor(None, ask)
        return str(reply.get_header("cn__return_code"))

    assert talk(program) == ReturnCode.INVALID_REQUEST
