"""The only place that puts a frame on a channel: tell one peer, hear one peer, exchange with all.

The receiver checks run, sender, receiver, step and position, so that any other frame is refused by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime.channel import Seen
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Envelope, Message, decode, encode


async def tell(party: Party, to: str, step: str, message: Message) -> None:
    """Send a message to one peer. A peer that takes nothing for as long as the timeout is given up."""
    envelope = Envelope(party.run, party.name, to, step, party.next_number("to", to))
    frame = encode(envelope, message)
    party.traffic.note_sent(to, step, len(frame))
    try:
        async with asyncio.timeout(party.timeout):
            await party.channel.send(to, step, frame)
    except TimeoutError:
        raise PeerTimeout(
            f"{party.name} waited {party.timeout:g} s at step {step!r} for {to} to take what it was sent. "
            f"See whether {to} still runs; a longer timeout goes into the job."
        ) from None


async def hear(party: Party, peer: str, step: str) -> Message:
    """The next message of one peer, which must belong to this run, this step and this position."""
    frame = await party.channel.receive(peer, step, party.timeout)
    source = f"{party.name} at step {step!r}, from {peer}"
    try:
        envelope, message = decode(frame)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{source}: {error}") from None
    expected = Envelope(party.run, peer, party.name, step, party.next_number("from", peer))
    for part in ("sender", "receiver", "run", "step", "number"):
        if getattr(envelope, part) != getattr(expected, part):
            raise RemoteProtocolError(
                f"{party.name} at step {step!r}: {peer} sent a frame with another {part}; it was replayed, "
                "reordered, redirected or belongs to another run"
            )
    party.traffic.note_received(step)
    if party.seen is not None:
        party.seen.append(Seen(peer, step, bytes(frame)))
    return replace(message, source=source)


async def exchange(party: Party, step: str, message: Message, among: Iterable[str]) -> dict[str, Message]:
    """Everybody among `among` tells everybody else the same message; returns what the others said."""
    peers = [name for name in among if name != party.name]
    for peer in peers:
        await tell(party, peer, step, message)
    return {peer: await hear(party, peer, step) for peer in peers}
