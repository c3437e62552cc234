"""What has to be known of a network to use its weights, as plain values; PyTorch is asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from colonnade.errors import NotInstalled
from colonnade.methods.network.plan import BOUND, Kind, Regime
from colonnade.protocols.plans import Task


def need_networks() -> None:
    """Raise an `InputError` that names the extra, unless PyTorch and safetensors are installed."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as missing:
        raise NotInstalled(
            f"neural networks need PyTorch and safetensors, and {missing.name!r} is not installed. Install the extra: "
            "pip install 'colonnade[networks]'."
        ) from None


OWN = "own"
"""A module that a user wrote: its class is not in any file, so whoever loads its weights has to bring it."""


@dataclass(frozen=True)
class Design:
    """Sums of embeddings, each coordinate within ±`bound`, are divided by `scale` before the fusion model."""

    task: Task
    regime: Regime
    receiver: str
    networks: str = "dense"
    fusion: str = "linear"
    image: tuple[int, int, int] | None = None
    embedding: int = 16
    bound: int = BOUND
    classes: int = 0
    scale: float = 1.0

    @property
    def outputs(self) -> int:
        return self.classes if self.classes > 2 else 1

    def to_data(self) -> dict[str, Any]:
        return asdict(self) | {"image": None if self.image is None else list(self.image)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Design:
        """The design that plain values describe; what is none raises `KeyError`, `TypeError` or `ValueError`."""
        image = data["image"]
        made = cls(**{**data, "image": None if image is None else tuple(image)})
        known = (*get_args(Kind), OWN)
        if made.networks not in known or made.fusion not in ("linear", OWN):
            raise ValueError(f"networks of kind {made.networks!r} with a fusion of kind {made.fusion!r}")
        if made.regime not in get_args(Regime) or made.task not in ("classification", "regression"):
            raise ValueError(f"a network of regime {made.regime!r} for {made.task!r}")
        return made
