"""The functional mechanism among parties: a quadratic objective with noise inside, opened once.

After "Achieving Differential Privacy in Vertically Partitioned Multiparty Learning", whose parties decrypt exact
coefficients and add noise afterwards. Here nobody holds a coefficient without noise, and the squares of label and
constant are never opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block as Rows
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, LocalProtocolError
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.numbers.field import FieldArray
from colonnade.numbers.rounding import nearest
from colonnade.protocols.agreement import charge_first
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import RowSource, SessionResult, own_blocks, prepare, publish_integers
from colonnade.protocols.sharing import open_to, share_noise
from colonnade.protocols.verified_rows import sum_products
from colonnade.runtime.party import Party

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OpenedObjective(SessionResult[FunctionalPlan]):
    """The noisy coefficients, block by block; none at a mere computing party."""

    coefficients: Integers = field(repr=False)


async def functional_session(party: Party, table: Table | None, spec: TrainingSpec) -> OpenedObjective:
    aligned, plan = await prepare(party, table, spec, FunctionalPlan)
    return await open_objective(party, aligned, plan)


async def open_objective(party: Party, aligned: AlignedTable | None, plan: FunctionalPlan) -> OpenedObjective:
    opened = await functional_mechanism(party, aligned, plan)
    shape = (plan.dissection.coefficients,)
    coefficients = await publish_integers(
        party, opened, name="coefficients", shape=shape, largest=plan.field.capacity
    )
    return OpenedObjective(plan, party.run, party.seeded, aligned, coefficients)


async def functional_mechanism(
    party: Party, table: RowSource | None, plan: FunctionalPlan
) -> Integers | None:
    server, dissection = party.group.server, plan.dissection
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    blocks = own_blocks(
        party, table, lambda rows: integer_rows(plan, party.name, rows), rows=plan.rows, size=plan.block
    )
    products = await sum_products(party, blocks, plan, columns=dissection.columns)
    noise = await share_noise(
        party, lambda: noise_part(party, plan), dissection.coefficients, scheme=plan.scheme, step="noise"
    )
    # What is not released is not masked, and must not be opened.
    chosen = replace(products, shape=(1, dissection.coefficients))
    if products.share is not None:
        words = np.ascontiguousarray(products.share.words[..., dissection.opened])
        chosen = replace(chosen, share=FieldArray(plan.field, words))
    noisy = chosen + noise
    opened = await open_to(party, server, noisy, scheme=plan.scheme, release=release, step="objective")
    return None if opened is None else np.asarray(opened[0], dtype=np.int64)


def noise_part(party: Party, plan: FunctionalPlan) -> Integers:
    """This dealer's part of the noise, block by block; nothing on blocks whose noise is the owners' alone."""
    parts = []
    for block in plan.dissection.blocks:
        noise = plan.noise_of(block)
        if party.name in noise.dealers(plan.group):
            parts.append(noise.part(plan.group).draw(block.size, party.randomness))
        else:
            parts.append(np.zeros(block.size, dtype=np.int64))
    return np.concatenate(parts)


def integer_rows(plan: FunctionalPlan, party: str, rows: Rows) -> Integers:
    encoder, side = plan.encoders[party], plan.gamma
    integers = np.empty((rows.rows, plan.dissection.dealt[party]), dtype=np.int64)
    features = integers[:, : encoder.width]
    if plan.options.domain == "ball":
        features[:] = plan.quantizers[party].quantize(rows)
    elif encoder.width:
        for span, piece in encoder.pieces(encoder.block(rows), scale=float(side)):
            try:
                rounded = nearest(piece)
            except ValueError:
                raise DataError("a value that is not a finite number reached the grid.") from None
            # What privacy rests on is decided on integers, whatever floats did before.
            features[span] = np.clip(rounded, -side, side, out=rounded).T
    if party == plan.label_holder:
        integers[:, encoder.width : -1] = plan.constant_size
        integers[:, -1] = _integer_label(plan, rows)
    return integers


def _integer_label(plan: FunctionalPlan, rows: Rows) -> Integers:
    if rows.label is None:
        raise LocalProtocolError(f"{plan.label_holder} should bring a label, brought none")
    size = plan.label_size
    if plan.spec.task == "classification":
        return np.where(np.asarray(rows.label) > 0, size, -size)
    scaled = np.rint(size * plan.label.to_unit(rows.label))
    return np.clip(scaled, -size, size).astype(np.int64)
