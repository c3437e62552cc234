"""The label holder's side: the fusion model, its learning curve, when it stops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from colonnade.methods.network.parts import Floats, Indices, Weights, loss_of
from colonnade.models.discriminant import binary_rule, multiclass_rule
from colonnade.models.least_squares import least_squares
from colonnade.models.moments import ClassMoments, ValueMoments


@dataclass(frozen=True)
class Epoch:
    """One point of a learning curve, as the label holder sees it through the noise.

    Losses are those of `loss_of`: the squared one lacks its constant and can be negative.
    """

    epoch: int
    loss: float
    right: float | None
    held_out_loss: float | None
    held_out_right: float | None


class FusionModel:
    """A module from sums of embeddings to scores, trained by gradient steps.

    `scale` divides the sums before the module sees them: it is public, and keeps noisy sums of order one.
    """

    def __init__(
        self,
        module: nn.Module,
        labels: Floats,
        *,
        classes: int,
        scale: float = 1.0,
        learning_rate: float = 0.01,
        momentum: float = 0.0,
        patience: int = 0,
    ) -> None:
        self.weights = Weights(module, learning_rate=learning_rate, momentum=momentum)
        self.history: list[Epoch] = []
        self._labels, self.classes, self._scale = labels, classes, scale
        self._loss, self._patience = loss_of(classes), patience
        self._seen: dict[bool, list[tuple[float, float, int]]] = {False: [], True: []}

    def labels(self) -> Floats:
        """What is to be learnt, one row each."""
        return self._labels

    def scores(self, sums: Floats) -> Floats:
        """What the module says of sums of embeddings."""
        with torch.no_grad():
            out: Floats = self._forward(self._tensor(sums), self.weights.parameters).numpy()
        return out

    def _forward(self, sums: torch.Tensor, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        out: torch.Tensor = functional_call(
            self.weights.module, (parameters, self.weights.buffers), (sums / self._scale,)
        )
        return out

    def learn(self, rows: Indices, sums: Floats, targets: Floats) -> Floats:
        """Learn from a batch and return the gradient of each row's loss by its sum."""
        given = self._tensor(sums).requires_grad_()
        leaves = {key: value.requires_grad_() for key, value in self.weights.parameters.items()}
        scores = self._forward(given, leaves)
        losses = self._loss(scores, self._tensor(targets))
        gradients = torch.autograd.grad(losses.sum(), [given, *leaves.values()])
        for value in leaves.values():
            value.requires_grad_(False)
        self.weights.step(torch.cat([each.reshape(-1) for each in gradients[1:]]) / len(rows))
        self._note(scores.detach(), losses.detach(), targets, held_out=False)
        gradient: Floats = gradients[0].numpy()
        return gradient

    def look(self, rows: Indices, sums: Floats, targets: Floats, *, held_out: bool = True) -> None:
        """Note how good the model is, without learning."""
        with torch.no_grad():
            scores = self._forward(self._tensor(sums), self.weights.parameters)
            self._note(scores, self._loss(scores, self._tensor(targets)), targets, held_out=held_out)

    def set_linear(self, coefficients: Floats, intercepts: Floats) -> None:
        """Give the linear layer the weights that act on sums as they are."""
        self.weights.parameters["weight"].copy_(self._tensor(coefficients * self._scale))
        self.weights.parameters["bias"].copy_(self._tensor(intercepts))

    def forget_unfinished(self) -> None:
        """Leave out of the learning curve what was seen since its last point."""
        self._seen = {False: [], True: []}

    def goes_on(self, epoch: int) -> bool:
        """Whether the held-out loss was lowest within the last `patience` epochs; always, if none is held out.

        It is computed from the same sums and targets as everything else, so that stopping shows nothing further.
        """
        self.close_epoch(epoch)
        held_out = [each.held_out_loss for each in self.history if each.held_out_loss is not None]
        if not self._patience or not held_out:
            return True
        return len(held_out) - 1 - int(np.argmin(held_out)) < self._patience

    def close_epoch(self, epoch: int) -> None:
        loss, right = self._mean(held_out=False)
        held_out_loss, held_out_right = self._mean(held_out=True)
        if loss is not None:
            self.history.append(Epoch(epoch + 1, loss, right, held_out_loss, held_out_right))
        self._seen = {False: [], True: []}

    def _note(self, scores: torch.Tensor, losses: torch.Tensor, targets: Floats, *, held_out: bool) -> None:
        right = float("nan")
        if self.classes == 2:
            right = float(((scores.numpy() > 0) == (np.asarray(targets) > 0)).sum())
        elif self.classes > 2:
            right = float((scores.numpy().argmax(axis=1) == np.asarray(targets).argmax(axis=1)).sum())
        self._seen[held_out].append((float(losses.sum()), right, len(targets)))

    def _mean(self, *, held_out: bool) -> tuple[float | None, float | None]:
        seen = self._seen[held_out]
        if not seen:
            return None, None
        losses, right, rows = (sum(column) for column in zip(*seen, strict=True))
        return losses / rows, right / rows if self.classes else None

    def _tensor(self, values: Floats) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def fit_on_sums(
    model: FusionModel,
    sums: Floats,
    targets: Floats,
    *,
    train: Indices,
    held_out: Indices,
    epochs: int,
    batch: int,
    order: NDArray[np.int64],
) -> None:
    """Train the fusion model on sums that its holder already has: nothing is sent, nothing is spent."""
    for epoch in range(epochs):
        # A different public order each time: the same shuffle, applied once more.
        train = train[order]
        for start in range(0, len(train), batch):
            rows = train[start : start + batch]
            model.learn(rows, sums[rows], targets[rows])
        if len(held_out):
            model.look(held_out, sums[held_out], targets[held_out])
        if not model.goes_on(epoch):
            break


