"""`Shared`: integers that nobody holds; how they are dealt, and the one door through which they are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.sharing import Dealt, InconsistentShares, Seed, Shamir, reshare
from colonnade.crypto.sharing import total as summed
from colonnade.errors import LocalProtocolError, NotMasked, RemoteProtocolError
from colonnade.ledger import Release
from colonnade.numbers.field import Field, FieldArray, GramSum
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

_BLOCK_ENTRIES = 1 << 20


def block_rows(columns: int) -> int:
    """Rows dealt at a time: enough to keep the kernels busy, few enough to bound memory."""
    return max(64, min(1 << 14, _BLOCK_ENTRIES // columns))


@dataclass(frozen=True, eq=False)
class Shared:
    """One node's view of a secret array: its share if it is a computing party, and what everybody may know.

    `masks` names the fresh sharings of the full `degree` in it, as "dealer/step"; a product of shares has none, because
    its coefficients would show more than the secret (docs/proofs/noise-degree.md). Only `open_to` makes numbers of it.
    """

    share: FieldArray | None
    shape: tuple[int, int]
    degree: int
    masks: frozenset[str] = frozenset()

    def __add__(self, other: Shared) -> Shared:
        if other.degree != self.degree or other.shape != self.shape:
            raise LocalProtocolError(
                f"cannot add shares of degree {self.degree}, shape {self.shape} "
                f"and degree {other.degree}, shape {other.shape}"
            )
        share = None if self.share is None or other.share is None else self.share + other.share
        return replace(self, share=share, masks=self.masks | other.masks)

    def __sub__(self, other: Shared) -> Shared:
        negative = None if other.share is None else -other.share
        return self + replace(other, share=negative)

    def columns(self, places: Iterable[int]) -> Shared:
        """Some of the columns, in this order, any of them more than once."""
        used = list(places)
        share = None if self.share is None else self.share.picked(used)
        return replace(self, share=share, shape=(self.shape[0], len(used)), masks=frozenset())

    def in_rows_of(self, columns: int) -> Shared:
        """The same entries, row by row, in rows of another length."""
        shape = (self.shape[0] * self.shape[1] // columns, columns)
        share = None if self.share is None else self.share.reshape(shape)
        return replace(self, share=share, shape=shape, masks=frozenset())

    def times(self, factor: int) -> Shared:
        share = None if self.share is None else self.share.times(factor)
        return replace(self, share=share, masks=frozenset())

    def without_masks(self) -> Shared:
        """The same secret, of whose masks nothing is claimed."""
        return replace(self, masks=frozenset())

    @property
    def dealers(self) -> frozenset[str]:
        return frozenset(mask.split("/")[0] for mask in self.masks)

    def __bool__(self) -> NoReturn:
        raise LocalProtocolError("nobody can branch on a secret; open it first")


class MomentSum:
    """Shares of the upper triangle of Σ ZᵀZ over blocks of rows; a node that keeps no shares holds nothing."""

    def __init__(self, field: Field, columns: int, *, keeps_shares: bool) -> None:
        self._columns = columns
        self._sum = GramSum(field, columns) if keeps_shares else None
        self._degree = 0

    def add(self, blocks: Sequence[Shared]) -> None:
        """Add ZᵀZ, where Z is these secrets beside each other."""
        self._degree = 2 * blocks[0].degree
        if any(block.degree != blocks[0].degree for block in blocks):
            raise LocalProtocolError("columns side by side need the same degree")
        if self._sum is not None:
            self._sum.add(*(block.share for block in blocks if block.share is not None))

    def upper_triangle(self) -> Shared:
        """The sum, each unordered pair once, row by row. The degree has doubled and no mask is left."""
        shape = (1, self._columns * (self._columns + 1) // 2)
        if self._sum is None:
            return Shared(None, shape, self._degree)
        upper = self._sum.value().upper_triangle()
        return Shared(upper.reshape(shape), shape, self._degree)


def alongside(values: Sequence[Shared]) -> Shared:
    """Secrets of one degree and as many rows beside each other; of their masks nothing is claimed."""
    first, *rest = values
    if any(value.degree != first.degree or value.shape[0] != first.shape[0] for value in rest):
        raise LocalProtocolError("secrets side by side need one degree and as many rows")
    shares = [value.share for value in values if value.share is not None]
    share = shares[0].stack_columns(shares[1:]) if len(shares) == len(values) else None
    return Shared(share, (first.shape[0], sum(value.shape[1] for value in values)), first.degree)


def total(values: Iterable[Shared]) -> Shared:
    first, *rest = values
    for value in rest:
        first = first + value
    return first


Shape = tuple[int, int]


async def share(
    party: Party,
    mine: NDArray[np.int64] | None,
    shapes: Mapping[str, Shape],
    *,
    scheme: Shamir,
    degree: int,
    step: str,
) -> dict[str, Shared]:
    """Every dealer in `shapes` deals its integers, here `mine`; any t shares are uniform (docs/proofs/sharing.md)."""
    elements = None if mine is None else scheme.field.encode(mine)
    return await share_elements(party, elements, shapes, scheme=scheme, degree=degree, step=step)


async def share_elements(
    party: Party,
    mine: FieldArray | None,
    shapes: Mapping[str, Shape],
    *,
    scheme: Shamir,
    degree: int,
    step: str,
) -> dict[str, Shared]:
    """As `share`, for elements of the field that stand for no small integers, such as products of shares."""
    kept: dict[str, FieldArray] = {}
    if party.name in shapes:
        if mine is None or mine.shape != shapes[party.name]:
            own_shape = None if mine is None else mine.shape
            raise LocalProtocolError(
                f"{party.name} at step {step!r} should deal an array of shape {shapes[party.name]}, has {own_shape}"
            )
        pieces = scheme.deal(mine, degree, party.randomness)
        for computing_party, piece in zip(party.group.computing_parties, pieces, strict=True):
            if computing_party == party.name:
                kept[party.name] = scheme.expand(piece)
            else:
                await tell(party, computing_party, step, pack(piece))
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
    party: Party, draw: Callable[[], NDArray[np.int64]], entries: int, *, scheme: Shamir, step: str
) -> Shared:
    """The sum of all dealers' noise, at degree 2t: t would show more to two (docs/proofs/noise-degree.md)."""
    group = party.group
    mine = draw().reshape(1, entries) if party.name in group.dealers else None
    shapes = dict.fromkeys(group.dealers, (1, entries))
    dealt = await share(party, mine, shapes, scheme=scheme, degree=2 * group.threshold, step=step)
    return total(dealt.values())


