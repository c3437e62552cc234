"""Logistic regression by noisy gradients: secret batches, one opened vector a step, weights that everybody sees.

Box of the protocol, after SLR (Skellam noise in BGW):

1. every owner charges its ledger for all steps and tells its peers the ledger's head;
2. the owners agree on a key for the batches, which the server does not get;
3. at every step the server names the weights w̃, and those it told compare what they heard; owners deal the batch
   afresh at degree t, padded with zero rows;
4. each keeper computes its share of Σ x̃(2γ² + ⟨w̃, x̃⟩ − 4γỹ): degree 2t, nothing is sent;
5. every dealer of noise, each owner and a server that keeps shares, deals its part at degree 2t; the sum is opened to
   the server, which moves the weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError
from colonnade.methods.slr.batches import Batches, share_batch_key
from colonnade.methods.slr.optimiser import Descent
from colonnade.methods.slr.plan import GradientPlan
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.session import RowSource, own_rows
from colonnade.protocols.shared import Shared
from colonnade.protocols.sharing import open_to, share_noise
from colonnade.protocols.verified_rows import share_rows
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]


async def noisy_gradient(
    party: Party, table: RowSource | None, plan: GradientPlan
) -> NDArray[np.float64] | None:
    """The trained weights at the server, None elsewhere."""
    server, steps = party.group.server, plan.schedule.steps
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    rows = integer_rows(party, table, plan) if party.owns_columns else None
    batches = Batches(plan, await share_batch_key(party)) if party.owns_columns else None
    cap = float(plan.schedule.weight_cap)
    descent = Descent(plan.size, plan.schedule.optimiser, cap=cap, steps=steps) if party.is_server else None
    for step in range(steps):
        weights = await _published_weights(party, descent, plan, step)
        places = None if batches is None else batches.next()
        gradient = FusedSum(plan, weights, keeper=_keeper(party))
        for number, start in enumerate(range(0, plan.capacity, plan.block)):
            count = min(plan.block, plan.capacity - start)
            mine = None
            if rows is not None and places is not None:
                mine = batch_rows(rows, places[start : start + count])
            label = f"batch {step}.{number}"
            columns = await share_rows(party, mine, count, plan, step=label)
            gradient.add(columns)
        noise = await share_noise(
            party, lambda: noise_part(party, plan), plan.size, scheme=plan.scheme, step=f"noise {step}"
        )
        noisy = gradient.value() + noise
        label = f"gradient {step}"
        opened = await open_to(party, server, noisy, scheme=plan.scheme, release=release, step=label)
        if descent is not None and opened is not None:
            expected = float(plan.rows * plan.schedule.rate)
            descent.step(opened[0].astype(np.float64) / (4.0 * plan.gamma**3 * expected))
        party.progress("steps", step + 1, steps)
    return None if descent is None else descent.model


def noise_part(party: Party, plan: GradientPlan) -> Integers:
    """This dealer's part of the noise of a step."""
    return plan.noise.part(party.group.whole).draw((1, plan.size), party.randomness)


class FusedSum:
    """Shares of Σ x̃(2γ² + ⟨w̃, x̃⟩ − 4γỹ) over blocks of rows, computed by each keeper alone.

    A node that keeps no shares runs the same lines and holds nothing. A zero row adds nothing, whatever the rest is.
    """

    def __init__(self, plan: GradientPlan, weights: Integers, *, keeper: int | None) -> None:
        self._plan, self._keeper = plan, keeper
        field = plan.field
        self._sum: FieldArray | None = None
        self._weights = {}
        start = 0
        for owner, width in plan.widths.items():
            mine = weights[start : start + width]
            if owner == plan.label_holder:
                # The label is dealt beside the features, as one more factor of the bracket: −γ or γ, so that
                # −2γ times it is 2γ² − 4γỹ, and whoever keeps to that norm keeps to the bracket's bound.
                mine = np.append(mine, -2 * plan.gamma)
            self._weights[owner] = field.encode(mine[:, None])
            start += width

    def add(self, columns: Mapping[str, Shared]) -> None:
        """Add the rows of one block, dealt by all owners."""
        if self._keeper is None:
            return
        plan, shares = self._plan, {}
        for owner in plan.group.owners:
            mine = columns[owner].share
            if mine is None or columns[owner].degree != plan.group.threshold:
                raise LocalProtocolError(f"a keeper lacks a share of degree t of {owner}'s batch")
            shares[owner] = mine
        first, *rest = (mine @ self._weights[owner] for owner, mine in shares.items())
        bracket = first
        for more in rest:
            bracket = bracket + more
        parts = []
        for owner, mine in shares.items():
            # The last column of the label holder is the label: its product with the bracket is left out.
            parts.append(mine.transpose_times(bracket).rows(0, plan.widths[owner]))
        block = parts[0].stack_rows(parts[1:])
        self._sum = block if self._sum is None else self._sum + block

    def value(self) -> Shared:
        """The sum. The degree has doubled and no mask is left."""
        shape = (1, self._plan.size)
        share = None if self._sum is None else self._sum.reshape(shape)
        return Shared(share, shape, 2 * self._plan.group.threshold)


def integer_rows(party: Party, table: RowSource | None, plan: GradientPlan) -> NDArray[np.signedinteger]:
    """This owner's part of every row, in the narrowest integers: features, then constant and label where held."""
    quantizer = plan.quantizers[party.name]
    kind = np.int16 if 2 * plan.gamma < 1 << 15 else np.int32
    rows = np.empty((plan.rows, plan.dealt[party.name]), dtype=kind)
    start = 0
    for block in own_rows(party.name, table, plan.rows).blocks(1 << 14):
        stop = start + block.rows
        rows[start:stop, : quantizer.width] = quantizer.quantize(block, party.randomness)
        if party.name == plan.label_holder:
            if block.label is None:
                raise LocalProtocolError(f"{party.name} holds the label but brought rows without it")
            rows[start:stop, -2] = plan.constant
            rows[start:stop, -1] = plan.gamma * (2 * block.label.astype(np.int64) - 1)
        start = stop
    return rows


def batch_rows(rows: NDArray[np.signedinteger], places: Integers) -> Integers:
    """The rows in these places, zero rows where there is nobody."""
    taken = np.zeros((len(places), rows.shape[1]), dtype=np.int64)
    there = places >= 0
    taken[there] = rows[places[there]]
    return taken


async def _published_weights(
    party: Party, descent: Descent | None, plan: GradientPlan, step: int
) -> Integers:
    """The weights of a step, from the server, the same for all; too long ones are refused.

    Sensitivity rests on their norm, and what is opened on every keeper's using the same
    (docs/proofs/public-state.md).
    """
    label = f"weights {step}"
    if descent is not None:
        weights = descent.on_grid(plan.gamma, plan.weight_squared)
        for member in party.group.others(party.name):
            await tell(party, member, label, Message(arrays={"weights": weights}))
        return weights
    said = await hear(party, party.group.server, label)
    heard: Integers = said.array("weights", dtype="i8", shape=(plan.size,))
    if sum(int(entry) ** 2 for entry in heard) > plan.weight_squared:
        raise said.wrong("its weights are longer than the plan allows")
    await agree_on_public(party, label, party.group.others(party.group.server), heard)
    return heard


def _keeper(party: Party) -> int | None:
    return party.group.keepers.index(party.name) if party.keeps_shares else None
