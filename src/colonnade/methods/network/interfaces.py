"""What each party brings to a training run: its network, or the fusion model, seen as arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable
from colonnade.errors import LocalProtocolError, PlanError
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.terms import Indices
from colonnade.runtime.party import Party

Floats = NDArray[Any]
Integers = NDArray[np.int64]


class Contributor(Protocol):
    """An owner's network over its own rows, seen from outside: rows are positions in the aligned order."""

    @property
    def embedding(self) -> int: ...

    @property
    def parameters(self) -> int: ...

    def embed(self, rows: Indices) -> Floats:
        """One embedding per row, in [−C, C]^P, each a function of its own row and the network only."""
        ...

    def clipped_sum(self, rows: Indices, gradient: Floats, *, clip: float, grid: int) -> Integers:
        """Σ over rows of the gradient by the network's parameters, each clipped and at most `grid` long on integers."""
        ...

    def plain_sum(self, rows: Indices, gradient: Floats) -> Floats:
        """Σ over rows of the gradient by the network's parameters, as it is."""
        ...

    def step(self, direction: Floats) -> None: ...


class Fusion(Protocol):
    """The label holder's model on top of the sums, seen from outside."""

    def labels(self) -> Floats:
        """What is to be learnt, one row each: ±1 entries for classes, numbers in [−1, 1] otherwise."""
        ...

    def learn(self, rows: Indices, sums: Floats, targets: Floats) -> Floats:
        """Learn from a batch and return the gradient of each row's loss by its sum."""
        ...

    def look(self, rows: Indices, sums: Floats, targets: Floats) -> None:
        """Note how good the model is on rows it does not learn from."""
        ...

    def goes_on(self, epoch: int) -> bool: ...


@dataclass(frozen=True, eq=False)
class PartyModels:
    """What one party brings: a network over its columns, the fusion model, both, or, at a server, neither."""

    contributor: Contributor | None = None
    fusion: Fusion | None = None


# Called once rows are aligned, with the table and the plan.
ModelFactory = Callable[[AlignedTable | None, EmbeddingsPlan], PartyModels]


def check_models(party: Party, plan: EmbeddingsPlan, brought: PartyModels) -> None:
    """Before anything is charged: the networks fit the plan."""
    contributor = brought.contributor
    if (contributor is None) is not (party.name not in plan.contributors):
        raise LocalProtocolError(f"{party.name} brings a network exactly if it owns columns")
    if (brought.fusion is None) is not (party.name != plan.receiver):
        raise LocalProtocolError(f"{party.name} brings the fusion model exactly if it holds the label")
    if contributor is None:
        return
    if contributor.embedding != plan.options.embedding:
        raise PlanError(
            f"{party.name}: its network makes embeddings of {contributor.embedding} numbers, but all parties agreed on "
            f"{plan.options.embedding}. Give every network an output of {plan.options.embedding}."
        )
    if plan.update_noise is not None and contributor.parameters > plan.options.parameters:
        raise PlanError(
            f"{party.name}: its network has {contributor.parameters} parameters; this plan accounts for noise on "
            f"{plan.options.parameters}. Say parameters = {contributor.parameters}, or take a smaller network."
        )
