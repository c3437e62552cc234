"""Everybody's rows in one place. Only for data that every party declared public."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import OnlyForPublicData
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.descents import CentralLoss
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import Array, InputSpec
from colonnade.models.release import MomentRelease
from colonnade.privacy.events import Event
from colonnade.privacy.guarantee import Guarantee, guarantee
from colonnade.privacy.observers import ZERO_OUT, Reader
from colonnade.protocols.plans import TrainingSpec, check_parties, checked_delta

TRUST = "one place that holds all rows, which a federation does not have, is trusted with them"


@dataclass(frozen=True, eq=False)
class Gathered:
    """All rows in the clear. `plan` says what the columns are; its noise is not used."""

    plan: MomentsPlan
    tables: tuple[AlignedTable, ...]

    @property
    def frame(self) -> InputSpec:
        return InputSpec(tuple(self.plan.encoders.items()), self.plan.label)

    @property
    def delta(self) -> float:
        return self.plan.delta

    @cached_property
    def features(self) -> Array:
        return encoded_rows(self.tables, self.frame.encoders)

    @cached_property
    def bordered(self) -> Array:
        return np.column_stack([self.features, np.ones(self.plan.rows)])

    @cached_property
    def labels(self) -> NDArray[Any]:
        return label_values(self.tables)

    @cached_property
    def loss(self) -> CentralLoss:
        """The loss that the label asks for: log-odds for classes, squares for a label scaled to [−1, 1]."""
        label = self.plan.label
        if not label.one_hot:
            return CentralLoss("numbers", label.to_unit(self.labels), outputs=1)
        return CentralLoss(
            "classes", self.labels.astype(np.int64), outputs=1 if label.width == 2 else label.width
        )

    def moments(self) -> NDArray[np.int64]:
        """Σ z̃z̃ᵀ over all rows, exactly, without noise; products of two classes are 0."""
        plan = self.plan
        total = np.zeros((plan.size, plan.size), dtype=np.int64)
        # Products and their sums stay below 2⁵³ in a block of this many rows, so doubles hold them exactly.
        size = max(1, min(plan.block, (1 << 53) // plan.shape_of_all_but(None).bound))
        for blocks in zip(*(table.blocks(size) for table in self.tables), strict=True):
            parts = [
                plan.quantizers[table.party].quantize(block)
                for table, block in zip(self.tables, blocks, strict=True)
            ]
            values = next((block.labels for block in blocks if block.labels), ())
            parts.append(plan.labels.quantize(values, plan.gamma, rows=blocks[0].rows))
            rows = np.concatenate(parts, axis=1).astype(np.float64)
            total += (rows.T @ rows).astype(np.int64)
        return total

    def privacy(self, event: Event, *, delta: float | None = None, reproducible: bool = False) -> Privacy:
        stated = guarantee(
            event,
            observer=Reader(),
            unit=ZERO_OUT,
            delta=self.delta if delta is None else delta,
            assumption=TRUST,
        )
        return Privacy((stated,), reproducible=reproducible)


def release_of(
    plan: MomentsPlan,
    matrix: NDArray[np.int64],
    *,
    mu: Fraction,
    gamma: int | None = None,
    guarantees: Iterable[Guarantee] = (),
    origin: tuple[str, str] = ("", ""),
    reproducible: bool,
) -> MomentRelease:
    """A matrix of these columns as something to fit models from; `origin` is the hash of its plan, and its run."""
    return MomentRelease(
        matrix=matrix,
        gamma=gamma or plan.gamma,
        rows=plan.rows,
        encoders=tuple(plan.encoders.items()),
        label=plan.label,
        mu=mu,
        guarantees=tuple(guarantees),
        plan=origin[0],
        run=origin[1],
        reproducible=reproducible,
    )


def check_public(federation: Federation, why: str) -> None:
    if not federation.public:
        raise OnlyForPublicData(
            f"this baseline {why}, so it runs only on data that every party declared public (public = true in each "
            "party's file). Nothing was read or charged."
        )


def gather(federation: Federation, spec: TrainingSpec) -> Gathered:
    check_public(federation, "looks at everybody's rows in one place")
    group = federation.group
    schemas = tuple(federation.tables[owner].schema.public(owner) for owner in group.owners)
    check_parties(group, schemas, spec.task)
    results = federation.align().results
    tables = tuple(results[owner] for owner in group.owners)
    rows = tables[0].rows
    delta = checked_delta(spec.epsilon, spec.delta, spec.accepted_delta, rows)
    plan = MomentsPlan(
        spec.gamma, Fraction(1), spec=spec, group=group, rows=rows, schemas=schemas, delta=delta
    )
    return Gathered(plan, tables)


def encoded_rows(
    tables: Iterable[Table | AlignedTable],
    encoders: Sequence[tuple[str, Encoder]],
    *,
    attributes: int | None = None,
) -> NDArray[np.float64]:
    """The rows of all parties side by side, encoded and divided by √m; m as in `InputSpec`."""
    by_party = {table.party: table for table in tables}
    blocks = [
        np.concatenate([encoder.encode(block) for block in by_party[party].blocks()])
        for party, encoder in encoders
    ]
    declared = sum(encoder.attributes for _, encoder in encoders)
    return np.asarray(np.concatenate(blocks, axis=1) / math.sqrt(attributes or declared))


def label_values(tables: Iterable[Table | AlignedTable]) -> NDArray[Any]:
    """The labels of the one party that has them: class numbers, or numbers in their own units."""
    holder = next(table for table in tables if table.schema.label is not None)
    return np.concatenate([block.label for block in holder.blocks() if block.label is not None])
