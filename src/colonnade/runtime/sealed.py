"""A channel whose frames only the receiving member can read, over any channel that delivers bytes.

Whoever relays the frames, such as a federation's server, sees who talks to whom, at which step and how much, and
nothing else; what it alters, repeats, moves, holds back or sends elsewhere is noticed at the next frame. Members first
exchange hellos: a fresh X25519 key, signed with the key of a certificate that the federation's root issued, for this
job and these members. Without a valid hello of every peer there is no channel, and there is no unsealed way to send.

Reasons for stopping are not sealed: they are only what peers may be told, and whoever relays frames can stop a run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

from colonnade.crypto.key_agreement import AgreementKey, InvalidPublicKey
from colonnade.crypto.sealing import Opener, SealBroken, Sealer, unambiguous
from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.randomness import SystemRandomness
from colonnade.runtime.channel import Channel, Frame
from colonnade.runtime.identity import Identity, NotTrusted, Trust
from colonnade.runtime.wire import Envelope, Message, decode, encode

HELLO = "sealed hello"
_MAX_HELLO = 1 << 16


class SealedChannel:
    """One member's end of its sealed lines; made by `seal`."""

    def __init__(
        self, name: str, inner: Channel, *, sealers: Mapping[str, Sealer], openers: Mapping[str, Opener]
    ) -> None:
        self.name = name
        self._inner = inner
        self._sealers = sealers
        self._openers = openers

    async def send(self, to: str, step: str, frame: bytes) -> None:
        if to not in self._sealers:
            raise LocalProtocolError(
                f"{self.name} has no sealed line to {to!r}; its peers are {sorted(self._sealers)}"
            )
        await self._inner.send(to, step, self._sealers[to].seal(frame, step=step))

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        if peer not in self._openers:
            raise LocalProtocolError(
                f"{self.name} has no sealed line from {peer!r}; its peers are {sorted(self._openers)}"
            )
        sealed = await self._inner.receive(peer, step, timeout)
        try:
            return self._openers[peer].open(sealed, step=step)
        except SealBroken as error:
            raise RemoteProtocolError(
                f"{self.name} at step {step!r}: what came as {peer}'s frame is not what {peer} sealed ({error}). "
                f"Whoever relays the frames, or {peer} itself, is at fault."
            ) from None

    def stop(self, reason: str | None) -> None:
        self._inner.stop(reason)


async def seal(
    inner: Channel,
    name: str,
    members: tuple[str, ...],
    *,
    job: str,
    identity: Identity,
    trust: Trust,
    certified: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> SealedChannel:
    """The sealed channel of member `name`, once every other member has proved who it is.

    `job` names the run to everybody alike. `certified` says which name a member's certificate must have where that is
    not the member's own, as for a server that is known by its host.
    """
    _check_own(name, identity, certified or {})
    key = AgreementKey.generate(SystemRandomness())
    mine = _statement(job, name, members, key.public, identity.to_bytes())
    peers = [member for member in members if member != name]
    said = Message({"key": key.public, "certificate": identity.to_bytes(), "signature": identity.sign(mine)})
    for peer in peers:
        await inner.send(peer, HELLO, encode(Envelope(job, name, peer, HELLO, 0), said))
    sealers: dict[str, Sealer] = {}
    openers: dict[str, Opener] = {}
    # All at once: a peer that is gone is noticed while another one is still on its way.
    frames = await asyncio.gather(*(inner.receive(peer, HELLO, timeout) for peer in peers))
    for peer, frame in zip(peers, frames, strict=True):
        try:
            public, theirs = _checked(frame, job, peer, members, trust, (certified or {}).get(peer, peer))
            context = b"".join(sorted(hashlib.sha256(statement).digest() for statement in (mine, theirs)))
            secret = key.agree(public, context=context)
        except (NotTrusted, InvalidPublicKey, RemoteProtocolError) as error:
            raise RemoteProtocolError(
                f"{name} at step {HELLO!r}: {peer} did not prove that it is {peer}: {error}. Nothing was charged."
            ) from None
        sealers[peer] = Sealer(secret, (job, name, peer))
        openers[peer] = Opener(secret, (job, peer, name))
    return SealedChannel(name, inner, sealers=sealers, openers=openers)


def _check_own(name: str, identity: Identity, certified: Mapping[str, str]) -> None:
    wanted = certified.get(name, name)
    if identity.name != wanted:
        raise LocalProtocolError(
            f"{name} would prove itself with the certificate of {identity.name!r}, but its peers want {wanted!r}. "
            "Start each party with its own kit."
        )


def _statement(job: str, member: str, members: tuple[str, ...], public: bytes, certificate: bytes) -> bytes:
    bound = (job, member, *members, public.hex(), hashlib.sha256(certificate).hexdigest())
    return unambiguous(("colonnade sealed hello 1", *bound))


def _checked(
    frame: Frame, job: str, peer: str, members: tuple[str, ...], trust: Trust, certified: str
) -> tuple[bytes, bytes]:
    """A peer's public key and what it signed, if all of its hello holds."""
    _, message = decode(frame, limit=_MAX_HELLO)
    parts = tuple(message.fields.get(field) for field in ("key", "certificate", "signature"))
    public, certificate, signature = parts
    if not (isinstance(public, bytes) and isinstance(certificate, bytes) and isinstance(signature, bytes)):
        raise NotTrusted("its hello has not the parts of one")
    statement = _statement(job, peer, members, public, certificate)
    trust.check_signature(trust.certificate(certificate, certified), statement, signature)
    return public, statement
