"""A local network and a fusion model as the protocol sees them: rows and gradients in, numbers out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from colonnade.errors import InputError

Floats = NDArray[Any]
Indices = NDArray[np.int64]
# So many numbers of per-row gradients are held at once.
_MOST_NUMBERS = 1 << 26
# Clipped vectors stay this much inside their bound, which the rounding of floats cannot make up for.
_SHRINK = 1.0 - 2.0**-30


class Weights:
    """The parameters of a module as one vector, moved by gradient steps with momentum."""

    def __init__(self, module: nn.Module, *, learning_rate: float, momentum: float) -> None:
        self.module = module
        self.parameters = {key: value.detach() for key, value in module.named_parameters()}
        self.buffers = {key: value.detach() for key, value in module.named_buffers()}
        self.velocity = {key: torch.zeros_like(value) for key, value in self.parameters.items()}
        self._rate, self._momentum = learning_rate, momentum

    @property
    def count(self) -> int:
        return sum(value.numel() for value in self.parameters.values())

    def step(self, direction: torch.Tensor) -> None:
        start = 0
        for key, value in self.parameters.items():
            piece = direction[start : start + value.numel()].reshape(value.shape)
            self.velocity[key].mul_(self._momentum).add_(piece)
            value.sub_(self.velocity[key], alpha=self._rate)
            start += value.numel()


class LocalNetwork:
    """One party's module over its own encoded rows, bounded by C·tanh.

    Rows are embedded one by one (`torch.func.vmap`), so that an embedding depends on its own row and the weights only,
    whatever the module is: a module that mixes the rows of a batch fails here.
    """

    def __init__(
        self,
        party: str,
        module: nn.Module,
        features: Floats,
        *,
        bound: int,
        embedding: int,
        learning_rate: float = 0.01,
        momentum: float = 0.0,
    ) -> None:
        self.party = party
        self.features = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
        self.weights = Weights(module, learning_rate=learning_rate, momentum=momentum)
        self.bound = bound
        self._rows = vmap(self._row, in_dims=(None, 0))
        self._row_gradients = vmap(grad(self._weighed), in_dims=(None, 0, 0))
        self._check(embedding)

    def _row(self, parameters: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        out = functional_call(self.weights.module, (parameters, self.weights.buffers), (row.unsqueeze(0),))
        return self.bound * torch.tanh(out.squeeze(0))

    def _weighed(
        self, parameters: dict[str, torch.Tensor], row: torch.Tensor, gradient: torch.Tensor
    ) -> torch.Tensor:
        return (self._row(parameters, row) * gradient).sum()

    def _check(self, embedding: int) -> None:
        try:
            with torch.no_grad():
                out = self._rows(self.weights.parameters, torch.zeros(2, self.features.shape[1]))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise InputError(
                f"party {self.party!r}: its network cannot embed rows of {self.features.shape[1]} numbers one by one "
                f"({str(error).splitlines()[0]}). It must map (rows, numbers) to (rows, {embedding}) without mixing "
                "rows and without coins of its own: use group instead of batch normalisation, and no dropout."
            ) from None
        self.embedding = int(out.shape[-1]) if out.ndim == 2 else 0

    @property
    def parameters(self) -> int:
        return self.weights.count

    def embed(self, rows: Indices) -> Floats:
        """One embedding per row, in [−C, C]^P."""
        return self.embed_features(self.features[torch.from_numpy(rows)])

    def embed_features(self, features: torch.Tensor) -> Floats:
        """Embeddings of rows that need not be the party's own training rows."""
        with torch.no_grad():
            out: Floats = self._rows(self.weights.parameters, features).numpy()
        return out

    def clipped_sum(self, rows: Indices, gradient: Floats, *, clip: float, grid: int) -> NDArray[np.int64]:
        """Σ over rows of their gradients, each clipped to `clip` and written in units of clip/grid, toward zero.

        Guarantee: every row's integer vector has norm at most `grid`, in exact arithmetic; a row whose gradient is not
        finite adds nothing.
        """
        total = np.zeros(self.parameters, dtype=np.int64)
        at_once = max(1, _MOST_NUMBERS // max(1, self.parameters))
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            per_row = self._flat_gradients(rows[part], gradient[part])
            norms = np.linalg.norm(per_row, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = np.minimum(1.0, clip / norms) * (grid * _SHRINK / clip)
                scaled = np.where((np.isfinite(norms) & (norms > 0))[:, None], per_row * scale[:, None], 0.0)
            integers = scaled.astype(np.int64)
            past = np.square(integers).sum(axis=1) > grid * grid
            integers[past] = 0
            total += integers.sum(axis=0)
        return total

    def _flat_gradients(self, rows: Indices, gradient: Floats) -> Floats:
        gradients = self._row_gradients(
            self.weights.parameters,
            self.features[torch.from_numpy(rows)],
            torch.from_numpy(np.ascontiguousarray(gradient, dtype=np.float32)),
        )
        flat = torch.cat([gradients[key].reshape(len(rows), -1) for key in self.weights.parameters], dim=1)
        return flat.double().numpy()

    def plain_sum(self, rows: Indices, gradient: Floats) -> Floats:
        """Σ over rows of their gradients, as they are."""
        features = self.features[torch.from_numpy(rows)]
        leaves = {key: value.requires_grad_() for key, value in self.weights.parameters.items()}
        out = self.bound * torch.tanh(
            functional_call(self.weights.module, (leaves, self.weights.buffers), (features,))
        )
        weighed = (out * torch.from_numpy(np.ascontiguousarray(gradient, dtype=np.float32))).sum()
        gradients = torch.autograd.grad(weighed, list(leaves.values()))
        for value in leaves.values():
            value.requires_grad_(False)
        return torch.cat([each.reshape(-1) for each in gradients]).numpy()

    def step(self, direction: Floats) -> None:
        self.weights.step(torch.from_numpy(np.ascontiguousarray(direction, dtype=np.float32)))


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def loss_of(classes: int) -> Loss:
    """The loss of each row, linear in its target, so that a target without bias gives a loss without bias.

    Targets are ±1: one for two classes, one per class for more; without classes, numbers in [−1, 1]. A randomised
    target may lie outside.
    """

    def logistic(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (nn.functional.softplus(scores) - (targets + 1) / 2 * scores).squeeze(1)

    def cross_entropy(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(scores, dim=1) - ((targets + 1) / 2 * scores).sum(dim=1)

    def squared(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        # ½(z − t)² less ½t², which no gradient sees: linear in t.
        return (scores.square() / 2 - scores * targets).squeeze(1)

    return squared if classes == 0 else logistic if classes == 2 else cross_entropy
