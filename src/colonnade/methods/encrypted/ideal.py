"""The encrypted gradient as a trusted party would compute it: every owner is told its gradient after each batch.

This is what frameworks do in which an arbiter decrypts the gradients, and it is what the encrypted protocol comes to
for whoever follows it: without noise the two are equal up to the last bit of a float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.packing import from_fixed
from colonnade.methods.encrypted.owner import OwnerState, OwnerTranscript
from colonnade.methods.encrypted.plan import EncryptedPlan
from colonnade.protocols.session import RowSource
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Told = dict[str, tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class IdealDescent:
    """Each owner's weights at the end and what it could write down; and, batch by batch, every message in the clear,
    which is what somebody reads who breaks the encryption."""

    weights: dict[str, Array]
    diaries: dict[str, OwnerTranscript]
    messages: dict[str, tuple[Integers, ...]]


def ideal_descent(
    plan: EncryptedPlan, tables: Mapping[str, RowSource], randomness: Mapping[str, Randomness]
) -> IdealDescent:
    holdings = {
        owner: OwnerState(owner, tables[owner], plan, randomness[owner]) for owner in plan.group.owners
    }
    pages: dict[str, list[tuple[Integers, Array, Array, Array]]] = {owner: [] for owner in holdings}
    messages: dict[str, list[Integers]] = {owner: [] for owner in holdings}
    for epoch in range(plan.schedule.epochs):
        for rows in plan.batches(epoch):
            before = {owner: holding.weights for owner, holding in holdings.items()}
            told, sent = _split(holdings, rows) if plan.splits else _coefficients(plan, holdings, rows)
            for owner, message in sent.items():
                messages[owner].append(message)
            for owner, (total, scores) in told.items():
                pages[owner].append((rows, before[owner], total, scores))
    diaries = {owner: OwnerTranscript(*map(tuple, zip(*kept, strict=True))) for owner, kept in pages.items()}
    return IdealDescent(
        {owner: holding.weights for owner, holding in holdings.items()},
        diaries,
        {owner: tuple(sent) for owner, sent in messages.items()},
    )


def _split(holdings: Mapping[str, OwnerState], rows: Integers) -> tuple[Told, dict[str, Integers]]:
    messages = {owner: holding.message(rows) for owner, holding in holdings.items()}
    told = {}
    for owner, holding in holdings.items():
        others = sum(
            (messages[name] for name in messages if name != owner), np.zeros(len(rows), dtype=np.int64)
        )
        told[owner] = holding.descend_split(rows, _products(holding, rows, others)), np.zeros(0)
    return told, messages


def _coefficients(
    plan: EncryptedPlan, holdings: Mapping[str, OwnerState], rows: Integers
) -> tuple[Told, dict[str, Integers]]:
    passives = {owner: holding for owner, holding in holdings.items() if owner != plan.active}
    messages = {owner: holding.on_grid(holding.scores(rows)) for owner, holding in passives.items()}
    summed = sum(messages.values(), np.zeros(len(rows), dtype=np.int64))
    active = holdings[plan.active]
    others = from_fixed(summed.tolist(), plan.fraction_bits)
    coefficients = active.coefficients(rows, others)
    messages[plan.active] = sent = active.on_grid(coefficients)
    told = {
        owner: (holding.descend(holding.real(_products(holding, rows, sent))), np.zeros(0))
        for owner, holding in passives.items()
    }
    told[plan.active] = active.descend(active.features[rows].T @ coefficients), others
    return told, messages


def _products(holding: OwnerState, rows: Integers, numbers: Integers) -> list[int]:
    """Σ m·x̃ for each column, exactly: in two halves of a message, each of which leaves room in 64 bits."""
    high, low = numbers >> 24, numbers & ((1 << 24) - 1)
    columns = holding.integers[rows].T
    return [(int(top) << 24) + int(rest) for top, rest in zip(columns @ high, columns @ low, strict=True)]
