"""What every channel owes: each frame once, in order, to its receiver alone, and an end that is told from silence.

None of these laws passes or fails by the speed of a machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError
from colonnade.randomness import SeededRandomness
from colonnade.runtime.channel import Channel, Frame
from colonnade.testing.laws import Broken, expect, expect_named, law_check

Ends: TypeAlias = Mapping[str, Channel]
Network: TypeAlias = Callable[[tuple[str, ...]], AbstractAsyncContextManager[Ends]]
Vanish: TypeAlias = Callable[[Ends, str], Awaitable[None]]
Law: TypeAlias = Callable[[Ends], Awaitable[None]]

NAMES = ("server", "bank", "shop", "clinic", "insurer")
BIG = 8 << 20
MANY, CHUNK = 32, 1 << 20
_SHORT = 0.05  # what is not there will not come
_LONG = 60.0  # what is there comes long before


def check_channel(network: Network, *, vanish: Vanish | None = None, names: tuple[str, ...] = NAMES) -> None:
    """Hold a transport to every law of `colonnade.runtime.channel.Channel`.

    `network(names)` is an asynchronous context in which every name has its end of the channel; leaving it closes
    them. `vanish(ends, name)` ends a party as a crash would, without a word; leave it out where parties cannot crash
    apart. Not to be called while an event loop runs in this thread.
    """
    laws = dict(LAWS)
    if vanish is not None:
        laws[GONE] = _gone(vanish)
    for name, law in laws.items():
        with law_check(name):
            asyncio.run(_on(network, names, law))

    async def closed() -> None:
        await _on(network, names, _both_ways)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        expect(not left, "no task", f"{len(left)}, the first of them {left[0].get_name() if left else ''}")

    with law_check(CLOSED):
        asyncio.run(closed())


async def _on(network: Network, names: tuple[str, ...], law: Law) -> None:
    async with network(names) as ends:
        async with asyncio.timeout(4 * _LONG):
            await law(ends)
        for end in ends.values():
            end.stop(None)


async def _in_order(ends: Ends) -> None:
    sent = [(f"step {number % 2}", bytes([number]) * (number % 7)) for number in range(20)]

    async def sender() -> None:
        for step, frame in sent:
            await ends["bank"].send("shop", step, frame)

    async def receiver() -> None:
        for number, (step, frame) in enumerate(sent):
            received = await ends["shop"].receive("bank", step, _LONG)
            expect(received == frame, f"frame {number} of 20 as it was sent", _short(received))
            expect(isinstance(received, bytes | bytearray), "bytes or a bytearray", type(received).__name__)

    await asyncio.gather(sender(), receiver())
    await _nothing(ends["shop"], "bank", "after the last frame")


async def _both_ways(ends: Ends) -> None:
    async def talk(me: str, other: str) -> None:
        for number in range(8):
            await ends[me].send(other, "talk", f"{me} {number}".encode())
            content, what = f"{other} {number}".encode(), f"{other}'s frame {number} at {me}"
            await _hears(ends[me], other, "talk", content, what)

    await asyncio.gather(talk("bank", "shop"), talk("shop", "bank"))


async def _between_all(ends: Ends) -> None:
    async def member(me: str) -> None:
        for other in ends:
            if other != me:
                await ends[me].send(other, "hello", f"{me} to {other}".encode())
        for other in ends:
            if other != me:
                content = f"{other} to {me}".encode()
                await _hears(ends[me], other, "hello", content, f"{other}'s frame for {me}")

    await asyncio.gather(*map(member, ends))


async def _large(ends: Ends) -> None:
    content = SeededRandomness("large frames").bytes(BIG)

    async def talk(me: str, other: str) -> None:
        await ends[me].send(other, "large", content)
        received = await ends[me].receive(other, "large", _LONG)
        expect(received == content, f"{BIG} bytes as they were sent", f"{len(received)} bytes that differ")

    await asyncio.gather(talk("bank", "shop"), talk("shop", "bank"))


async def _held_back(ends: Ends) -> None:
    async def sender() -> None:
        for number in range(MANY):
            await ends["bank"].send("shop", "flood", bytes([number]) * CHUNK)

    sending = asyncio.create_task(sender())
    try:
        # A sender that is merely slow passes; one that is not held back is done by then on any machine of today.
        await asyncio.wait([sending], timeout=1.0)
        expect(not sending.done(), f"a sender that waits while {MANY} MiB are not taken", "it sent them all")
        for number in range(MANY):
            content = bytes([number]) * CHUNK
            await _hears(ends["shop"], "bank", "flood", content, f"frame {number} as it was sent")
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _refuses(kind: type[Exception], *named: str, sent: str = "", reasons: Sequence[str | None] = ()) -> Law:
    """After what the bank did, the shop waits for its noise: the error says who, from whom, at which step and why."""

    async def law(ends: Ends) -> None:
        if sent:
            await ends["bank"].send("shop", sent, b"")
        for reason in reasons:
            ends["bank"].stop(reason)
        patience = _SHORT if kind is PeerTimeout else _LONG
        message = await _refused(ends["shop"].receive("bank", "noise", patience), kind)
        expect_named(message, "bank", "shop", "noise", *named)

    return law


async def _late(ends: Ends) -> None:
    await _nothing(ends["shop"], "bank", "before anything was sent")
    await ends["bank"].send("shop", "late", b"late")
    await _hears(ends["shop"], "bank", "late", b"late", "what came after a timeout")


async def _cancelled(ends: Ends) -> None:
    waiting = asyncio.create_task(ends["shop"].receive("bank", "never", _LONG))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    (ended,) = await asyncio.gather(waiting, return_exceptions=True)
    expect(isinstance(ended, asyncio.CancelledError), "a receive that can be cancelled", ended)
    await ends["bank"].send("shop", "after", b"after")
    await _hears(ends["shop"], "bank", "after", b"after", "the frame after a cancelled receive")


async def _last_words(ends: Ends) -> None:
    await ends["bank"].send("shop", "last", b"words")
    ends["bank"].stop(None)
    await _hears(ends["shop"], "bank", "last", b"words", "what was sent before stopping")


async def _others(ends: Ends) -> None:
    ends["bank"].stop("its own reasons")
    await ends["clinic"].send("shop", "on", b"still here")
    await _hears(ends["shop"], "clinic", "on", b"still here", "frames of those who did not stop")


async def _strangers(ends: Ends) -> None:
    sent = await _refused(ends["bank"].send("stranger", "x", b""), LocalProtocolError)
    received = await _refused(ends["bank"].receive("stranger", "x", _SHORT), LocalProtocolError)
    for message in (sent, received):
        expect_named(message, "bank", "stranger")


def _gone(vanish: Vanish) -> Law:
    async def law(ends: Ends) -> None:
        waiting = asyncio.create_task(
            _refused(ends["shop"].receive("bank", "noise", _LONG), RemoteProtocolError)
        )
        await asyncio.sleep(0)
        await vanish(ends, "bank")
        expect_named(await waiting, "shop", "bank", "noise")

    return law


LAWS: Mapping[str, Law] = {
    "frames arrive once and in order": _in_order,
    "frames go both ways": _both_ways,
    "each of many parties hears its own frames only": _between_all,
    "large frames sent by both at once arrive whole": _large,
    "a sender far ahead is held back": _held_back,
    "a frame of another step is refused and both steps are named": _refuses(
        RemoteProtocolError, "moments", sent="moments"
    ),
    "silence ends in a timeout that names the peer": _refuses(PeerTimeout),
    "what comes after a timeout still arrives": _late,
    "a cancelled receive loses nothing": _cancelled,
    "a peer that stops gives its reason": _refuses(
        RemoteProtocolError, "the budget is spent", reasons=["the budget is spent"]
    ),
    "a peer that finished too early is named": _refuses(RemoteProtocolError, reasons=[None]),
    "what was sent before stopping still arrives": _last_words,
    "those who did not stop still talk": _others,
    "a stranger is a local error": _strangers,
    "stopping twice is stopping": _refuses(RemoteProtocolError, reasons=["first", None]),
}
GONE = "a peer that is gone is named at once"
CLOSED = "closing leaves nothing running"


async def _hears(end: Channel, peer: str, step: str, content: bytes, what: str) -> None:
    received = await end.receive(peer, step, _LONG)
    expect(received == content, what, _short(received))


async def _nothing(end: Channel, peer: str, when: str) -> None:
    try:
        frame = await end.receive(peer, "nothing", _SHORT)
    except PeerTimeout:
        return
    except Exception as error:
        raise Broken(f"silence {when}", f"{type(error).__name__}: {error}") from error
    raise Broken(f"silence {when}", _short(frame))


async def _refused(attempt: Awaitable[object], kind: type[Exception]) -> str:
    try:
        result = await attempt
    except kind as error:
        # A timeout is a remote error, too, but it says that nothing came where something was there to be told.
        expect(type(error) is kind or kind is not RemoteProtocolError, kind.__name__, type(error).__name__)
        return str(error)
    except Exception as error:
        raise Broken(kind.__name__, f"{type(error).__name__}: {error}") from error
    raise Broken(kind.__name__, f"it was taken, and gave {type(result).__name__}")


def _short(frame: Frame) -> str:
    return f"{len(frame)} bytes, {bytes(frame[:16])!r}"
