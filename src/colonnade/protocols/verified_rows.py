"""Rows that are dealt with a proof that they are no longer than agreed: two keepers check every dealer.

`row_checks` has the box of the check. The second verifier is a keeper, and without every keeper nothing is opened:
whoever stops there, stops the run before anything is opened. Proof: docs/proofs/verified-rows.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.row_claims import RowClaims
from colonnade.crypto.shares import Scheme
from colonnade.errors import FieldTooSmall, GroupMismatch
from colonnade.numbers.field import Field
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.row_checks import Claims, RowCheck
from colonnade.protocols.shared import MomentSum, Shared
from colonnade.protocols.sharing import share
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party

Integers = NDArray[np.int64]


def can_verify(group: Group) -> bool:
    """Whether two keepers can check a dealer: with t = 1 at most one of the three deviates, with t = 2 two might."""
    return group.threshold == 1 and len(group.keepers) == 3


def chosen_verify(asked: Verify | None, group: Group, claims: Claims, *, rows: int) -> Verify:
    """What a plan checks: what was asked for, if it can be done; else rows where there are two owners.

    Without a word from the user, what cannot be checked is not, and the sentences of the plan say less. Three or more
    owners have to ask: a party's ε is larger where it has to do without another part of the noise.
    """
    if asked == "none" or (asked is None and len(group.owners) > 2):
        return "none"
    if not can_verify(group):
        if asked is None:
            return "none"
        raise GroupMismatch(
            f"verify = {asked!r} was asked for; two keepers check each dealer, which shows something only where at "
            f"most one member deviates, and this group has t = {group.threshold}. Write verify = 'none', or "
            "threshold = 1."
        )
    try:
        _check_room(claims, rows)
    except FieldTooSmall:
        if asked is None:
            return "none"
        raise
    return asked or "rows"


def checked_block(claims: Claims, block: int) -> int:
    """Rows dealt at a time where they are checked: up to three times as many as else, where the field has room.

    A proof costs much the same for few rows as for many.
    """
    for times in (3, 2):
        try:
            _check_room(claims, times * block)
        except FieldTooSmall:
            continue
        return times * block
    return block


def _check_room(claims: Claims, rows: int) -> None:
    """Raise `FieldTooSmall` unless so many rows can be checked at a time."""
    for listed in claims.values():
        if listed:
            RowClaims(rows, listed, (0, 1))


class VerifiedPlan(Protocol):
    """What a plan says about the rows that its owners deal."""

    @property
    def verify(self) -> Verify: ...

    @property
    def dealt(self) -> Mapping[str, int]: ...

    @property
    def claims(self) -> Claims:
        """What each owner proves about every row it deals."""
        ...

    @property
    def scheme(self) -> Scheme: ...


class SummedPlan(VerifiedPlan, Protocol):
    """What a plan says about rows of which only products, summed over all of them, are needed."""

    @property
    def rows(self) -> int: ...

    @property
    def block(self) -> int: ...

    @property
    def field(self) -> Field:
        """Where sums do not wrap around."""
        ...


async def sum_products(
    party: Party, blocks: Iterable[tuple[int, Integers | None]], plan: SummedPlan, *, columns: int
) -> Shared:
    """Owners deal their rows block by block; each keeper adds up the products of all columns, at degree 2t."""
    products = MomentSum(plan.field, columns, keeps_shares=party.keeps_shares)
    for number, (rows, mine) in enumerate(blocks):
        dealt = await share_rows(party, mine, rows, plan, step=f"columns {number}")
        products.add([dealt[owner] for owner in party.group.owners])
        party.progress("columns", min((number + 1) * plan.block, plan.rows), plan.rows)
    return products.upper_triangle()


async def share_rows(
    party: Party, mine: Integers | None, rows: int, plan: VerifiedPlan, *, step: str
) -> dict[str, Shared]:
    """Every owner deals a block of its rows at degree t, with the proofs that the plan asks for."""
    if plan.verify != "none":
        return await share_verified(party, mine, rows, plan.claims, scheme=plan.scheme, step=step)
    shapes = {owner: (rows, width) for owner, width in plan.dealt.items()}
    return await share(party, mine, shapes, scheme=plan.scheme, degree=party.group.threshold, step=step)


async def share_verified(
    party: Party, mine: Integers | None, rows: int, claims: Claims, *, scheme: Scheme, step: str
) -> dict[str, Shared]:
    """As `share` at degree t, with every dealer's claims about these rows checked before this returns.

    Guarantee: if this returns at the second verifier of a dealer, and at most one of dealer and verifiers deviates from
    the protocol, then in every row the squared norm of the columns of each claim is at most what it says, as integers,
    except with the probability that `RowClaims` names. A verifier learns nothing about honest rows.
    """
    widths = {owner: sum(claim.columns for claim in listed) for owner, listed in claims.items()}
    shapes = {owner: (rows, width) for owner, width in widths.items()}
    dealt = await share(party, mine, shapes, scheme=scheme, degree=party.group.threshold, step=step)
    await check_rows(party, mine, dealt, claims, scheme=scheme, step=step)
    return dealt


async def check_rows(
    party: Party,
    mine: Integers | None,
    dealt: Mapping[str, Shared],
    claims: Claims,
    *,
    scheme: Scheme,
    step: str,
) -> None:
    """The check of rows that were dealt, or that everybody computes of what was dealt: `mine` are this party's."""
    rows, degree = next(iter(dealt.values())).shape[0], party.group.threshold
    claims = {owner: listed for owner, listed in claims.items() if listed}
    check = RowCheck(party, rows, claims, step)
    pads = await share(
        party,
        check.begin(mine),
        {owner: (rows, check.claims[owner].pads) for owner in claims},
        scheme=scheme,
        degree=degree,
        step=f"{step}, pads",
    )
    held = {}
    for owner in claims:
        columns, filled = dealt[owner].share, pads[owner].share
        if columns is not None and filled is not None:
            held[owner] = (columns, filled)
    await check.run(held)
