"""From strangers to a plan that everybody holds: what comes before every protocol, and what ends it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.data.encoder import MODES
from colonnade.data.schema import PublicSchema
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import LocalProtocolError, RemoteProtocolError, SchemaError
from colonnade.protocols.agreement import agree, agree_on_split, meet, wait_for_approval
from colonnade.protocols.alignment import align, compare_people, keep_part
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.protocols.plans import PlanT, Spec, group_data
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]
ArrayT = TypeVar("ArrayT", bound=NDArray[Any])
OutcomeT = TypeVar("OutcomeT")


async def prepare(
    party: Party, table: Table | None, spec: Spec, kind: type[PlanT]
) -> tuple[AlignedTable | None, PlanT]:
    """Meet, compare jobs, introduce columns, align rows, compare plans. Nothing is charged or released yet.

    An owner asks its policy, its budgets and its people before ids are compared, for as many people as there can be,
    and policy and budgets again when their number is known.
    """
    spec.check()
    await meet(party)
    part = {} if party.part is None else {"held_out": party.part.to_data()}
    agreed = {**spec.to_data(), "group": group_data(party.group), **part}
    await agree(party, "job", agreed)
    schemas, asking = await introduce(party, table)
    plans = []
    if party.asks is not None and table is not None:
        most = most_people(table.rows, spec.to_data())
        if party.part is not None:
            most = party.part.people(most)
        # Where δ is left to a rule it is largest for few people, and ε is taken at each.
        plans = [spec.plan(party.group, schemas, rows) for rows in dict.fromkeys((most, min(most, FEW)))]
        for place, plan in enumerate(plans):
            party.asks(plan, place == 0)
    await wait_for_approval(party, asking, agreed, plans)
    aligned = await align(party, table, spec.alignment, in_shares=spec.in_shares)
    if party.part is not None:
        aligned = keep_part(aligned, await agree_on_split(party), party.part.name)
    await compare_people(party, aligned)
    rows = await agreed_rows(party, aligned)
    if party.aligned is not None:
        party.aligned()
    plan = spec.plan(party.group, schemas, rows)
    if not isinstance(plan, kind):
        raise TypeError(
            f"{spec.method} makes a {type(plan).__name__}, and this protocol runs a {kind.__name__}"
        )
    if party.asks is not None:
        party.asks(plan, True)
    await agree(party, "plan", plan.to_data())
    if party.remembers is not None and aligned is not None:
        # From the charge on these people are trained on, however the run ends.
        party.remembers(aligned, party.run)
    return aligned, plan


async def from_start_to_end(
    party: Party,
    table: Table | None,
    spec: Spec,
    kind: type[PlanT],
    protocol: Callable[[Party, AlignedTable | None, PlanT], Awaitable[OutcomeT]],
) -> tuple[AlignedTable | None, PlanT, OutcomeT]:
    """Prepare, run the protocol of the agreed plan, of which nothing is published, and end together."""
    aligned, plan = await prepare(party, table, spec, kind)
    outcome = await protocol(party, aligned, plan)
    await confirm(party, "")
    return aligned, plan, outcome


FEW = 10_000
"""Up to so many people the rule for δ gives its largest."""


def most_people(rows: int, requested: Mapping[str, Any]) -> int:
    """How many of its rows a party can have in common with others: fewer than 1/δ, unless that δ is accepted."""
    delta: float | None = requested.get("delta")
    if delta is None or delta == requested.get("accepted_delta"):
        return rows
    return min(rows, max(1, math.ceil(1 / delta) - 1))


async def introduce(party: Party, table: Table | None) -> tuple[tuple[PublicSchema, ...], tuple[str, ...]]:
    """Every owner tells its columns to all; returns those of all owners, and who waits for a person to approve."""
    mine: Mapping[str, Any] = {}
    if party.owns_columns:
        if table is None:
            raise LocalProtocolError(f"{party.name} owns columns but brought no table")
        # Whatever is wrong with the rows is found here, before anything is charged or sent.
        table.check(party.progress)
        mine = {"schema": table.schema.public(party.name).to_data()}
        if party.approves is not None:
            mine = {**mine, "approval": True}
        for member in party.group.others(party.name):
            await tell(party, member, "introduction", Message(mine))
    schemas, asking = [], []
    for owner in party.group.owners:
        said = Message(mine) if owner == party.name else await hear(party, owner, "introduction")
        described = said.fields.get("schema")
        try:
            schema = PublicSchema.from_data(described if isinstance(described, dict) else {})
            for mode in MODES:
                schema.encoder(mode)
        except SchemaError as error:
            if owner == party.name:
                raise
            raise RemoteProtocolError(f"{party.name} at step 'introduction', from {owner}: {error}") from None
        if schema.party != owner:
            whose = schema.party if schema.party in party.group.members else "a stranger"
            raise RemoteProtocolError(
                f"{party.name} at step 'introduction': {owner} introduced itself with the columns of {whose}"
            )
        schemas.append(schema)
        if said.fields.get("approval") is True:
            asking.append(owner)
    return tuple(schemas), tuple(asking)


async def agreed_rows(party: Party, aligned: AlignedTable | None) -> int:
    """The aligned length, which is public: owners tell those members that own no columns."""
    group = party.group
    spectators = [member for member in group.members if member not in group.owners]
    if aligned is not None:
        for spectator in spectators:
            await tell(party, spectator, "rows", Message({"rows": aligned.rows}))
        return aligned.rows
    said = {(await hear(party, owner, "rows")).integer("rows") for owner in group.owners}
    if len(said) != 1:
        raise RemoteProtocolError(
            f"{party.name} at step 'rows': {', '.join(group.owners)} name different numbers of aligned rows"
        )
    return said.pop()


@dataclass(frozen=True, eq=False)
class SessionResult(Generic[PlanT]):
    """What any member comes away with: what was agreed, and, at an owner, the rows that went into it."""

    plan: PlanT
    run: str
    reproducible: bool
    aligned: AlignedTable | None


RowSource = AlignedTable | Table
"""Rows, in blocks."""


def own_rows(owner: str, table: RowSource | None, rows: int) -> RowSource:
    if table is None or table.rows != rows:
        count = "none" if table is None else f"{table.rows} rows"
        raise LocalProtocolError(f"{owner} should bring {rows} aligned rows, brought {count}")
    return table


def own_blocks(
    party: Party, table: RowSource | None, integers: Callable[[Block], Integers], *, rows: int, size: int
) -> Iterator[tuple[int, Integers | None]]:
    """Row counts of the agreed blocks, with this owner's integers for each of them."""
    if not party.owns_columns:
        for start in range(0, rows, size):
            yield min(size, rows - start), None
        return
    for block in own_rows(party.name, table, rows).blocks(size):
        yield block.rows, integers(block)


