"""What is asked of a network, by an estimator or by a job: it needs no PyTorch until it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import InputError
from colonnade.methods.network.request import EmbeddingsRequest, NetworkChoices
from colonnade.models.parameters import at_least
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Task

if TYPE_CHECKING:
    from colonnade.methods.network.training import Settings


@dataclass(frozen=True, kw_only=True)
class NetworkSpec(NetworkChoices):
    """The parameters of `NeuralClassifier`, by the same names, and the task."""

    task: Task
    epsilon: float | None
    delta: float | None
    accepted_delta: float | None
    networks: Any
    image: tuple[int, int, int] | None
    learning_rate: float
    momentum: float
    patience: int
    parameters: int | None
    seed: int
    fusion: Any = None
    checkpoint: str | Path | None = None

    def request(self, alignment: Alignment, parameters: int) -> EmbeddingsRequest:
        """What the parties compare before they plan; no party's network has more `parameters`."""
        coalitions = tuple(tuple(members) for members in self.coalitions)
        return EmbeddingsRequest(
            task=self.task,
            epsilon=None if self.regime == "paper" else self.epsilon,
            delta=self.delta,
            accepted_delta=self.accepted_delta,
            parameters=parameters,
            order_seed=self.seed,
            alignment=alignment,
            **{**self.choices, "coalitions": coalitions},
        )

    def settings(self) -> Settings:
        """What training takes besides the request, checked; it needs PyTorch."""
        from colonnade.methods.network.training import Settings

        self._check()
        return Settings(
            networks=self._chosen,
            fusion=self.fusion,
            image=self.image,
            embedding=self.embedding,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            patience=self.patience if self.held_out else 0,
            seed=self.seed,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
        )

    @property
    def _chosen(self) -> Any:
        if self.networks is not None:
            return self.networks
        return "random" if self.regime == "frozen" else "dense"

    def _check(self) -> None:
        if self.epsilon is not None:
            at_least("epsilon", self.epsilon, 0.0, strict=True)
        at_least("learning_rate", self.learning_rate, 0.0, strict=True)
        at_least("momentum", self.momentum, 0.0)
        at_least("patience", self.patience, 1)
        if not self.momentum < 1:
            raise InputError(f"momentum = {self.momentum!r} is a number from 0 to below 1.")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise InputError(
                f"seed = {self.seed!r} is not a whole number from 0. It is public: orders and first weights."
            )
        if not isinstance(self._chosen, str | Mapping):
            raise InputError(
                f"networks = {type(self.networks).__name__}: a name, or a mapping from parties to torch modules."
            )