def solve_on_sums(
    model: FusionModel, sums: Floats, *, train: Indices, held_out: Indices, variance: float
) -> None:
    """The linear layer that least squares gives on sums whose noise has this variance.

    Training on noisy sums and predicting on exact ones would shrink every weight: the noise adds n·variance to the
    moments' diagonal, which is taken off here, and what is left of it is what `colonnade.models.discriminant` and
    `colonnade.models.least_squares` are made for.
    """
    rows, targets = np.asarray(sums[train], dtype=np.float64), model.labels()[train]
    count, width = rows.shape
    gram = rows.T @ rows - count * variance * np.eye(width)
    size = max(0.0, float(np.trace(gram))) / (count * width)
    # An entry of Σ(h + z)(h + z)ᵀ off the diagonal, and one of Σ(h + z) over half of the rows.
    noise = math.sqrt(count * variance * (variance + 2.0 * size))
    border = noise / math.sqrt(variance * count / 2.0) if variance > 0 else 1.0
    if model.classes == 0:
        values = targets[:, 0]
        line = least_squares(
            ValueMoments(
                gram,
                float(count),
                rows.sum(axis=0),
                cross=rows.T @ values,
                value_total=float(values.sum()),
                value_square=float(values @ values),
                noise=noise,
                border=border,
            )
        )
        model.set_linear(line.coefficients[None, :], np.array([line.intercept]))
    else:
        codes = (targets[:, 0] > 0).astype(int) if model.classes == 2 else targets.argmax(axis=1)
        members = np.eye(model.classes)[codes]
        moments = ClassMoments(gram, members.T @ rows, members.sum(axis=0), noise=noise, border=border)
        rule = (binary_rule if model.classes == 2 else multiclass_rule)(moments)
        model.set_linear(rule.coefficients, rule.intercepts)
    model.forget_unfinished()
    for part, apart in ((train, False), (held_out, True)):
        if len(part):
            model.look(part, sums[part], model.labels()[part], held_out=apart)
    model.close_epoch(len(model.history))


def targets_of(codes: NDArray[Any], classes: int) -> Floats:
    """±1 targets of class numbers: one for two classes, one per class for more."""
    if classes == 2:
        return np.where(np.asarray(codes) == 1, 1.0, -1.0)[:, None]
    targets = np.full((len(codes), classes), -1.0)
    targets[np.arange(len(codes)), codes] = 1.0
    return targets
