"""An evaluation: each owner turns its part of every score into phases, nobody sees them, the server opens their sums.

1. every owner charges its ledger for the whole evaluation and tells its peers the ledger's head;
2. block by block, the label holder deals phases of every sum and the other owners their own, at degree t;
3. of more than one other owner, keepers multiply their phases in a tree, each product brought down to degree t;
4. each keeper multiplies its own shares: degree 2t, nothing is sent;
5. every dealer deals its part of the noise at degree 2t;
6. the sum is opened to the server, once, and published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, LocalProtocolError
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.charging import charge_first
from colonnade.protocols.evaluation_plan import EvaluationPlan, EvaluationSpec, Head
from colonnade.protocols.joint_scores import Terms
from colonnade.protocols.session import SessionResult, own_rows, prepare, publish_integers
from colonnade.protocols.shared import Shared
from colonnade.protocols.sharing import open_to, share, share_noise
from colonnade.protocols.turning import turned
from colonnade.runtime.party import Party

Integers = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Opened(SessionResult[EvaluationPlan]):
    """What was opened, with everything that says what it is; nothing at a mere keeper."""

    coefficients: Integers = field(repr=False)


async def evaluation_session(
    party: Party, table: Table | None, request: EvaluationSpec, terms: Terms | None
) -> Opened:
    """Prepare, open once, publish. `terms` gives this owner's part of every score, from the middle of its range.

    One column for each score, or one number for each person where there is one score.
    """
    aligned, plan = await prepare(party, table, request, EvaluationPlan)
    mine = None
    if aligned is not None:
        if terms is None:
            raise LocalProtocolError(f"{party.name} owns columns but has no part of the model")
        mine = checked_terms(terms(aligned), party.name, plan)
    opened = await open_sums(party, aligned, mine, plan)
    shape, largest = (plan.coefficients,), plan.field.capacity
    read = await publish_integers(party, opened, name="coefficients", shape=shape, largest=largest)
    return Opened(plan, party.run, party.seeded, aligned, read)


async def open_sums(
    party: Party, aligned: AlignedTable | None, terms: Array | None, plan: EvaluationPlan
) -> Integers | None:
    """The noisy sums at the server, None elsewhere."""
    group, t = party.group, party.group.threshold
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    sums = _Products(plan)
    for number, (rows, mine) in enumerate(_blocks(party, aligned, terms, plan)):
        shapes = {owner: (rows, width) for owner, width in plan.dealt.items()}
        phases = await share(party, mine, shapes, scheme=plan.scheme, degree=t, step=f"phases {number}")
        others = await turned(
            party,
            [phases[owner] for owner in plan.others],
            scheme=plan.scheme,
            groups=len(plan.heads),
            step=f"turning {number}",
        )
        sums.add(phases[plan.holder], others)
        party.progress("phases", min((number + 1) * plan.block, plan.rows), plan.rows)
    part = plan.noise.part(group.whole)
    noise = await share_noise(
        party,
        lambda: part.draw((1, plan.coefficients), party.randomness),
        plan.coefficients,
        scheme=plan.scheme,
        step="noise",
    )
    noisy = sums.value(2 * t) + noise
    opened = await open_to(party, group.server, noisy, scheme=plan.scheme, release=release, step="judgement")
    return None if opened is None else np.asarray(opened[0], dtype=np.int64)


def checked_terms(terms: Array, owner: str, plan: EvaluationPlan) -> Array:
    """An owner's part of every score, none of them past its bound: privacy rests on that."""
    values = np.asarray(terms, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape != (plan.rows, plan.scores) or not np.isfinite(values).all():
        raise DataError(
            f"{owner}: the parts of the scores of {plan.rows} people should be finite numbers, {plan.scores} for each."
        )
    reaches = np.array([plan.reach_of(owner, score) for score in range(plan.scores)])
    return np.clip(values, -reaches, reaches)


def own_phases(owner: str, terms: Array, labels: NDArray[Any] | None, plan: EvaluationPlan) -> Integers:
    """What one owner deals of some people, head by head: real parts, then imaginary parts, frequency 0 first.

    The label holder deals them for every sum of a head, weighed: of classes, by whether somebody is of each; of a
    number, by how near to the low and to the high end of its range it is.
    """
    mine = labels if owner == plan.holder else None
    if owner == plan.holder and mine is None:
        raise LocalProtocolError(f"{owner} should bring a label, brought none")
    dealt = []
    for head in plan.heads:
        angles = head.score * terms[:, head.column]
        if mine is not None and head.label:
            low, high = plan.label.from_unit([-1.0, 1.0])
            angles = angles + plan.label.to_unit(mine) * (high - low) / 2.0
        turns = np.outer(angles * head.omega, (0, *head.frequencies))
        sizes = np.array([plan.gamma, *([plan.gamma] * plan.harmonics if mine is None else head.amplitudes)])
        for weights in _weights(mine, plan, head):
            dealt += [np.rint(weights * sizes * wave(turns)).astype(np.int64) for wave in (np.cos, np.sin)]
    return np.concatenate(dealt, axis=1)


def _weights(labels: NDArray[Any] | None, plan: EvaluationPlan, head: Head) -> list[Array | float]:
    """How much of each person is in every sum of a head."""
    if labels is None or head.kind == "whole":
        return [1.0]
    if head.kind == "classes":
        return [(labels == code).astype(np.float64)[:, None] for code in range(head.sums)]
    # On the grid, so that the two counts of somebody add up to one.
    share = np.rint(plan.gamma * (1.0 + plan.label.to_unit(labels)) / 2.0)[:, None] / plan.gamma
    return [1.0 - share, share]


def _blocks(
    party: Party, aligned: AlignedTable | None, terms: Array | None, plan: EvaluationPlan
) -> Iterator[tuple[int, Integers | None]]:
    if not party.owns_columns or terms is None:
        for start in range(0, plan.rows, plan.block):
            yield min(plan.block, plan.rows - start), None
        return
    start = 0
    for block in own_rows(party.name, aligned, plan.rows).blocks(plan.block):
        labels = None if block.label is None else np.asarray(block.label)
        yield block.rows, own_phases(party.name, terms[start : start + block.rows], labels, plan)
        start += block.rows


class _Products:
    """Shares of the coefficients, from products that each keeper makes alone; nothing at who keeps none."""

    def __init__(self, plan: EvaluationPlan) -> None:
        self._plan = plan
        self._sums: list[FieldArray] = []

    def add(self, holder: Shared, other: Shared) -> None:
        """Add Σ of products of every number of the label holder with every number of the others, sum by sum."""
        if holder.share is None or other.share is None:
            return
        width, products, start = self._plan.width, [], 0
        for place, head in enumerate(self._plan.heads):
            theirs = other.share.columns(place * width, (place + 1) * width)
            for _ in range(head.sums):
                products.append(holder.share.columns(start, start + width).transpose_times(theirs))
                start += width
        self._sums = (
            [one + two for one, two in zip(self._sums, products, strict=True)] if self._sums else products
        )

    def value(self, degree: int) -> Shared:
        """Of every sum the count, if it has one, real and imaginary parts. The degree has doubled; no mask is left."""
        shape = (1, self._plan.coefficients)
        if not self._sums:
            return Shared(None, shape, degree)
        half = 1 + self._plan.harmonics
        real, imaginary = np.arange(half), np.arange(half, 2 * half)

        def picked(product: FieldArray, rows: Integers, columns: Integers) -> FieldArray:
            return FieldArray(self._plan.field, np.ascontiguousarray(product.words[:, rows, columns]))

        counted = [head.counted for head in self._plan.heads for _ in range(head.sums)]
        parts = []
        for product, has_count in zip(self._sums, counted, strict=True):
            r, i = (real, imaginary) if has_count else (real[1:], imaginary[1:])
            parts.append(picked(product, r, r) - picked(product, i, i))
            parts.append(picked(product, real[1:], imaginary[1:]) + picked(product, imaginary[1:], real[1:]))
        row = [part.reshape((1, part.shape[0])) for part in parts]
        return Shared(row[0].stack_columns(row[1:]), shape, degree)
