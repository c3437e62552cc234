"""How the label holder looks for one record in noisy sums of embeddings.

What is proved holds for any network, so the audit brings those that give away most: each party's embedding is one
corner of its range for one record and the opposite corner for the other. Each record has counts of its own, so that
every record of a session is a canary and all of them count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colonnade.audits.experiments import Array, Bits, Claim, Experiment
from colonnade.audits.people import People, chosen, corner, mixed
from colonnade.audits.sessions import Session
from colonnade.data.table import AlignedTable, Table
from colonnade.methods.network.interfaces import PartyModels
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.protocol import TrainedEmbeddings, embeddings_session
from colonnade.methods.network.terms import BOUND
from colonnade.privacy.neighbours import ColumnsOf
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import Party

MANY = 400
WORST = "Networks are the ones that give away most: one corner of the embedding for one record, another for the other."
HOLDER_ONLY = "Tried is what the label holder learns of one record; whole columns and fellow parties are not."

Indices = NDArray[np.int64]


async def worst_session(party: Party, table: Table | None, spec: TrainingSpec) -> TrainedEmbeddings:
    """The protocol of the networks, with networks that give away most and a fusion model that only writes down."""
    return await embeddings_session(party, table, spec, _bring)


def network_experiments(plan: EmbeddingsPlan, request: TrainingSpec) -> list[Experiment]:
    """The label holder, in both of its roles, about each party's part of a record and about all of them."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    observers = {Server().name, PartyView(plan.receiver).name}
    units: dict[str, list[Claim]] = {}
    for stated in plan.guarantees:
        tried = stated.observer.name in observers and not isinstance(stated.unit, ColumnsOf)
        if tried and math.isfinite(stated.epsilon):
            units.setdefault(stated.unit.name, []).append(Claim.of(stated))
    experiments = []
    for unit, claims in units.items():
        hidden = [party for party in plan.contributors if party != plan.receiver]
        changed = [party for party in hidden if unit in ("others-part", f"own-part:{party}")]
        experiments.append(
            Experiment(
                "canaries",
                tuple(claims),
                plan.train_rows,
                _of_coins(plan, low, mixed(low, high, changed)),
                _statistic(plan),
                lambda _coins: request,
                "each record's noisy sum over all coordinates and passes",
                independent=True,
            )
        )
    return experiments


def _of_coins(plan: EmbeddingsPlan, first: People, second: People) -> Callable[[Bits], People]:
    # People who are held out are shown as well, and are the same on both sides.
    rest = np.zeros(plan.rows - plan.train_rows, dtype=np.bool_)
    trained_on = _trained_rows(plan)

    def people(coins: Bits) -> People:
        every = np.concatenate([coins, rest])
        placed = np.zeros(plan.rows, dtype=np.bool_)
        placed[trained_on] = every[: plan.train_rows]
        return chosen(first, second, placed)

    return people


def _trained_rows(plan: EmbeddingsPlan) -> Indices:
    rows = [batch.rows for batch in plan.batches(0) if not batch.held_out]
    return np.sort(np.concatenate(rows))


def _statistic(plan: EmbeddingsPlan) -> Callable[[Session, Claim], Array]:
    trained_on = _trained_rows(plan)

    def statistic(session: Session, _claim: Claim) -> Array:
        result = session.result(plan.receiver)
        seen = result.brought.fusion.total if plan.learns_locally else result.sums.sum(axis=1)
        return np.asarray(seen[trained_on], dtype=np.float64)

    return statistic


def _bring(table: AlignedTable | None, plan: EmbeddingsPlan) -> PartyModels:
    if table is None:
        return PartyModels()
    contributor = None
    if table.party in plan.contributors:
        encoder = plan.encoders[table.party]
        ends = [encoder.encode(corner(plan.schemas, place)[table.party])[0] for place in (0.0, 1.0)]
        way, middle = ends[1] - ends[0], (ends[0] + ends[1]) / 2
        rows = np.concatenate([encoder.encode(block) for block in table.blocks()])
        contributor = _Corners(np.where((rows - middle) @ way > 0, 1.0, -1.0) * BOUND, plan.options.embedding)
    fusion = _Notes(plan) if table.party == plan.receiver else None
    return PartyModels(contributor, fusion)


@dataclass(eq=False)
class _Corners:
    """A network that learns nothing and embeds each row into one of two corners."""

    sides: Array
    embedding: int
    parameters: int = 1

    def embed(self, rows: Indices) -> Array:
        return np.repeat(self.sides[rows][:, None], self.embedding, axis=1)

    def clipped_sum(self, rows: Indices, gradient: Array, *, clip: float, grid: int) -> Indices:
        return np.zeros(self.parameters, dtype=np.int64)

    def plain_sum(self, rows: Indices, gradient: Array) -> Array:
        return np.zeros(self.parameters)

    def step(self, direction: Array) -> None:
        """Learn nothing."""

    def save(self, epoch: int) -> None:
        """There is nothing to keep."""

    def load(self, epoch: int) -> None:
        """There is nothing to go back to."""

    def saved(self) -> tuple[int, ...]:
        return ()


@dataclass(eq=False)
class _Notes:
    """A fusion model that adds up what it is shown of each row, and sends gradients of zero."""

    plan: EmbeddingsPlan
    total: Array = field(init=False)

    def __post_init__(self) -> None:
        self.total = np.zeros(self.plan.rows)

    def labels(self) -> Array:
        classes = len(self.plan.label.classes)
        return np.ones((self.plan.rows, classes if classes > 2 else 1))

    def learn(self, rows: Indices, sums: Array, targets: Array) -> Array:
        self.total[rows] += sums.sum(axis=1)
        return np.zeros_like(sums)

    def look(self, rows: Indices, sums: Array, targets: Array) -> None:
        """Held-out rows are not asked about."""

    def goes_on(self, epoch: int) -> bool:
        return True

    def save(self, epoch: int) -> None:
        """There is nothing to keep."""

    def load(self, epoch: int) -> None:
        """There is nothing to go back to."""

    def saved(self) -> tuple[int, ...]:
        return ()
