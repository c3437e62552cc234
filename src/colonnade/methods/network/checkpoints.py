"""Weights on disk as safetensors: numbers and names, nothing that runs when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelDamaged, ModelError

_KEPT = 2


def write_weights(path: Path, weights: Mapping[str, NDArray[Any]], *, notes: Any = None) -> None:
    """Write arrays and a JSON note to one file, whole or not at all."""
    from safetensors.numpy import save_file

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_suffix(".unfinished")
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    save_file(arrays, unfinished, metadata={"notes": json.dumps(notes)})
    unfinished.chmod(0o600)
    unfinished.replace(path)


def read_weights(
    path: Path, expected: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[dict[str, NDArray[Any]], Any]:
    """What `write_weights` wrote; another file, or other names and shapes, are a `DataError`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes = json.loads((file.metadata() or {}).get("notes", "null"))
    except (SafetensorError, OSError, ValueError):
        raise ModelDamaged(f"{path} is not a file of weights, or is damaged.") from None
    found = {name: array.shape for name, array in weights.items()}
    if expected is not None and found != dict(expected):
        raise ModelError(f"{path} holds the weights of another network than the one it is read into.")
    return weights, notes


def epoch_path(folder: Path, name: str, epoch: int) -> Path:
    """Where the weights at the beginning of an epoch are kept."""
    return folder / f"{name}-{epoch:05d}.safetensors"


def kept_epochs(folder: Path | None, name: str) -> tuple[int, ...]:
    """The epochs whose beginnings are kept in a folder."""
    if folder is None:
        return ()
    names = (path.stem.removeprefix(f"{name}-") for path in folder.glob(f"{name}-*.safetensors"))
    return tuple(sorted(int(each) for each in names if each.isdigit()))


def forget_old(folder: Path, name: str) -> None:
    """Keep the last beginnings only: no party is further than one epoch from another."""
    for epoch in kept_epochs(folder, name)[:-_KEPT]:
        epoch_path(folder, name, epoch).unlink()
