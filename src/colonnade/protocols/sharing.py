"""Deal a secret among the keepers, and the one door through which a secret is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.dealing import Dealt, InconsistentShares, Seed
from colonnade.crypto.shares import Scheme, reshare
from colonnade.crypto.shares import total as summed
from colonnade.errors import LocalProtocolError, NotMasked, RemoteProtocolError
from colonnade.ledger import Release
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.shared import Shared, total
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Shape = tuple[int, int]


async def share(
    party: Party,
    mine: NDArray[np.int64] | None,
    shapes: Mapping[str, Shape],
    *,
    scheme: Scheme,
    degree: int,
    step: str,
) -> dict[str, Shared]:
    """Every dealer in `shapes` deals its integers to the keepers; returns all of them, by dealer.

    `mine` is this node's own array if it deals. Any `threshold` shares of it are uniform and independent
    of it (docs/proofs/sharing.md).
    """
    elements = None if mine is None else scheme.field.encode(mine)
    return await share_elements(party, elements, shapes, scheme=scheme, degree=degree, step=step)


async def share_elements(
    party: Party,
    mine: FieldArray | None,
    shapes: Mapping[str, Shape],
    *,
    scheme: Scheme,
    degree: int,
    step: str,
) -> dict[str, Shared]:
    """As `share`, for elements of the field that stand for no small integers, such as a keeper's products of shares."""
    kept: dict[str, FieldArray] = {}
    if party.name in shapes:
        if mine is None or mine.shape != shapes[party.name]:
            found = None if mine is None else mine.shape
            raise LocalProtocolError(
                f"{party.name} at step {step!r} should deal an array of shape {shapes[party.name]}, has {found}"
            )
        pieces = scheme.deal(mine, degree, party.randomness)
        for keeper, piece in zip(party.group.keepers, pieces, strict=True):
            if keeper == party.name:
                kept[party.name] = scheme.expand(piece)
            else:
                await tell(party, keeper, step, pack(piece))
    if party.keeps_shares:
        for dealer, shape in shapes.items():
            if dealer != party.name:
                kept[dealer] = unpack(
                    scheme, await hear(party, dealer, step), shape, f"{dealer} at step {step!r}"
                )
    return {
        dealer: Shared(kept.get(dealer), shape, degree, frozenset({f"{dealer}/{step}"}))
        for dealer, shape in shapes.items()
    }


async def share_noise(
    party: Party, draw: Callable[[], NDArray[np.int64]], entries: int, *, scheme: Scheme, step: str
) -> Shared:
    """The sum of all dealers' noise; this node draws its part if it deals one.

    Degree 2t: at degree t the server and one keeper would learn more (docs/proofs/noise-degree.md).
    """
    group = party.group
    mine = draw().reshape(1, entries) if party.name in group.dealers else None
    shapes = dict.fromkeys(group.dealers, (1, entries))
    dealt = await share(party, mine, shapes, scheme=scheme, degree=2 * group.threshold, step=step)
    return total(dealt.values())


async def lower(party: Party, value: Shared, *, scheme: Scheme, step: str) -> Shared:
    """The same secret at degree t, from one of degree 2t: keepers deal their weighted shares to each other.

    Every keeper must run it; a node that keeps no shares sends and receives nothing. Nobody learns anything, because
    each piece comes from a fresh sharing of degree t (docs/proofs/sharing.md).
    """
    if value.degree != 2 * scheme.threshold:
        raise LocalProtocolError(
            f"{party.name} at step {step!r}: a value of degree {value.degree} was to be lowered"
        )
    if not party.keeps_shares:
        return Shared(None, value.shape, scheme.threshold)
    if value.share is None:
        raise LocalProtocolError(f"{party.name} keeps shares but has none of {step!r}")
    keepers = party.group.keepers
    pieces = reshare(scheme, keepers.index(party.name), value.share, party.randomness)
    received: list[Dealt] = []
    for keeper, piece in zip(keepers, pieces, strict=True):
        if keeper == party.name:
            received.append(piece)
        else:
            await tell(party, keeper, step, pack(piece))
    for keeper in keepers:
        if keeper != party.name:
            said = await hear(party, keeper, step)
            received.append(unpack(scheme, said, value.shape, f"{keeper} at step {step!r}"))
    return Shared(summed(scheme, received), value.shape, scheme.threshold)


async def open_to(
    party: Party, receiver: str, value: Shared, *, scheme: Scheme, release: Release, step: str
) -> NDArray[Any] | None:
    """The door: `receiver` learns `value`, everybody else learns nothing, every ledger is charged first.

    Refused, before any share leaves, unless fresh masks of the value's full degree from at least t + 1
    dealers are in it, none of which was in anything opened before: then whoever sees all 2t + 1 shares,
    together with t colluding dealers, learns the secret and nothing else (docs/proofs/noise-degree.md).
    """
    needed = party.group.threshold + 1
    if len(value.dealers) < needed:
        raise NotMasked(
            f"{party.name} will not open {step!r}: degree-{value.degree} masks from {needed} parties are needed, "
            f"{len(value.dealers)} are in it. Deal noise at degree {value.degree} and add it before opening."
        )
    again = sorted(value.masks & party.opened)
    if again:
        raise NotMasked(
            f"{party.name} will not open {step!r}: its mask {again[0]!r} was used in an earlier opening"
        )
    party.opened.update(value.masks)
    party.ledger.charge(release, party.dataset)
    if party.keeps_shares and value.share is None:
        raise LocalProtocolError(f"{party.name} keeps shares but has none of {step!r}")
    if party.name != receiver:
        if value.share is not None:
            await tell(party, receiver, step, pack(value.share))
        return None
    shares = [
        value.share
        if keeper == party.name and value.share is not None
        else unpack(scheme, await hear(party, keeper, step), value.shape, f"{keeper} at step {step!r}")
        for keeper in party.group.keepers
    ]
    try:
        return scheme.reconstruct(shares, value.degree).decode()
    except InconsistentShares as error:
        raise RemoteProtocolError(
            f"{party.name} at step {step!r}: {error}. One of {', '.join(party.group.keepers)} sent another share "
            "than it holds."
        ) from None


def pack(piece: Dealt) -> Message:
    """What one keeper was dealt, as a message."""
    if isinstance(piece, Seed):
        return Message({"key": piece.key})
    return Message(arrays={"share": piece.as_bytes()})


def unpack(scheme: Scheme, message: Message, shape: Shape, source: str) -> FieldArray:
    """What a dealer sent, if it is a share of this shape or a seed of one."""
    key = message.fields.get("key")
    packed = message.arrays.get("share")
    try:
        if type(key) is bytes and packed is None:
            return scheme.expand(Seed(key, shape))
        if packed is not None and packed.dtype == np.uint8 and packed.ndim == 1 and key is None:
            return FieldArray.from_bytes(scheme.field, shape, packed)
    except ValueError as error:
        raise RemoteProtocolError(f"{source} sent a share that is none: {error}") from None
    raise RemoteProtocolError(f"{source} sent neither a share nor a seed")