async def lower(party: Party, value: Shared, *, scheme: Shamir, step: str) -> Shared:
    """The same secret at degree t, from one of degree 2t: computing parties deal their weighted shares to each other.

    Nobody learns anything, because each piece comes from a fresh sharing of degree t (docs/proofs/sharing.md).
    """
    if value.degree != 2 * scheme.threshold:
        raise LocalProtocolError(
            f"{party.name} at step {step!r}: a value of degree {value.degree} was to be lowered"
        )
    if not party.keeps_shares:
        return Shared(None, value.shape, scheme.threshold)
    if value.share is None:
        raise LocalProtocolError(f"{party.name} keeps shares but has none of {step!r}")
    computing_parties = party.group.computing_parties
    pieces = reshare(scheme, computing_parties.index(party.name), value.share, party.randomness)
    received: list[Dealt] = []
    for computing_party, piece in zip(computing_parties, pieces, strict=True):
        if computing_party == party.name:
            received.append(piece)
        else:
            await tell(party, computing_party, step, pack(piece))
    for computing_party in computing_parties:
        if computing_party != party.name:
            said = await hear(party, computing_party, step)
            received.append(unpack(scheme, said, value.shape, f"{computing_party} at step {step!r}"))
    return Shared(summed(scheme, received), value.shape, scheme.threshold)


async def open_to(
    party: Party, receiver: str, value: Shared, *, scheme: Shamir, release: Release, step: str
) -> NDArray[Any] | None:
    """The door: `receiver` learns `value`, everybody else learns nothing, every ledger is charged first (once:
    `charge_first` may have done so).

    Refused, before any share leaves, unless unused fresh masks of the value's full degree from at least t + 1 dealers
    are in it: then whoever sees all 2t + 1 shares, with t colluding dealers, learns the secret and nothing else
    (docs/proofs/noise-degree.md).
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
    shares = []
    for computing_party in party.group.computing_parties:
        if computing_party == party.name and value.share is not None:
            shares.append(value.share)
        else:
            said = await hear(party, computing_party, step)
            shares.append(unpack(scheme, said, value.shape, f"{computing_party} at step {step!r}"))
    try:
        return scheme.reconstruct(shares, value.degree).decode()
    except InconsistentShares as error:
        raise RemoteProtocolError(
            f"{party.name} at step {step!r}: {error}. One of {', '.join(party.group.computing_parties)} sent "
            "another share than it holds."
        ) from None


def pack(piece: Dealt) -> Message:
    if isinstance(piece, Seed):
        return Message({"key": piece.key})
    return Message(arrays={"share": piece.as_bytes()})


def unpack(scheme: Shamir, message: Message, shape: Shape, source: str) -> FieldArray:
    """What a dealer sent, if it is a share of this shape or a seed of one."""
    key = message.fields.get("key")
    packed = message.arrays.get("share")
    try:
        if type(key) is bytes and packed is None:
            return scheme.expand(Seed(key, shape))
        if packed is not None and packed.dtype == np.uint8 and packed.ndim == 1 and key is None:
            return FieldArray.from_bytes(scheme.field, shape, packed)
    except ValueError as error:
        raise RemoteProtocolError(f"{source} sent an invalid share: {error}") from None
    raise RemoteProtocolError(f"{source} sent neither a share nor a seed")
