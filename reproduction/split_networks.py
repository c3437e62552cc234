"""Networks of all parties, side by side, and of several runs on the same rows: one shape, evaluated together."""

from __future__ import annotations

import math

import torch
from torch import nn

EMBEDDING = 16


def _drawn(parties: int, *shape: int) -> nn.Parameter:
    """Numbers within 1/√n of zero, n the first of a shape."""
    return nn.Parameter((torch.rand(parties, *shape) * 2 - 1) / math.sqrt(shape[0]))


def _first(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The first layer of all copies: (parties, rows, n) by weights (copies·parties, n, m).

    All copies see the same rows, so that a party's are multiplied once, with the weights of all copies beside
    each other.
    """
    parties, numbers, width = rows.shape[0], *weight.shape[1:]
    wide = weight.reshape(-1, parties, numbers, width).permute(1, 2, 0, 3).flatten(2)
    found = torch.bmm(rows, wide).reshape(parties, rows.shape[1], -1, width).permute(2, 0, 1, 3)
    return torch.relu(found.flatten(0, 1) + bias)


class DenseParties(nn.Module):
    """Three dense layers for each of M parties; narrower parties are padded with zeros."""

    def __init__(
        self, parties: int, numbers: int, *, width: int = 32, embedding: int = EMBEDDING, copies: int = 1
    ) -> None:
        super().__init__()
        sizes = [(numbers, width), (width, width), (width, embedding)]
        self.weights = nn.ParameterList(_drawn(copies * parties, a, b) for a, b in sizes)
        self.biases = nn.ParameterList(
            nn.Parameter((torch.rand(copies * parties, 1, b) * 2 - 1) / math.sqrt(a)) for a, b in sizes
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(parties, rows, numbers) → (copies·parties, rows, P)."""
        inner = _first(rows, self.weights[0], self.biases[0])
        inner = torch.relu(torch.baddbmm(self.biases[1], inner, self.weights[1]))
        return torch.tanh(torch.baddbmm(self.biases[2], inner, self.weights[2]))
