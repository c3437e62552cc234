"""For every law of channels a channel that breaks it, and the suite names the law."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from broken import broken_law
from typed import untyped

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime.channel import Channel, memory_network
from colonnade.testing import ConformanceError, channels, check_channel


class Sound:
    """A channel in memory, to be broken in one way; `state` is for what a broken one remembers."""

    def __init__(self, name: str, inner: Channel, ends: dict[str, Any]) -> None:
        self.name, self.inner, self.ends = name, inner, ends
        self.state: Any = 0

    async def send(self, to: str, step: str, frame: bytes) -> None:
        await self.inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return await self.inner.receive(peer, step, timeout)

    def stop(self, reason: str | None) -> None:
        self.inner.stop(reason)


def broken(**methods: Any) -> type[Sound]:
    return type("Broken", (Sound,), methods)


async def twice_at_last(end: Sound, to: str, step: str, frame: bytes) -> None:
    end.state += 1
    await end.inner.send(to, step, frame)
    if end.state == 20:
        await end.inner.send(to, "nothing", frame)


async def empty_from_the_shop(end: Sound, to: str, step: str, frame: bytes) -> None:
    await end.inner.send(to, step, b"" if end.name == "shop" else frame)


async def insurer_for_clinic(end: Sound, peer: str, step: str, timeout: float) -> Any:
    mixed = {"insurer": "clinic", "clinic": "insurer"}.get(peer, peer)
    return await end.inner.receive(peer if end.name in ("insurer", "clinic") else mixed, step, timeout)


async def cut_after_seven_mebibytes(end: Sound, to: str, step: str, frame: bytes) -> None:
    await end.inner.send(to, step, frame[: 7 << 20])


async def at_once(end: Sound, to: str, step: str, frame: bytes) -> None:
    end.state = end.state or (asyncio.Lock(), [])
    turn, waiting = end.state

    async def later() -> None:
        async with turn:
            await end.inner.send(to, step, frame)

    waiting.append(asyncio.create_task(later()))


async def for_any_step(end: Sound, to: str, step: str, frame: bytes) -> None:
    await end.inner.send(to, "any", frame)


async def at_any_step(end: Sound, peer: str, step: str, timeout: float) -> Any:
    return await end.inner.receive(peer, "any", timeout)


async def from_nobody(end: Sound, peer: str, step: str, timeout: float) -> Any:
    try:
        return await end.inner.receive(peer, step, timeout)
    except PeerTimeout:
        raise PeerTimeout("nothing came") from None


async def nothing_more_after_a_timeout(end: Sound, peer: str, step: str, timeout: float) -> Any:
    if end.state:
        raise RemoteProtocolError(f"{end.name}: {peer} was late before")
    try:
        return await end.inner.receive(peer, step, timeout)
    except PeerTimeout:
        end.state = step != "nothing" or timeout < 1
        raise


async def lost_if_cancelled(end: Sound, peer: str, step: str, timeout: float) -> Any:
    if end.state:
        end.state = False
        await end.inner.receive(peer, step, timeout)
        timeout = 0.01
    try:
        return await end.inner.receive(peer, step, timeout)
    except asyncio.CancelledError:
        end.state = True
        raise


def finished_in_silence(end: Sound, reason: str | None) -> None:
    end.state = reason is None
    if reason is not None:
        end.inner.stop(reason)


async def waits_for_the_finished(end: Sound, peer: str, step: str, timeout: float) -> Any:
    in_vain = peer in end.ends and end.ends[peer].state
    return await end.inner.receive(peer, step, 0.01 if in_vain else timeout)


def takes_back_what_was_not_read(end: Sound, reason: str | None) -> None:
    inner = untyped(end.inner)
    for box in inner._boxes.values():
        if inner.name in box._lines:
            box._lines[inner.name].whole.clear()
    end.inner.stop(reason)


def all_leave_with_one(end: Sound, reason: str | None) -> None:
    for other in end.ends.values() if reason == "its own reasons" else ():
        other.state = "gone"
        other.inner.stop(reason)
    end.inner.stop(reason)


async def unless_gone(end: Sound, to: str, step: str, frame: bytes) -> None:
    if not end.state:
        await end.inner.send(to, step, frame)


async def to_strangers(end: Sound, to: str, step: str, frame: bytes) -> None:
    if to != "stranger":
        await end.inner.send(to, step, frame)


def stops_once(end: Sound, reason: str | None) -> None:
    if end.state and reason is None:
        raise ValueError("stopped already")
    end.state = reason == "first"
    end.inner.stop(reason)


def network(kind: type[Sound]) -> channels.Network:
    @asynccontextmanager
    async def connected(names: tuple[str, ...]) -> Any:
        ends: dict[str, Any] = {}
        for name, inner in memory_network(names).items():
            ends[name] = kind(name, inner, ends)
        yield ends

    return connected


LEFT: list[Any] = []
BROKEN: dict[str, dict[str, Any]] = {
    "frames arrive once and in order": {"send": twice_at_last},
    "frames go both ways": {"send": empty_from_the_shop},
    "each of many parties hears its own frames only": {"receive": insurer_for_clinic},
    "large frames sent by both at once arrive whole": {"send": cut_after_seven_mebibytes},
    "a sender far ahead is held back": {"send": at_once},
    "a frame of another step is refused and both steps are named": {
        "send": for_any_step,
        "receive": at_any_step,
    },
    "silence ends in a timeout that names the peer": {"receive": from_nobody},
    "what comes after a timeout still arrives": {"receive": nothing_more_after_a_timeout},
    "a cancelled receive loses nothing": {"receive": lost_if_cancelled},
    "a peer that stops gives its reason": {"stop": lambda end, reason: end.inner.stop(None)},
    "a peer that finished too early is named": {
        "stop": finished_in_silence,
        "receive": waits_for_the_finished,
    },
    "what was sent before stopping still arrives": {"stop": takes_back_what_was_not_read},
    "those who did not stop still talk": {"stop": all_leave_with_one, "send": unless_gone},
    "a stranger is a local error": {"send": to_strangers},
    "stopping twice is stopping": {"stop": stops_once},
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_channel_that_breaks_a_law_is_caught_by_it(law: str) -> None:
    assert broken_law(check_channel, network(broken(**BROKEN[law]))) == law


def test_every_law_has_a_channel_that_breaks_it_and_the_one_that_was_broken_has_none() -> None:
    assert set(BROKEN) == set(channels.LAWS)
    check_channel(network(Sound))


def test_a_peer_that_is_gone_and_is_not_noticed_is_caught() -> None:
    async def waits_as_for_the_slow(end: Sound, peer: str, step: str, timeout: float) -> Any:
        for _ in range(max(1, int(timeout / 0.05))):
            try:
                return await end.inner.receive(peer, step, min(timeout, 0.05))
            except PeerTimeout:
                if end.state:
                    break
        raise PeerTimeout(f"{end.name} waited at step {step!r} for {peer}")

    async def vanish(ends: Any, name: str) -> None:
        for end in ends.values():
            end.state = "gone"

    unnoticed = network(broken(receive=waits_as_for_the_slow))
    assert broken_law(check_channel, unnoticed, vanish=vanish) == channels.GONE


def test_tasks_that_go_on_after_closing_are_caught() -> None:
    @asynccontextmanager
    async def lingering(names: tuple[str, ...]) -> Any:
        yield memory_network(names)
        LEFT.append(asyncio.create_task(asyncio.sleep(60)))

    assert broken_law(check_channel, lingering) == channels.CLOSED


def test_an_error_that_nobody_foresaw_is_a_breach_too() -> None:
    async def fails(end: Sound, to: str, step: str, frame: bytes) -> None:
        raise OSError("no route")

    with pytest.raises(ConformanceError, match="found OSError: no route"):
        check_channel(network(broken(send=fails)))
