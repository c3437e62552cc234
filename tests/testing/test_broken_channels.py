"""For every law of channels a channel that breaks it, and the suite names the law."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typed import untyped

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime.channel import Channel, memory_network
from colonnade.testing import ConformanceError, channels, check_channel


class Sound:
    """A channel in memory, to be broken in one way."""

    def __init__(self, name: str, inner: Channel, ends: dict[str, Any]) -> None:
        self.name, self.inner, self.ends = name, inner, ends

    async def send(self, to: str, step: str, frame: bytes) -> None:
        await self.inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return await self.inner.receive(peer, step, timeout)

    def stop(self, reason: str | None) -> None:
        self.inner.stop(reason)


class Repeats(Sound):
    """Sends the last of twenty frames twice."""

    sent = 0

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self.sent += 1
        await self.inner.send(to, step, frame)
        if self.sent == 20:
            await self.inner.send(to, "nothing", frame)


class OneWay(Sound):
    """What the shop sends arrives empty."""

    async def send(self, to: str, step: str, frame: bytes) -> None:
        await self.inner.send(to, step, b"" if self.name == "shop" else frame)


class Mixes(Sound):
    """Five parties, and the insurer is taken for the clinic."""

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        used = {"insurer": "clinic", "clinic": "insurer"}.get(peer, peer)
        return await self.inner.receive(peer if self.name in ("insurer", "clinic") else used, step, timeout)


class Cuts(Sound):
    """Frames end after seven mebibytes."""

    async def send(self, to: str, step: str, frame: bytes) -> None:
        await self.inner.send(to, step, frame[: 7 << 20])


class Unbounded(Sound):
    """Takes whatever it is given, at once."""

    def __init__(self, name: str, inner: Channel, ends: dict[str, Any]) -> None:
        super().__init__(name, inner, ends)
        self.waiting: list[asyncio.Task[None]] = []
        self.turn = asyncio.Lock()

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self.waiting.append(asyncio.create_task(self._later(to, step, frame)))

    async def _later(self, to: str, step: str, frame: bytes) -> None:
        async with self.turn:
            await self.inner.send(to, step, frame)


class Unlabelled(Sound):
    """Every frame is for whatever step the receiver is at."""

    async def send(self, to: str, step: str, frame: bytes) -> None:
        await self.inner.send(to, "any", frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return await self.inner.receive(peer, "any", timeout)


class Nameless(Sound):
    """Says that nothing came, but not from whom."""

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        try:
            return await self.inner.receive(peer, step, timeout)
        except PeerTimeout:
            raise PeerTimeout("nothing came") from None


class Offended(Sound):
    """After one timeout it hears nothing more."""

    offended = False

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        if self.offended:
            raise RemoteProtocolError(f"{self.name}: {peer} was late before")
        try:
            return await self.inner.receive(peer, step, timeout)
        except PeerTimeout:
            self.offended = step != "nothing" or timeout < 1
            raise


class Interrupted(Sound):
    """A cancelled receive takes the next frame with it."""

    lost = False

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        if self.lost:
            self.lost = False
            await self.inner.receive(peer, step, timeout)
            timeout = 0.01
        try:
            return await self.inner.receive(peer, step, timeout)
        except asyncio.CancelledError:
            self.lost = True
            raise


class Reticent(Sound):
    """Leaves without a reason."""

    def stop(self, reason: str | None) -> None:
        self.inner.stop(None)


class Silent(Sound):
    """Having finished, it is like one who has nothing to say yet."""

    finished = False

    def stop(self, reason: str | None) -> None:
        self.finished = reason is None
        if reason is not None:
            self.inner.stop(reason)

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        waits_in_vain = peer in self.ends and self.ends[peer].finished
        return await self.inner.receive(peer, step, 0.01 if waits_in_vain else timeout)


class Hasty(Sound):
    """Leaving, it takes back what was not read yet."""

    def stop(self, reason: str | None) -> None:
        inner = untyped(self.inner)
        for box in inner._boxes.values():
            if inner.name in box._lines:
                box._lines[inner.name].whole.clear()
        self.inner.stop(reason)


class Contagious(Sound):
    """When one leaves with a reason, all are gone."""

    gone = False

    async def send(self, to: str, step: str, frame: bytes) -> None:
        if not self.gone:
            await self.inner.send(to, step, frame)

    def stop(self, reason: str | None) -> None:
        for end in self.ends.values() if reason == "its own reasons" else ():
            end.gone = True
            end.inner.stop(reason)
        self.inner.stop(reason)


class Welcoming(Sound):
    """Sends to anybody."""

    async def send(self, to: str, step: str, frame: bytes) -> None:
        if to != "stranger":
            await self.inner.send(to, step, frame)


class Once(Sound):
    """Cannot be stopped twice."""

    stopped = False

    def stop(self, reason: str | None) -> None:
        if self.stopped and reason is None:
            raise ValueError("stopped already")
        self.stopped = reason == "first"
        self.inner.stop(reason)


def network(kind: type[Sound]) -> channels.Network:
    @asynccontextmanager
    async def connected(names: tuple[str, ...]) -> Any:
        ends: dict[str, Any] = {}
        for name, inner in memory_network(names).items():
            ends[name] = kind(name, inner, ends)
        yield ends

    return connected


LEFT: list[Any] = []
BROKEN: dict[str, type[Sound]] = {
    "frames arrive once and in order": Repeats,
    "frames go both ways": OneWay,
    "each of many parties hears its own frames only": Mixes,
    "large frames sent by both at once arrive whole": Cuts,
    "a sender far ahead is held back": Unbounded,
    "a frame of another step is refused and both steps are named": Unlabelled,
    "silence ends in a timeout that names the peer": Nameless,
    "what comes after a timeout still arrives": Offended,
    "a cancelled receive loses nothing": Interrupted,
    "a peer that stops gives its reason": Reticent,
    "a peer that finished too early is named": Silent,
    "what was sent before stopping still arrives": Hasty,
    "those who did not stop still talk": Contagious,
    "a stranger is a local error": Welcoming,
    "stopping twice is stopping": Once,
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_channel_that_breaks_a_law_is_caught_by_it(law: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_channel(network(BROKEN[law]))
    assert caught.value.law == law
    assert "expected" in str(caught.value) and "found" in str(caught.value)


def test_every_law_has_a_channel_that_breaks_it() -> None:
    assert set(BROKEN) == set(channels.LAWS)


def test_the_channel_that_was_broken_is_sound_before() -> None:
    check_channel(network(Sound))


class Unnoticed(Sound):
    """One who is gone is waited for like one who is slow."""

    gone = False

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        for _ in range(max(1, int(timeout / 0.05))):
            try:
                return await self.inner.receive(peer, step, min(timeout, 0.05))
            except PeerTimeout:
                if self.gone:
                    break
        raise PeerTimeout(f"{self.name} waited at step {step!r} for {peer}")


def test_a_peer_that_is_gone_and_is_not_noticed_is_caught() -> None:
    async def vanish(ends: Any, name: str) -> None:
        for end in ends.values():
            end.gone = True

    with pytest.raises(ConformanceError) as caught:
        check_channel(network(Unnoticed), vanish=vanish)
    assert caught.value.law == channels.GONE


def test_tasks_that_go_on_after_closing_are_caught() -> None:
    def lingering(names: tuple[str, ...]) -> Any:
        @asynccontextmanager
        async def context() -> Any:
            yield memory_network(names)
            LEFT.append(asyncio.create_task(asyncio.sleep(60)))

        return context()

    with pytest.raises(ConformanceError) as caught:
        check_channel(lingering)
    assert caught.value.law == channels.CLOSED


def test_an_error_that_nobody_foresaw_is_a_breach_too() -> None:
    class Fails(Sound):
        async def send(self, to: str, step: str, frame: bytes) -> None:
            raise OSError("no route")

    with pytest.raises(ConformanceError, match="found OSError: no route"):
        check_channel(network(Fails))
