"""What every plan is, whatever its protocol: agreed before data is touched, hashed, and priced by observer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from colonnade.data.label import LabelBlock
from colonnade.data.schema import PublicSchema
from colonnade.errors import DeltaTooLarge, GroupMismatch, LabelMismatch, PlanError
from colonnade.ledger import Line, Release
from colonnade.privacy.events import Event
from colonnade.privacy.guarantee import Guarantee, guarantee
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.observers import Observer, PartyView
from colonnade.runtime.group import Group

Task = Literal["classification", "regression", "pca"]
_LABELS = {"classification": ("classes",), "regression": ("real", "count")}


@dataclass(frozen=True)
class View:
    """What one observer gets out of a run: the noise it does not know, against what it may compare."""

    observer: Observer
    unit: Unit
    event: Event
    assumption: str


class Plan(Protocol):
    """Everything the parties of a run agree on before it touches data. Equal plans have equal hashes."""

    @property
    def group(self) -> Group:
        """Who takes part, and in which role."""
        ...

    @property
    def rows(self) -> int:
        """The public number of aligned people."""
        ...

    @property
    def delta(self) -> float:
        """The δ at which guarantees are stated."""
        ...

    @property
    def views(self) -> tuple[View, ...]:
        """What the run is to each observer."""
        ...

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One statement per observer, for noise that nobody can reproduce."""
        ...

    @property
    def hash(self) -> str:
        """SHA-256 of `to_data`, which the parties compare."""
        ...

    def to_data(self) -> dict[str, Any]:
        """The whole plan as plain values."""
        ...

    def release(self, party: str, *, run: str, reproducible: bool) -> Release:
        """What a member charges before anything leaves: the lines about its own columns."""
        ...


def guarantees_of(views: Iterable[View], delta: float) -> tuple[Guarantee, ...]:
    """One statement per view at this δ."""
    return tuple(
        guarantee(view.event, observer=view.observer, unit=view.unit, delta=delta, assumption=view.assumption)
        for view in views
    )


def lines_about(party: str, views: Iterable[View]) -> tuple[Line, ...]:
    """What an owner's ledger holds of these views: all but its own look at the others."""
    return tuple(
        Line(view.observer.name, view.unit.name, view.event)
        for view in views
        if view.observer.name != PartyView(party).name
    )


def default_delta(rows: int) -> float:
    """1e-5, or a tenth of 1/n where that is smaller.

    >>> default_delta(1000), default_delta(10**6)
    (1e-05, 1e-07)
    """
    return min(1e-5, 10.0 ** math.floor(math.log10(1 / (10 * rows))))


def checked_delta(epsilon: float, delta: float | None, accepted_delta: float | None, rows: int) -> float:
    """The δ of a plan, if its target can be one.

    δ at or above 1/n would allow the whole row of some person to be published; it is refused unless
    `accepted_delta` repeats it.

    >>> checked_delta(1.0, None, None, 1000)
    1e-05
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError(f"epsilon = {epsilon:g}, but privacy loss is a positive number. Try 1.")
    if rows < 1:
        raise PlanError("there are no aligned rows to learn from.")
    if delta is None:
        return default_delta(rows)
    if not 0 < delta < 1:
        raise PlanError(
            f"delta = {delta:g}, but it is a probability between 0 and 1. Try {default_delta(rows):g}."
        )
    if delta >= 1 / rows and accepted_delta != delta:
        raise DeltaTooLarge(
            f"delta = {delta:g} is not below 1/n = {1 / rows:.3g} for {rows} rows: it would allow publishing a "
            f"person's row outright. Use {default_delta(rows):g}, or say accepted_delta = {delta:g} if you mean it."
        )
    return delta


def check_parties(group: Group, schemas: tuple[PublicSchema, ...], task: Task) -> None:
    """Refuse columns that are not the owners', and a label that is missing, double or of the wrong kind."""
    if tuple(schema.party for schema in schemas) != group.owners:
        raise PlanError("the schemas of a plan are those of its owners, in their order")
    if task == "pca":
        return
    holders = [schema.party for schema in schemas if schema.label is not None]
    if not holders:
        raise LabelMismatch(
            f"{task} needs a label, and no party declares one. Add a [label] table to the schema of one party."
        )
    if len(holders) > 1:
        raise LabelMismatch(
            f"one party holds the label; {', '.join(holders)} all declare one. Keep one of them."
        )
    if group.active != holders[0]:
        raise LabelMismatch(
            f"the job says that {group.active or 'nobody'} holds the label, but {holders[0]} declares one. "
            f"Write active = {holders[0]!r}."
        )
    kind = LabelBlock(schemas[group.owners.index(holders[0])].label).kind
    if kind not in _LABELS[task]:
        raise LabelMismatch(
            f"{task} needs a label of kind {' or '.join(_LABELS[task])}; {holders[0]} declares kind {kind!r}. "
            "Change the task, or the label's declaration."
        )


def check_keepers(group: Group) -> None:
    """Refuse a group without keepers, where a protocol deals shares."""
    if not group.keepers:
        raise GroupMismatch(
            f"{' and '.join(group.owners)} have no keepers for their shares. Name a server as third, or use the "
            "encrypted path for two owners alone (docs/two-owners.md)."
        )
