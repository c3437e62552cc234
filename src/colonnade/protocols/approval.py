"""Waiting until somebody at every owner that asks for it has said yes, before ids are compared and anything is charged.

An owner says with its columns that it will ask. Then every owner tells every member when it is ready; one that asks
nobody is at once. Whoever waits for a person hears meanwhile whether a peer has stopped, so that nobody approves what
has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.errors import PeerTimeout
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

STEP = "approval"


async def wait_for_approval(
    party: Party, asking: Sequence[str], agreed: Mapping[str, Any], plans: Sequence[Any]
) -> None:
    """Return when every owner in `asking` has the yes that it asks for; nothing is sent where nobody asks.

    `agreed` is what all members compared as their job, and `plans` are those that its cost is shown by.
    """
    if not asking:
        return
    for owner in asking:
        party.progress(f"{STEP} of {owner}", 0, 1)
    heard = [
        asyncio.create_task(_heard(party, owner, owner in asking))
        for owner in party.group.owners
        if owner != party.name
    ]
    tasks = [asyncio.create_task(_ready(party, agreed, plans)), *heard]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    # This member's own reason comes before what peers made of it.
    for error in ended:
        if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
            raise error
    for owner in asking:
        party.progress(f"{STEP} of {owner}", 1, 1)


async def _ready(party: Party, agreed: Mapping[str, Any], plans: Sequence[Any]) -> None:
    if party.approves is not None:
        await party.approves(agreed, plans)
    if party.owns_columns:
        for member in party.group.others(party.name):
            await tell(party, member, STEP, Message())


async def _heard(party: Party, owner: str, asks: bool) -> None:
    try:
        await hear(party, owner, STEP)
        party.progress(f"{STEP} of {owner}", 1, 1)
    except PeerTimeout:
        if not asks:
            raise
        raise PeerTimeout(
            f"{party.name} waited {party.timeout:g} s at step {STEP!r}: the job waits for approval by somebody at "
            f"{owner}. Ask {owner} to look at `colonnade party requests`; a longer timeout goes into the job. Nothing "
            "was charged, and no ids were compared."
        ) from None
