"""Networks to begin with: dense layers for tables, convolutions for parts of images, ResNet-18, a linear fusion.

Any `torch.nn.Module` that maps (rows, numbers) to (rows, P) serves in their place. Normalisation over a batch is not
used: an embedding must be a function of its own row, and rows of one batch would share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import torch
from torch import nn

from colonnade.errors import InputError
from colonnade.methods.network.terms import Kind

ImageShape = tuple[int, int, int]
KINDS = get_args(Kind)


class DenseNet(nn.Module):
    """Three dense layers: numbers → width → width → embedding."""

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
    """The default network of a kind for one party, from a public seed."""
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
