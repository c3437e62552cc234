"""The simplest rival of noisy messages: every passive party sends its columns once, with noise on every entry.

μ = 2c/s for noise of deviation s on rows of norm at most c, whatever is learned from them and however often. Only the
active party sees anything. Rows are integers before noise is added, so ε rests on integers alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import LocalProtocolError
from colonnade.ledger import LedgerLine
from colonnade.methods.glm.losses import Array, GlmOptions, Positive, chosen_loss
from colonnade.methods.glm.rows import GAMMA, ClippedPlan
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import COARSE_BITS, Approximated, Composed, DiscreteGaussian, Event
from colonnade.privacy.guarantee import View
from colonnade.privacy.observers import Coalition, OthersPart, PartOf, PartyView
from colonnade.protocols.agreement import charge_first
from colonnade.protocols.dealt_noise import bits_for, in_views, near_enough
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.plans import Options, Schemas, TrainingSpec, agreed, lines_about, options_of
from colonnade.protocols.session import SessionResult, from_start_to_end
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message

# Entries of one frame: 32 MiB.
_ENTRIES = 1 << 22


class OneShotOptions(GlmOptions, Options):
    """Loss and penalty, how far features are stretched, and how long weights on noisy columns may become."""

    method = "one-shot"

    stretch: Positive = 3.0
    radius: Positive = 4.0

    def check(self, spec: TrainingSpec) -> None:
        chosen_loss(spec, self)

    def plan(self, spec: TrainingSpec, group: Group, schemas: Schemas, rows: int) -> NoisyColumnsPlan:
        terms = agreed(spec, group, schemas, rows)
        for schema in schemas:
            if schema.label is not None:
                chosen_loss(spec, self).check(schema.label)
        plan = NoisyColumnsPlan(bits=bits_for(spec.epsilon), **terms)
        plan = replace(
            plan,
            variances=tuple(
                calibrate(partial(plan.event_under, owner), epsilon=spec.epsilon, delta=plan.delta)
                for owner in plan.passive
            ),
        )
        return near_enough(plan, in_views, lambda plan, bits: replace(plan, bits=bits))


@dataclass(frozen=True)
class NoisyColumnsPlan(ClippedPlan):
    """One noisy copy of every passive party's rows, for the active party alone. Made by `OneShotOptions`."""

    variances: tuple[Fraction, ...] = ()
    bits: int = COARSE_BITS

    charged_as = "columns"
    published = False

    @property
    def stretch(self) -> float:
        return options_of(self.spec, OneShotOptions).stretch

    def noise(self, owner: str) -> DiscreteGaussianNoise:
        """In units of 1/GAMMA."""
        return DiscreteGaussianNoise(self.variances[self.passive.index(owner)], self.bits)

    def sigma(self, owner: str) -> float:
        """In the units of clipped rows."""
        return math.sqrt(self.variances[self.passive.index(owner)]) / GAMMA

    def event(self, owner: str) -> Event:
        """One owner's noisy rows: a record replaced moves them by at most 2c."""
        return self.event_under(owner, self.variances[self.passive.index(owner)])

    def event_under(self, owner: str, variance: Fraction) -> Event:
        # 2√B, upward, in integers.
        moved = math.isqrt(4 * self.clipped.norm_squared(owner) - 1) + 1
        entries = self.rows * self.clipped.encoders[owner].width
        return Approximated(DiscreteGaussian(moved, variance), draws=entries, bits=self.bits)

    @cached_property
    def views(self) -> tuple[View, ...]:
        events = tuple(self.event(owner) for owner in self.passive)
        seen = events[0] if len(events) == 1 else Composed(events)
        views = [View(PartyView(self.active), OthersPart(self.active), seen, "the others run the protocol")]
        if len(events) > 1:
            for owner, event in zip(self.passive, events, strict=True):
                rest = Coalition(tuple(other for other in self.group.owners if other != owner))
                views.append(View(rest, PartOf(owner), event, f"{owner} runs the protocol"))
        return tuple(views)

    @property
    def what(self) -> str:
        return "noisy columns, once"

    @property
    def shown_to(self) -> tuple[str, ...]:
        return (self.active,)

    def receiver_for(self, party: str) -> str:
        return self.active

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        """None for the active party, whose columns go nowhere."""
        return lines_about(party, self.views) if party in self.passive else ()

    def own_data(self) -> dict[str, Any]:
        return {
            "gamma": GAMMA,
            "caps": {owner: self.clipped.norm_squared(owner) for owner in self.group.owners},
            "variances": [str(variance) for variance in self.variances],
        }


@dataclass(frozen=True, eq=False)
class NoisyColumns(SessionResult[NoisyColumnsPlan]):
    columns: Mapping[str, Array]


async def noisy_columns_session(party: Party, table: Table | None, spec: TrainingSpec) -> NoisyColumns:
    aligned, plan, columns = await from_start_to_end(party, table, spec, NoisyColumnsPlan, noisy_columns)
    return NoisyColumns(plan, party.run, party.seeded, aligned, columns)


async def noisy_columns(party: Party, table: AlignedTable | None, plan: NoisyColumnsPlan) -> dict[str, Array]:
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
    if not party.owns_columns:
        return {}
    if table is None:
        raise LocalProtocolError(f"{party.name} owns columns but has no aligned rows")
    if party.name == plan.active:
        return {owner: await _receive(party, plan, owner) for owner in plan.passive}
    noise = plan.noise(party.name)
    for number, block in enumerate(table.blocks(block_of(plan, party.name))):
        noisy = plan.clipped.integers(party.name, block)
        noisy += noise.draw(noisy.shape, party.randomness)
        await tell(party, plan.active, f"columns {number}", Message(arrays={"columns": noisy}))
    return {}


async def _receive(party: Party, plan: NoisyColumnsPlan, owner: str) -> Array:
    width, size = plan.clipped.encoders[owner].width, block_of(plan, owner)
    columns = np.empty((plan.rows, width))
    for number, start in enumerate(range(0, plan.rows, size)):
        stop = min(start + size, plan.rows)
        message = await hear(party, owner, f"columns {number}")
        columns[start:stop] = message.array("columns", dtype="i8", shape=(stop - start, width)) / GAMMA
    return columns


def block_of(plan: NoisyColumnsPlan, owner: str) -> int:
    return max(1, _ENTRIES // plan.clipped.encoders[owner].width)
