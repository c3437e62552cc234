"""What the protocols would open, of public tables in one place: the same integers and noise by the same laws, undealt.

Shares change no number: without noise a protocol opens exactly these integers. So a study over many ε deals nothing,
and sums the integers of a grid once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.federation.federation import Federation, released
from colonnade.methods.margin.method import linear_model as margin_learnt
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.protocol import OwnRows, descended
from colonnade.methods.method import TrainedModel
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.moments.protocol import OpenedMoments, arranged
from colonnade.methods.slr.method import model as slr_model
from colonnade.methods.slr.plan import GradientPlan, SlrDescent
from colonnade.methods.slr.protocol import Batches, TrainedWeights, batch_rows, integer_rows
from colonnade.methods.table import checked_options, protocol_named
from colonnade.models.release import MomentRelease
from colonnade.protocols.plans import Task, TrainingSpec
from colonnade.randomness import Randomness, SystemRandomness

Integers = NDArray[np.int64]
DELTA = 1e-5


@dataclass(frozen=True)
class _Reader:
    """As much of a party as reads its rows."""

    name: str
    randomness: Randomness


def gradient_weights(
    plan: GradientPlan, rows: NDArray[np.signedinteger], randomness: Randomness
) -> NDArray[np.float64]:
    """SLR's weights after all steps on integer rows, each owner's columns and after its holder's the label."""
    places, labelled, start = [], 0, 0
    for owner, width in plan.widths.items():
        places += list(range(start, start + width))
        start += width
        if owner == plan.label_holder:
            labelled, start = start, start + 1
    batches = Batches(plan, randomness.bytes(32))
    schedule = plan.schedule
    descent = SlrDescent(plan.size, schedule.optimiser, cap=float(schedule.weight_cap), steps=schedule.steps)
    expected = float(plan.rows * schedule.rate)
    for _ in range(schedule.steps):
        batch = batch_rows(rows, batches.next())
        features, labels = batch[:, places], batch[:, labelled]
        opened = fused_sum(features, labels, descent.on_grid(plan.gamma, plan.weight_squared), plan.gamma)
        for _ in plan.group.dealers:
            opened += plan.noise.part(plan.group.whole).draw(opened.shape, randomness)
        descent.step(opened.astype(np.float64) / (4.0 * plan.gamma**3 * expected))
    return descent.model


def fused_sum(features: Integers, labels: Integers, weights: Integers, gamma: int) -> Integers:
    """Σ x̃(⟨w̃, x̃⟩ − 2γ·l) for labels l of −γ, 0 (nobody) or γ: what a step opens, without noise.

    >>> fused_sum(np.array([[1, 2]]), np.array([4]), np.array([3, 0]), 4).tolist()
    [-29, -58]
    """
    slopes = features @ weights - 2 * gamma * labels
    # In two halves, whose products with γ and sums over rows doubles hold exactly.
    low = slopes & ((1 << 20) - 1)
    high = (slopes - low) >> 20
    doubles = features.astype(np.float64)
    found = [(half.astype(np.float64) @ doubles).astype(np.int64) for half in (low, high)]
    return found[0] + (found[1] << 20)


