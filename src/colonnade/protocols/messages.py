"""The only place that puts a frame on a channel: tell one peer, hear one peer, exchange with all.

Every frame carries its run, sender, receiver, step and position, and the receiver checks all five, so
that a frame that is replayed, reordered, redirected or left over from another run is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.errors import RemoteProtocolError
from colonnade.runtime.party import Party
from colonnade.runtime.transcript import Seen
from colonnade.runtime.wire import Envelope, Message, decode, encode


async def tell(party: Party, to: str, step: str, message: Message) -> None:
    """Send a message to one peer."""
    envelope = Envelope(party.run, party.name, to, step, party.next_number("to", to))
    frame = encode(envelope, message)
    party.traffic.note_sent(to, step, len(frame))
    await party.channel.send(to, step, frame)


async def hear(party: Party, peer: str, step: str) -> Message:
    """The next message of one peer, which must belong to this run, this step and this position."""
    frame = await party.channel.receive(peer, step, party.timeout)
    try:
        envelope, message = decode(frame)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{party.name} at step {step!r}, from {peer}: {error}") from None
    expected = Envelope(party.run, peer, party.name, step, party.next_number("from", peer))
    for part in ("sender", "receiver", "run", "step", "number"):
        if getattr(envelope, part) != getattr(expected, part):
            raise RemoteProtocolError(
                f"{party.name} at step {step!r}: {peer} sent a frame with another {part}; it was replayed, "
                "reordered, redirected or belongs to another run"
            )
    party.traffic.note_received(step)
    if party.seen is not None:
        party.seen.append(Seen(peer, step, frame))
    return message


async def exchange(party: Party, step: str, message: Message, among: Iterable[str]) -> dict[str, Message]:
    """Everybody among `among` tells everybody else the same message; returns what the others said."""
    peers = [name for name in among if name != party.name]
    for peer in peers:
        await tell(party, peer, step, message)
    return {peer: await hear(party, peer, step) for peer in peers}
