"""A network that a protocol trained, as every method hands back what it learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colonnade.learn.method import Array, Learnt

if TYPE_CHECKING:
    from colonnade.learn.networks.fusion import Epoch
    from colonnade.learn.networks.network import Network
    from colonnade.learn.networks.training import Communication


@dataclass(frozen=True, eq=False)
class LearntNetwork(Learnt):
    """A network in parts that stay with their parties, its learning curve and what the run sent.

    `history` is what the label holder saw, and nobody else: it is made with exact labels.
    """

    network: Network
    statement: str
    history: tuple[Epoch, ...]
    communication: Communication
    epochs: int

    def scores(self, features: Array) -> Array:
        """Log-odds of classes, predictions of numbers."""
        return self.network.scores(features)
