"""The whole path of one moment release, from strangers to a matrix that everybody may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.aligned import AlignedTable
from colonnade.data.encoding import MODES, Encoder
from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.errors import LocalProtocolError, RemoteProtocolError, SchemaError
from colonnade.protocols.agreement import agree, meet
from colonnade.protocols.alignment import Alignment, align
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.protocols.moments_plan import DEFAULT_GAMMA, MomentsPlan, Task, plan_moments
from colonnade.protocols.noisy_moments import noisy_moments
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


@dataclass(frozen=True)
class MomentsRequest:
    """What the parties want, before anybody has said how many rows or which columns there are.

    >>> MomentsRequest(task="classification", epsilon=1.0).to_data()["gamma"]
    4096
    """

    task: Task
    epsilon: float
    delta: float | None = None
    accepted_delta: float | None = None
    gamma: int = DEFAULT_GAMMA
    alignment: Alignment = "auto"

    def to_data(self) -> dict[str, Any]:
        """The request as plain values, for the parties to compare."""
        return {
            "method": "moments",
            "task": self.task,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accepted_delta": self.accepted_delta,
            "gamma": self.gamma,
            "alignment": self.alignment,
        }

    def plan(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> MomentsPlan:
        """The plan for these columns and rows."""
        return _planned(self, group, schemas, rows)


@lru_cache(maxsize=32)
def _planned(
    request: MomentsRequest, group: Group, schemas: tuple[PublicSchema, ...], rows: int
) -> MomentsPlan:
    # A plan is public and the same for every party, so parties in one process may share the work.
    return plan_moments(
        group,
        schemas,
        task=request.task,
        rows=rows,
        epsilon=request.epsilon,
        delta=request.delta,
        accepted_delta=request.accepted_delta,
        gamma=request.gamma,
    )


@dataclass(frozen=True, eq=False)
class OpenedMoments:
    """The noisy matrix with everything that says what it is, and, at an owner, the rows that went into it."""

    matrix: NDArray[np.int64]
    plan: MomentsPlan
    run: str
    reproducible: bool
    aligned: AlignedTable | None


async def moments_session(party: Party, table: Table | None, request: MomentsRequest) -> OpenedMoments:
    """Meet, compare jobs, introduce columns, align rows, compare plans, release once, publish."""
    await meet(party)
    await agree(party, "job", {**request.to_data(), "group": group_data(party.group)})
    schemas = await introduce(party, table)
    aligned = await align(party, table, request.alignment)
    rows = await _agreed_rows(party, aligned)
    plan = request.plan(party.group, schemas, rows)
    await agree(party, "plan", plan.to_data())
    opened = await noisy_moments(party, aligned, plan)
    matrix = await _publish(party, opened, plan)
    await confirm(party, matrix)
    return OpenedMoments(matrix, plan, party.run, party.tainted, aligned)


def group_data(group: Group) -> dict[str, Any]:
    """Who takes part and in which role, as plain values."""
    return {
        "owners": list(group.owners),
        "server": group.server,
        "keepers": list(group.keepers),
        "threshold": group.threshold,
        "active": group.active,
    }


async def introduce(party: Party, table: Table | None) -> tuple[PublicSchema, ...]:
    """Every owner tells every member its declared columns."""
    mine: Mapping[str, Any] = {}
    if party.owns_columns:
        if table is None:
            raise LocalProtocolError(f"{party.name} owns columns but brought no table")
        # Whatever is wrong with the rows is found here, before anything is charged or sent.
        table.check(party.progress)
        mine = {"schema": table.schema.public(party.name).to_data()}
        for member in party.group.others(party.name):
            await tell(party, member, "introduction", Message(mine))
    schemas = []
    for owner in party.group.owners:
        said = Message(mine) if owner == party.name else await hear(party, owner, "introduction")
        described = said.fields.get("schema")
        try:
            schema = PublicSchema.from_data(described if isinstance(described, dict) else {})
            for mode in MODES:
                Encoder(schema.columns, mode)
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
    return tuple(schemas)


async def _agreed_rows(party: Party, aligned: AlignedTable | None) -> int:
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


async def _publish(party: Party, opened: NDArray[np.int64] | None, plan: MomentsPlan) -> NDArray[np.int64]:
    """The server sends the opened matrix to every owner: what is opened is for all to read."""
    server = party.group.server
    if opened is not None:
        for owner in party.group.owners:
            await tell(party, owner, "release", Message(arrays={"matrix": opened}))
        return opened
    if not party.owns_columns:
        return np.zeros((0, 0), dtype=np.int64)
    said = await hear(party, server, "release")
    return checked_release(said, plan)


def checked_release(said: Message, plan: MomentsPlan) -> NDArray[np.int64]:
    """The published matrix, if it can be one: symmetric, and no entry beyond what the plan's field holds."""
    matrix = said.array("matrix", dtype="i8", shape=(plan.size, plan.size))
    if not np.array_equal(matrix, matrix.T):
        raise said.wrong("the published matrix is not symmetric")
    if matrix.size and max(int(matrix.max()), -int(matrix.min())) > plan.field.capacity:
        raise said.wrong("the published matrix has entries that no moments of this plan have")
    return matrix


async def confirm(party: Party, matrix: NDArray[np.int64]) -> None:
    """End together: nobody sent more than was asked for, and all who read the matrix read the same.

    A frame that comes twice is noticed by what is heard after it, and this is heard after everything else. The
    second round tells everybody that nobody noticed anything: whoever did has stopped with the reason.
    """
    mine = hashlib.sha256(np.ascontiguousarray(matrix, "<i8").tobytes()).hexdigest() if matrix.size else ""
    said = await exchange(party, "finished", Message({"read": mine}), party.group.members)
    for message in said.values():
        theirs = message.text("read")
        if mine and theirs and theirs != mine:
            raise message.wrong("it read another matrix than was published here")
    await exchange(party, "closing", Message(), party.group.members)