class OnePlace:
    """Everybody's tables of the same people in the same order, and what methods would learn from them.

    >>> from reproduction.skellam_sets import made_up_incomes
    >>> people = OnePlace(made_up_incomes(300).split(2, 0).tables)
    >>> people.moments("classification", epsilon=1.0).rows
    240
    """

    def __init__(self, tables: Sequence[Table], *, delta: float = DELTA) -> None:
        self.tables, self.delta, self.randomness = list(tables), delta, SystemRandomness()
        self._federation = Federation(self.tables, budget=(1e6, delta), public=True)
        self._sums: dict[object, Integers] = {}
        self._rows: dict[object, Any] = {}

    def plan(
        self, method: str, task: Task, *, epsilon: float, options: Mapping[str, Any] | None = None
    ) -> Any:
        """The plan that the parties would agree on."""
        chosen = protocol_named(method)
        requested = TrainingSpec(
            task,
            epsilon,
            delta=self.delta,
            accepted_delta=self.delta,
            options=checked_options(chosen, options or {}),
        )
        group = self._federation.group
        schemas = tuple(table.schema.public(table.party) for table in self.tables)
        return requested.planned(group, schemas, self.tables[0].rows)

    def moments(
        self,
        task: Task,
        *,
        epsilon: float,
        method: str = "moments",
        options: Mapping[str, Any] | None = None,
    ) -> MomentRelease:
        """One noisy release of second moments."""
        plan: MomentsPlan = self.plan(method, task, epsilon=epsilon, options=options)
        part, noise = plan.noise.part(plan.group.whole), np.zeros((plan.size, plan.size), dtype=np.int64)
        for _ in plan.group.dealers:
            for kind in self._matrices(plan):
                noise[kind, kind] += part.draw_symmetric(kind.stop - kind.start, self.randomness)
        return self._as_release(plan, noise)

    @staticmethod
    def _matrices(plan: MomentsPlan) -> list[slice]:
        """Where the matrices lie that carry noise: one for each class, or one in all."""
        if plan.conditional:
            return [plan.class_span(kind) for kind in range(plan.label.width)]
        return [slice(0, plan.size)]

    def exact_moments(self, plan: MomentsPlan) -> MomentRelease:
        """What the release of this plan would be without its noise."""
        return self._as_release(plan, np.zeros((plan.size, plan.size), dtype=np.int64))

    def _as_release(self, plan: MomentsPlan, noise: Integers) -> MomentRelease:
        grid = (plan.gamma, plan.rounding, plan.spec.task, plan.conditional)
        if grid not in self._sums:
            self._sums[grid] = self._summed(plan)
        matrix = arranged(self._sums[grid] + noise, plan)
        if plan.label.one_hot and not plan.conditional:
            # Nobody has two classes: these products are known to be 0 and get no noise.
            kinds = slice(plan.size - plan.label.width, plan.size)
            matrix[kinds, kinds] = np.diag(np.diag(matrix[kinds, kinds]))
        return released(OpenedMoments(plan, "", self.randomness.reproducible, None, matrix))

    def margin(self, *, epsilon: float, options: Mapping[str, Any] | None = None) -> TrainedModel:
        """A linear classifier by noisy margin descent."""
        plan: MarginPlan = self.plan("margin", "classification", epsilon=epsilon, options=options)
        grid = ("margin", plan.gamma, plan.rows_rounded)
        if grid not in self._rows:
            self._rows[grid] = {
                table.party: OwnRows.read(table.party, table, plan, self.randomness) for table in self.tables
            }
        rows: Mapping[str, OwnRows] = self._rows[grid]
        descent = descended(plan, rows, self.randomness)
        return margin_learnt(descent.model, descent.counts, plan, reproducible=False)

    def slr(self, *, epsilon: float, options: Mapping[str, Any] | None = None) -> TrainedModel:
        """A linear classifier by noisy gradients on secret batches."""
        plan: GradientPlan = self.plan("slr", "classification", epsilon=epsilon, options=options)
        grid = ("slr", plan.gamma, plan.rows_rounded)
        if grid not in self._rows:
            parts = [
                integer_rows(cast(Any, _Reader(table.party, self.randomness)), table, plan)
                for table in self.tables
            ]
            self._rows[grid] = np.concatenate(parts, axis=1)
        weights = gradient_weights(plan, self._rows[grid], self.randomness)
        found = slr_model(
            TrainingSpec("classification", epsilon),
            {"server": TrainedWeights(plan, "", self.randomness.reproducible, None, weights)},
        )
        if found is None:
            raise ValueError("SLR gave no weights")
        return found

    def _summed(self, plan: MomentsPlan) -> Integers:
        """Σ z̃z̃ᵀ in the order in which columns are dealt."""
        total = np.zeros((plan.size, plan.size), dtype=np.int64)
        # Products and their sums stay below 2⁵³ in a block of this many rows, so doubles hold them exactly.
        size = max(1, min(1 << 14, (1 << 53) // plan.shape_of_all_but(None).bound))
        for blocks in zip(*(table.blocks(size) for table in self.tables), strict=True):
            parts: list[Integers] = []
            for table, block in zip(self.tables, blocks, strict=True):
                parts.append(plan.quantizers[table.party].quantize(block, self.randomness))
                if table.party != plan.label_holder:
                    continue
                values = block.label if plan.spec.task != "pca" else None
                label = plan.label.quantize(values, plan.gamma, rows=block.rows)
                if not plan.conditional:
                    parts.append(label)
            if plan.conditional:
                # The rows of each class beside those of the others: what is 0 for all of a class stays 0.
                one = plan.label.constant(plan.gamma)
                alone = np.concatenate([*parts, np.full((len(label), 1), one, dtype=np.int64)], axis=1)
                parts = [alone * (label[:, [kind]] // one) for kind in range(plan.label.width)]
            rows = np.concatenate(parts, axis=1).astype(np.float64)
            total += (rows.T @ rows).astype(np.int64)
        return total
