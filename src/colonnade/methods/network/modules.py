"""Networks to begin with, local networks, and the label holder's fusion model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from colonnade.errors import InputError
from colonnade.methods.network.plan import Kind
from colonnade.models.discriminant import binary_rule, multiclass_rule
from colonnade.models.moments import ClassMoments, ValueMoments, least_squares

ImageShape = tuple[int, int, int]
KINDS = get_args(Kind)


class DenseNet(nn.Module):
    def __init__(self, numbers: int, embedding: int, *, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(numbers, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, embedding),
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(rows)
        return out


class RandomFeatures(nn.Module):
    """One layer of public random weights, of a size that fills [−1, 1] after tanh: what frozen networks begin with.

    The noise on an embedding does not shrink with it, so that a map whose values stay small is lost in it. `attributes`
    columns of norm at most 1 each make a row of norm at most √attributes.
    """

    def __init__(self, numbers: int, embedding: int, *, attributes: int, gain: float = 1.5) -> None:
        super().__init__()
        self.layer = nn.Linear(numbers, embedding)
        nn.init.normal_(self.layer.weight, std=gain / math.sqrt(attributes))
        nn.init.zeros_(self.layer.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(rows)
        return out


class ConvolutionalNet(nn.Module):
    """Two convolutions and a dense layer over a part of an image, given as its pixels in one row."""

    def __init__(self, image: ImageShape, embedding: int, *, channels: int = 8) -> None:
        super().__init__()
        self.image = _checked(image, least=4)
        _, height, width = image
        self.layers = nn.Sequential(
            nn.Conv2d(image[0], channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * channels * (height // 4) * (width // 4), embedding),
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(rows.reshape(-1, *self.image))
        return out


class ResNet18(nn.Module):
    """ResNet-18 for small images, with group normalisation, which looks at one row at a time."""

    def __init__(self, image: ImageShape, embedding: int, *, width: int = 64) -> None:
        super().__init__()
        self.image = _checked(image, least=8)
        blocks: list[nn.Module] = [_convolution(image[0], width, 1), nn.ReLU()]
        inputs = width
        for stage in range(4):
            outputs = width << stage
            blocks += [_Residual(inputs, outputs, 1 if stage == 0 else 2), _Residual(outputs, outputs, 1)]
            inputs = outputs
        self.layers = nn.Sequential(
            *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, embedding)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(rows.reshape(-1, *self.image))
        return out


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            _convolution(inputs, outputs, stride), nn.ReLU(), _convolution(outputs, outputs, 1)
        )
        straight = stride == 1 and inputs == outputs
        self.skip: nn.Module = nn.Identity() if straight else _convolution(inputs, outputs, stride, size=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(image) + self.skip(image))


def _convolution(inputs: int, outputs: int, stride: int, *, size: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False),
        nn.GroupNorm(math.gcd(8, outputs), outputs),
    )


def _checked(image: ImageShape, *, least: int) -> ImageShape:
    if len(image) != 3 or min(image[1:]) < least or image[0] < 1:
        raise InputError(f"image = {image!r}: (channels, height, width), at least {least} pixels each way.")
    return image


def local_network(
    kind: str,
    *,
    party: str,
    numbers: int,
    attributes: int,
    embedding: int,
    image: ImageShape | None,
    seed: int,
) -> nn.Module:
    if kind not in KINDS:
        raise InputError(
            f"networks = {kind!r} is not one of {', '.join(KINDS)}, nor a mapping from parties to modules."
        )
    if kind == "random":
        return from_seed(seed, lambda: RandomFeatures(numbers, embedding, attributes=attributes))
    if kind == "dense":
        return from_seed(seed, lambda: DenseNet(numbers, embedding))
    if image is None:
        raise InputError(f"networks = {kind!r} needs image = (channels, height, width) of each party's part.")
    if math.prod(image) != numbers:
        raise InputError(
            f"party {party!r} declares {numbers} pixels, but image = {image} has {math.prod(image)}. All parts must "
            "have the size that is named; declare one numeric column per pixel."
        )
    shape = image
    make = ConvolutionalNet if kind == "convolutional" else ResNet18
    return from_seed(seed, lambda: make(shape, embedding))


def from_seed(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """A module whose first weights everybody may know: they are drawn before data is touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


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
        return self.embed_features(self.features[torch.from_numpy(rows)])

    def embed_features(self, features: torch.Tensor) -> Floats:
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
            weighed = torch.from_numpy(np.ascontiguousarray(gradient[part], dtype=np.float32))
            chosen, parameters = self.features[torch.from_numpy(rows[part])], self.weights.parameters
            gradients = self._row_gradients(parameters, chosen, weighed)
            flat = torch.cat([gradients[key].reshape(len(chosen), -1) for key in parameters], dim=1)
            per_row = flat.double().numpy()
            norms = np.linalg.norm(per_row, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = np.minimum(1.0, clip / norms) * (grid * _SHRINK / clip)
                scaled = np.where((np.isfinite(norms) & (norms > 0))[:, None], per_row * scale[:, None], 0.0)
            integers = scaled.astype(np.int64)
            past = np.square(integers).sum(axis=1) > grid * grid
            integers[past] = 0
            total += integers.sum(axis=0)
        return total

    def plain_sum(self, rows: Indices, gradient: Floats) -> Floats:
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

    Targets are ±1, one for two classes and one per class for more, or numbers in [−1, 1]; randomised ones lie outside.
    """

    def logistic(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (nn.functional.softplus(scores) - (targets + 1) / 2 * scores).squeeze(1)

    def cross_entropy(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(scores, dim=1) - ((targets + 1) / 2 * scores).sum(dim=1)

    def squared(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        # ½(z − t)² less ½t², which no gradient sees: linear in t.
        return (scores.square() / 2 - scores * targets).squeeze(1)

    return squared if classes == 0 else logistic if classes == 2 else cross_entropy


@dataclass(frozen=True)
class Epoch:
    """As the label holder sees it through the noise; the squared loss lacks its constant and can be negative."""

    epoch: int
    loss: float
    right: float | None
    held_out_loss: float | None
    held_out_right: float | None


class FusionModel:
    """A module from sums of embeddings to scores; `scale` is public and keeps noisy sums of order one."""

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
        return self._labels

    def scores(self, sums: Floats) -> Floats:
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
        with torch.no_grad():
            scores = self._forward(self._tensor(sums), self.weights.parameters)
            self._note(scores, self._loss(scores, self._tensor(targets)), targets, held_out=held_out)

    def set_linear(self, coefficients: Floats, intercepts: Floats) -> None:
        """Give the linear layer the weights that act on sums as they are."""
        self.weights.parameters["weight"].copy_(self._tensor(coefficients * self._scale))
        self.weights.parameters["bias"].copy_(self._tensor(intercepts))

    def forget_unfinished(self) -> None:
        self._seen = {False: [], True: []}

    def goes_on(self, epoch: int) -> bool:
        """Whether the held-out loss was lowest within the last `patience` epochs: stopping shows nothing further."""
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
    moments' diagonal, which is taken off here.
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
        moments = ValueMoments(
            gram,
            float(count),
            rows.sum(axis=0),
            cross=rows.T @ values,
            value_total=float(values.sum()),
            value_square=float(values @ values),
            noise=noise,
            border=border,
        )
        line = least_squares(moments)
        model.set_linear(line.coefficients[None, :], np.array([line.intercept]))
    else:
        codes = (targets[:, 0] > 0).astype(int) if model.classes == 2 else targets.argmax(axis=1)
        members = np.eye(model.classes)[codes]
        by_class = ClassMoments(gram, members.T @ rows, members.sum(axis=0), noise=noise, border=border)
        rule = (binary_rule if model.classes == 2 else multiclass_rule)(by_class)
        model.set_linear(rule.coefficients, rule.intercepts)
    model.forget_unfinished()
    for part, apart in ((train, False), (held_out, True)):
        if len(part):
            model.look(part, sums[part], model.labels()[part], held_out=apart)
    model.close_epoch(len(model.history))


def targets_of(codes: NDArray[Any], classes: int) -> Floats:
    if classes == 2:
        return np.where(np.asarray(codes) == 1, 1.0, -1.0)[:, None]
    targets = np.full((len(codes), classes), -1.0)
    targets[np.arange(len(codes)), codes] = 1.0
    return targets
