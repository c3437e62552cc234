"""How a party talks: labelled frames to and from named peers. The transport is a parameter."""

from __future__ import annotations

from typing import Protocol

#: The bytes of one message, in whatever a transport received them.
Frame = bytes | bytearray


class Channel(Protocol):
    """One party's end of its connections.

    A channel delivers each frame once and, between two parties, in the order sent. It does not read
    frames, and what it promises about secrecy is the transport's own claim.
    """

    async def send(self, to: str, step: str, frame: bytes) -> None:
        """Hand over a frame; waits while the receiver is far behind."""
        ...

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        """The next frame from `peer`, which must be for `step`.

        Raises `RemoteProtocolError` if the peer is at another step or has stopped, and `PeerTimeout`
        after `timeout` seconds without a frame.
        """
        ...

    def stop(self, reason: str | None) -> None:
        """Leave. Peers that wait for this party learn the reason; None means it has finished."""
        ...


def readable(reason: str) -> str:
    """A peer's words without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in reason)
