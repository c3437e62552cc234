"""No party can reach another party's rows, except through the bytes of its channel."""

import asyncio
import gc
import sys
import types
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typed import there, untyped

from colonnade.protocols.messages import exchange
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import Message

GROUP = Group.of(("bank", "insurer"), active="bank")
SHARED_BY_MISTAKE: dict[str, object] = {}


class Book:
    def charge(self, release: Any, dataset: Any, *, fresh: bool = False) -> None:
        return None

    def keep_receipt(self, receipt: Any, *, after: int | None = None) -> None:
        return None

    def note_comparison(self, dataset: Any, partners: Any, *, run: Any, through: Any = "") -> None:
        return None


def reachable(*starts: Any) -> set[int]:
    """Ids of every object that strong references lead to.

    Modules and their globals are followed for Colonnade and for this test, since a cache there would be
    a way across; not for the interpreter and third-party packages, through which everything in a process
    hangs together.
    """
    todo, found = list(starts), set()
    while todo:
        thing = todo.pop()
        # What a weak proxy stands for may be gone, and it holds nothing.
        if id(thing) in found or type(thing) in weakref.ProxyTypes:
            continue
        if isinstance(thing, types.ModuleType | asyncio.AbstractEventLoop):
            continue
        found.add(id(thing))
        if isinstance(thing, types.FunctionType) and not ours(thing.__module__):
            continue
        if isinstance(thing, type) and not ours(thing.__module__):
            continue
        if isinstance(thing, dict) and foreign_namespace(thing):
            continue
        todo.extend(gc.get_referents(thing))
    return found


def ours(module: str | None) -> bool:
    return bool(module) and there(module).split(".")[0] in ("colonnade", __name__.split(".")[0])


def foreign_namespace(thing: dict[str, Any]) -> bool:
    name = thing.get("__name__") if "__spec__" in thing else None
    return isinstance(name, str) and not ours(name)


def rows_of(name: str) -> np.ndarray:
    return np.full((5, 2), {"bank": 1.0, "insurer": 2.0, "server": 0.0}[name])


def run_with_probe(
    program: Callable[..., Any], tables: dict[str, NDArray[np.float64]]
) -> dict[str, set[int]]:
    """Run until every party waits at a barrier in the middle, and look from each party's own frame."""
    views: dict[str, set[int]] = {}

    async def probed(party: Party, table: NDArray[np.float64]) -> None:
        await exchange(party, "first", Message({}, {"sum": table.sum(axis=0)}), party.group.members)
        program(party, table)
        waiting = asyncio.create_task(
            exchange(party, "second", Message({}, {"sum": table.sum(axis=0)}), party.group.members)
        )
        for _ in range(10):
            await asyncio.sleep(0)
        views[party.name] = reachable(party, table, sys._getframe())
        await waiting

    run_here(probed, GROUP, {name: PartyInputs(untyped(Book()), table) for name, table in tables.items()})
    return views


def crossings(program: Callable[..., Any]) -> list[tuple[str, str]]:
    tables = {name: rows_of(name) for name in GROUP.members}
    views = run_with_probe(program, tables)
    assert all(id(tables[name]) in views[name] for name in tables), "the walk finds a party's own rows"
    return [
        (name, other)
        for name in tables
        for other in tables
        if other != name and id(tables[other]) in views[name]
    ]


def test_following_every_reference_from_one_party_never_reaches_anothers_rows() -> None:
    assert crossings(lambda party, table: None) == []


def test_this_walk_would_notice_rows_left_in_a_shared_place() -> None:
    try:
        assert ("insurer", "bank") in crossings(
            lambda party, table: SHARED_BY_MISTAKE.update({party.name: table})
        )
    finally:
        SHARED_BY_MISTAKE.clear()


def test_rows_are_touched_only_while_their_own_party_runs() -> None:
    """A table that knows its owner refuses every other party's task."""
    running: ContextVar[str] = ContextVar("running")

    class Guarded:
        def __init__(self, owner: str) -> None:
            self.owner = owner

        def sum(self) -> NDArray[np.float64]:
            if running.get() != self.owner:
                raise AssertionError(f"{running.get()} touched the rows of {self.owner}")
            return np.ones(2)

    async def program(party: Party, table: Any) -> None:
        running.set(party.name)
        for step in ("first", "second"):
            await exchange(party, step, Message({}, {"sum": table.sum()}), party.group.members)

    run_here(program, GROUP, {name: PartyInputs(untyped(Book()), Guarded(name)) for name in GROUP.members})
