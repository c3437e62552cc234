"""A judgement: each owner turns its part of every score into phases, nobody sees them, the server opens sums by class.

1. every owner charges its ledger for the whole judgement and tells its peers the ledger's head;
2. block by block, the label holder deals phases by class and the other owner its own, at degree t;
3. each keeper multiplies its own shares: degree 2t, nothing is sent;
4. every dealer deals its part of the noise at degree 2t;
5. the sum is opened to the server, once, and published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from colonnade.data.aligned import AlignedTable
from colonnade.data.table import Table
from colonnade.errors import DataError, LocalProtocolError
from colonnade.numbers.field import FieldArray
from colonnade.protocols.charging import charge_first
from colonnade.protocols.joint_scores import Terms
from colonnade.protocols.judging_plan import JudgePlan, JudgeRequest
from colonnade.protocols.session import SessionResult, own_rows, prepare, publish_integers
from colonnade.protocols.shared import Shared, total
from colonnade.protocols.sharing import open_to, share
from colonnade.runtime.party import Party

Integers = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Opened(SessionResult[JudgePlan]):
    """What was opened, with everything that says what it is; nothing at a mere keeper."""

    coefficients: Integers = field(repr=False)


async def judge_session(
    party: Party, table: Table | None, request: JudgeRequest, terms: Terms | None
) -> Opened:
    """Prepare, open once, publish. `terms` gives this owner's part of every score, from the middle of its range."""
    aligned, plan = await prepare(party, table, request)
    mine = None
    if aligned is not None:
        if terms is None:
            raise LocalProtocolError(f"{party.name} owns columns but has no part of the model")
        mine = checked_terms(terms(aligned), party.name, plan)
    opened = await judged(party, aligned, mine, plan)
    shape, largest = (plan.coefficients,), plan.field.capacity
    read = await publish_integers(party, opened, name="coefficients", shape=shape, largest=largest)
    return Opened(plan, party.run, party.tainted, aligned, read)


async def judged(
    party: Party, aligned: AlignedTable | None, terms: Array | None, plan: JudgePlan
) -> Integers | None:
    """The noisy sums at the server, None elsewhere."""
    group, t = party.group, party.group.threshold
    release = plan.release(party.name, run=party.run, reproducible=party.tainted)
    await charge_first(party, release)
    sums = _Products(plan)
    for number, (rows, mine) in enumerate(_blocks(party, aligned, terms, plan)):
        shapes = {owner: (rows, width) for owner, width in plan.dealt.items()}
        phases = await share(party, mine, shapes, scheme=plan.scheme, degree=t, step=f"phases {number}")
        sums.add(phases[plan.holder], phases[plan.other])
        party.progress("phases", min((number + 1) * plan.block, plan.rows), plan.rows)
    noise = noise_part(party, plan) if party.name in group.dealers else None
    shapes = dict.fromkeys(group.dealers, (1, plan.coefficients))
    noises = await share(party, noise, shapes, scheme=plan.scheme, degree=2 * t, step="noise")
    # Degree 2t: at degree t the server and one keeper would learn more (docs/proofs/noise-degree.md).
    noisy = sums.value(2 * t) + total(noises.values())
    opened = await open_to(party, group.server, noisy, scheme=plan.scheme, release=release, step="judgement")
    return None if opened is None else np.asarray(opened[0], dtype=np.int64)


def noise_part(party: Party, plan: JudgePlan) -> Integers:
    """This dealer's part of the noise."""
    return plan.noise.part(plan.group.whole).draw((1, plan.coefficients), party.randomness)


def checked_terms(terms: Array, owner: str, plan: JudgePlan) -> Array:
    """An owner's part of every score, none of them past its bound: privacy rests on that."""
    found = np.asarray(terms, dtype=np.float64).reshape(-1)
    if found.shape != (plan.rows,) or not np.isfinite(found).all():
        raise DataError(
            f"{owner}: the parts of {plan.rows} scores should be finite numbers, one for each person."
        )
    reach = plan.reach_of(owner)
    return np.clip(found, -reach, reach)


def own_phases(owner: str, terms: Array, classes: NDArray[np.int64] | None, plan: JudgePlan) -> Integers:
    """What one owner deals of some people: b₀ and b̃_f, or, by class, a₀ and ã_f where somebody is of that class."""
    angles = np.outer(terms * plan.omega, plan.frequencies)
    holds = owner == plan.holder
    sizes = np.array(plan.amplitudes if holds else [plan.gamma] * plan.harmonics, dtype=np.float64)
    ones = np.full((len(terms), 1), plan.gamma, dtype=np.int64)
    waves = [np.rint(sizes * wave(angles)).astype(np.int64) for wave in (np.cos, np.sin)]
    phases = np.concatenate([ones, *waves], axis=1)
    if not holds:
        return phases
    if classes is None:
        raise LocalProtocolError(f"{owner} should bring a label, brought none")
    return np.concatenate([phases * (classes == number)[:, None] for number in (0, 1)], axis=1)


def _blocks(
    party: Party, aligned: AlignedTable | None, terms: Array | None, plan: JudgePlan
) -> Iterator[tuple[int, Integers | None]]:
    if not party.owns_columns or terms is None:
        for start in range(0, plan.rows, plan.block):
            yield min(plan.block, plan.rows - start), None
        return
    start = 0
    for block in own_rows(party.name, aligned, plan.rows).blocks(plan.block):
        classes = None if block.label is None else np.asarray(block.label)
        yield block.rows, own_phases(party.name, terms[start : start + block.rows], classes, plan)
        start += block.rows


class _Products:
    """Shares of the coefficients, from products that each keeper makes alone; nothing at who keeps none."""

    def __init__(self, plan: JudgePlan) -> None:
        self._plan = plan
        self._sum: FieldArray | None = None

    def add(self, holder: Shared, other: Shared) -> None:
        """Add Σ of products of every number of the one owner with every number of the other."""
        if holder.share is None or other.share is None:
            return
        product = holder.share.transpose_times(other.share)
        self._sum = product if self._sum is None else self._sum + product

    def value(self, degree: int) -> Shared:
        """Count, real and imaginary parts of one class, then of the other. The degree has doubled; no mask is left."""
        shape = (1, self._plan.coefficients)
        if self._sum is None:
            return Shared(None, shape, degree)
        m, words = self._plan.harmonics, self._sum.words

        def picked(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> FieldArray:
            return FieldArray(self._plan.field, np.ascontiguousarray(words[:, rows, columns]))

        cosines, sines = np.arange(1, m + 1), np.arange(m + 1, 2 * m + 1)
        found = []
        for start in (0, 1 + 2 * m):
            found += [
                picked(np.array([start]), np.array([0])),
                picked(start + cosines, cosines) - picked(start + sines, sines),
                picked(start + cosines, sines) + picked(start + sines, cosines),
            ]
        row = [part.reshape((1, part.shape[0])) for part in found]
        return replace(Shared(None, shape, degree), share=row[0].stack_columns(row[1:]))
