"""A network that a protocol trained, as every method hands back what it learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colonnade.methods.method import Array, TrainedModel
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.protocol import formula_bytes
from colonnade.runtime.run import Outcome

if TYPE_CHECKING:
    from colonnade.methods.network.fusion import Epoch
    from colonnade.methods.network.network import Network


@dataclass(frozen=True)
class Communication:
    """What a run sent, as measured on the channels, beside PBM-VFL's formula T·B·M·P(log₂(bM) + F)."""

    sums: int
    gradients: int
    everything: int
    formula: float

    @property
    def over_formula(self) -> float:
        """Sums and gradients over the formula: what framing and whole bits cost."""
        return (self.sums + self.gradients) / self.formula

    @classmethod
    def of(cls, outcome: Outcome, plan: EmbeddingsPlan, epochs: int) -> Communication:
        """The ledger of a finished run, which may have stopped early."""
        sent = outcome.bytes_by_step
        return cls(
            sums=sent.get("sum", 0),
            gradients=sent.get("back", 0),
            everything=outcome.bytes_sent,
            formula=formula_bytes(plan) * epochs / plan.passes,
        )


@dataclass(frozen=True, eq=False)
class NetworkModel(TrainedModel):
    """A network in parts that stay with their parties, its learning curve and how many epochs it took.

    `network` has the parts of those who are here. `history` is what the label holder saw, and nobody else: it is made
    with exact labels.
    """

    network: Network
    statement: str
    history: tuple[Epoch, ...]
    epochs: int

    @property
    def communication(self) -> Communication | None:
        """What the run sent, where all of it was seen."""
        if self.run is None:
            return None
        return Communication.of(self.run.outcome, self.run.plan, self.epochs)

    def scores(self, features: Array) -> Array:
        return self.network.scores(features)
