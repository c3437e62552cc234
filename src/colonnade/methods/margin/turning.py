"""Slopes from shared waves: the owners without the label are turned by each other, and at last by the label holder's.

Only the real part of the last product is needed.
"""

from __future__ import annotations

from colonnade.errors import LocalProtocolError
from colonnade.methods.margin.plan import MarginPlan
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.shared import Shared
from colonnade.protocols.turning import turned
from colonnade.protocols.verified_products import reshare_products
from colonnade.runtime.party import Party


async def shared_slopes(party: Party, waves: dict[str, Shared], plan: MarginPlan, label: str) -> Shared:
    """Shares of the slopes without their constant, one for every head, at degree t."""
    others = await turned(
        party,
        [waves[owner] for owner in plan.others],
        scheme=plan.scheme,
        groups=plan.heads,
        step=f"turning {label}",
        verify=plan.verify,
    )
    width = plan.wave_width // plan.heads
    left, right = (each.in_rows_of(width) for each in (waves[plan.label_holder], others))
    slopes = await reshare_products(
        party, left, right, scheme=plan.scheme, verify=plan.verify, step=f"slopes {label}"
    )
    return slopes.in_rows_of(plan.heads)


def held(value: Shared) -> FieldArray:
    if value.share is None:
        raise LocalProtocolError("a keeper lacks a share of what was dealt")
    return value.share
