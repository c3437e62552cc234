"""The sum of everybody's integers, and nothing but the sum.

At every step each party adds the masks it shares with the parties after it and takes away those it shares with the
parties before it, modulo 2^k; they cancel for the receiver (docs/proofs/masks.md). A party that does not answer is
named; the others' values stay masked, and a run without it has new keys and a new charge.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.masks import MaskStreams, SumRing, pack_words, unpack_words
from colonnade.crypto.sealing import AgreementKey, InvalidPublicKey
from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.ledger import Release
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


class Masks(Protocol):
    """What puts a step's pairwise masks on a party's values: `MaskStreams`, or a record of what they put before."""

    def masked(self, values: NDArray[Any], ring: SumRing, *, step: str) -> NDArray[Any]: ...


async def share_mask_keys(party: Party, among: tuple[str, ...]) -> MaskStreams | None:
    """Pairwise keys for this run among the parties that will sum; None at other nodes.

    A pair's key is known to that pair only if the channel authenticates its ends.
    """
    if party.name not in among:
        return None
    step = "mask keys"
    if not party.run:
        raise LocalProtocolError(
            f"{party.name} at step {step!r}: parties must meet before they share mask keys"
        )
    mine = AgreementKey.generate(party.randomness)
    said = await exchange(party, step, Message({"key": mine.public}), among)
    keys = {}
    for peer, message in said.items():
        public = message.fields.get("key")
        try:
            if type(public) is not bytes:
                raise InvalidPublicKey(f"a public key is bytes, not {type(public).__name__}")
            keys[peer] = mine.agree(public, context=f"{party.run} masks {step}".encode())
        except InvalidPublicKey as error:
            raise RemoteProtocolError(f"{party.name} at step {step!r}, from {peer}: {error}") from None
    if len({said[peer].fields["key"] for peer in said}) != len(said):
        raise RemoteProtocolError(f"{party.name} at step {step!r}: two peers sent the same public key")
    return MaskStreams(party.name, {name: place for place, name in enumerate(among)}, keys)


async def secure_sum(
    party: Party,
    values: NDArray[Any] | None,
    shape: tuple[int, ...],
    *,
    streams: Masks | None,
    among: tuple[str, ...],
    ring: SumRing,
    receiver: str,
    release: Release,
    step: str,
) -> NDArray[np.uint64] | None:
    """`receiver` alone learns Σ values, and every summing party's ledger is charged first; each step is used once."""
    count = int(np.prod(shape, dtype=np.int64))
    words = None
    if party.name in among:
        if streams is None or values is None or values.shape != shape:
            own_shape = None if values is None else values.shape
            raise LocalProtocolError(
                f"{party.name} at step {step!r} should sum an array of shape {shape}, has {own_shape}"
            )
        party.ledger.charge(release, party.dataset)
        try:
            words = streams.masked(values, ring, step=step)
        except ValueError as error:
            raise LocalProtocolError(f"{party.name} at step {step!r}: {error}") from None
        if party.name != receiver:
            await tell(party, receiver, step, Message(arrays={"words": pack_words(words, ring.bits)}))
    if party.name != receiver:
        return None
    received = []
    for name in among:
        if name == party.name:
            if words is not None:
                received.append(words)
            continue
        packed = (await hear(party, name, step)).arrays.get("words")
        try:
            if packed is None:
                raise ValueError("no words came")
            received.append(unpack_words(packed, count, bits=ring.bits, dtype=ring.dtype))
        except ValueError as error:
            raise RemoteProtocolError(f"{party.name} at step {step!r}, from {name}: {error}") from None
    total = ring.total(received).reshape(shape)
    if count and int(total.max()) > ring.parties * ring.largest:
        raise RemoteProtocolError(
            f"{party.name} at step {step!r}: the sum exceeds {ring.parties} · {ring.largest}, so the masks or values "
            f"of one of {', '.join(among)} are not as agreed"
        )
    return total
