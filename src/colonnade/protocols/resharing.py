"""Bring a product of shares back to the degree of its factors, so that it can be multiplied once more."""

from __future__ import annotations

from colonnade.crypto.shares import Dealt, Scheme, reshare, total
from colonnade.errors import LocalProtocolError
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.shared import Shared
from colonnade.protocols.sharing import pack, unpack
from colonnade.runtime.party import Party


async def lower_degree(party: Party, value: Shared, *, scheme: Scheme, step: str) -> Shared:
    """The same secret at degree t instead of 2t: every keeper deals its weighted share, and adds what it receives.

    Any t keepers hold pieces of fresh sharings of degree t beside their own, so they learn nothing
    (docs/proofs/conditional-moments.md).
    """
    group = party.group
    if value.degree != 2 * group.threshold:
        raise LocalProtocolError(
            f"{party.name} at step {step!r}: degree {value.degree} is not that of a product"
        )
    if not party.keeps_shares:
        return Shared(None, value.shape, group.threshold)
    if value.share is None:
        raise LocalProtocolError(f"{party.name} keeps shares but has none of {step!r}")
    mine = reshare(scheme, group.keepers.index(party.name), value.share, party.randomness)
    pieces: list[Dealt] = []
    for keeper, piece in zip(group.keepers, mine, strict=True):
        if keeper == party.name:
            pieces.append(piece)
        else:
            await tell(party, keeper, step, pack(piece))
    for keeper in group.keepers:
        if keeper != party.name:
            pieces.append(
                unpack(scheme, await hear(party, keeper, step), value.shape, f"{keeper} at step {step!r}")
            )
    return Shared(total(scheme, pieces), value.shape, group.threshold)
