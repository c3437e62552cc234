"""One owner's rows as integers, kept at home for all steps, and what it deals of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError
from colonnade.methods.margin.plan import MarginPlan
from colonnade.protocols.session import RowSource, own_rows
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnRows:
    """One owner's integers, and its labels where it holds them, kept at home for all steps."""

    features: NDArray[np.signedinteger]
    positive: NDArray[np.bool_] | None
    """For every head, whether a row is of its class."""

    @classmethod
    def read(cls, owner: str, table: RowSource | None, plan: MarginPlan, randomness: Randomness) -> OwnRows:
        """Encode, bound and round every row, once."""
        quantizer, holds = plan.quantizers[owner], owner == plan.label_holder
        kind = np.int16 if 2 * plan.gamma < 1 << 15 else np.int32
        features = np.empty((plan.rows, plan.widths[owner]), dtype=kind)
        positive = np.zeros((plan.rows, plan.heads), dtype=bool) if holds else None
        start = 0
        for block in own_rows(owner, table, plan.rows).blocks(1 << 14):
            stop = start + block.rows
            features[start:stop, : quantizer.width] = quantizer.quantize(block, randomness)
            if positive is not None:
                if block.label is None:
                    raise LocalProtocolError(f"{owner} holds the label but brought rows without it")
                features[start:stop, -1] = plan.constant
                classes = [1] if plan.heads == 1 else range(plan.heads)
                positive[start:stop] = block.label.astype(np.int64)[:, None] == np.array(classes)
            start = stop
        return cls(features, positive)

    def dealt(self, rows: slice, plan: MarginPlan) -> Integers:
        """What this owner deals for these rows at the start: its columns, and ỹ·a₀ where it holds the label."""
        features = self.features[rows].astype(np.int64)
        if self.positive is None:
            return features
        constants = np.where(self.positive[rows], plan.waves.constant, -plan.waves.constant)
        return np.concatenate([features, constants], axis=1)

    def waves(self, rows: slice, weights: Array, plan: MarginPlan) -> Integers:
        """What this owner deals for these rows at its part of the weights: 2M integers for every head."""
        scores = self.features[rows] @ weights / plan.gamma
        heads = []
        for head in range(plan.heads):
            if self.positive is None:
                heads.append(plan.waves.deal_plain(scores[:, head]))
            else:
                heads.append(plan.waves.deal_labelled(scores[:, head], self.positive[rows, head]))
        return heads[0] if len(heads) == 1 else np.concatenate(heads, axis=1)


def part_of(plan: MarginPlan, owner: str) -> slice:
    """Where an owner's part of the weights stands."""
    start = 0
    for name, width in plan.widths.items():
        if name == owner:
            return slice(start, start + width)
        start += width
    raise LocalProtocolError(f"{owner} owns no columns of this plan")