async def publish(
    party: Party,
    opened: ArrayT | None,
    step: str,
    name: str,
    checked: Callable[[Message], ArrayT],
    nothing: ArrayT,
) -> ArrayT:
    """The server sends what was opened to every owner, which takes it if it passes `checked`; then all end together."""
    if opened is not None:
        for owner in party.group.owners:
            await tell(party, owner, step, Message(arrays={name: opened}))
        read = opened
    else:
        read = checked(await hear(party, party.group.server, step)) if party.owns_columns else nothing
    await confirm(party, array_digest(read) if read.size else "")
    return read


async def publish_integers(
    party: Party, opened: Integers | None, *, name: str, shape: tuple[int, ...], largest: int
) -> Integers:
    """Publish what was opened as integers, of which no plan like this one has larger ones."""

    def checked(said: Message) -> Integers:
        read: Integers = said.array(name, dtype="i8", shape=shape)
        if read.size and max(int(read.max()), -int(read.min())) > largest:
            raise said.wrong(f"the published {name} are larger than any of this plan")
        return read

    return await publish(party, opened, "release", name, checked, np.zeros(0, dtype=np.int64))


async def confirm(party: Party, read: str) -> None:
    """End together: nobody sent more than was asked for, and all who read what was published read the same (`read`).

    A frame that comes twice is noticed by what is heard after it, and this is heard after everything else. The second
    round tells everybody that nobody noticed anything.
    """
    said = await exchange(party, "finished", Message({"read": read}), party.group.members)
    for message in said.values():
        theirs = message.text("read")
        if read and theirs and theirs != read:
            raise message.wrong("it read something else than was published here")
    await exchange(party, "closing", Message(), party.group.members)


def array_digest(array: NDArray[Any]) -> str:
    """SHA-256 of an array's bytes, whatever machine it is on."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return hashlib.sha256(little.tobytes()).hexdigest()
