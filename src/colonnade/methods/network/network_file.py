"""A trained network as plain values, its two files, and what every method asks of a model; without PyTorch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import DataError, DataMissing, DataUnreadable, ModelDamaged, ModelError
from colonnade.methods.method import Array, TrainedModel
from colonnade.methods.network.plan import Design, need_networks
from colonnade.methods.network.protocol import formula_bytes
from colonnade.models.discriminant import Reading
from colonnade.models.files import document
from colonnade.models.inputs import InputSpec

if TYPE_CHECKING:
    from colonnade.methods.network.modules import Epoch
    from colonnade.methods.network.network import Network, Tensors


KINDS = {
    "NeuralClassifier": Reading("a network for classes", "probabilities"),
    "NeuralRegressor": Reading("a network for a number", "prediction"),
}
METHOD_NAME = "network"
WHOLE = (
    "All parts of this network lie in one file. The fusion model was made with exact labels: what follows is about the "
    "messages of the training run and does not cover showing it."
)


@dataclass(frozen=True, eq=False)
class NetworkFile:
    """What the files of a network hold. `party` is whose part alone it is, None for a whole network."""

    kind: str
    design: Design
    frame: InputSpec
    tensors: Tensors
    privacy: document.Privacy
    regime: str
    run: str
    party: str | None = None
    method: str = METHOD_NAME
    threshold = 0.5

    @property
    def reading(self) -> Reading:
        return KINDS[self.kind]

    def save(self, path: Path) -> None:
        need_networks()
        from safetensors.numpy import save

        weights = save({name: np.ascontiguousarray(array) for name, array in self.tensors.items()})
        companion = weights_path(path)
        if companion == path:
            raise ModelError(
                f"{path}: the weights are written beside it under that name. Let it end in .json."
            )
        # No guarantee covers showing a network's weights, whole or in parts.
        document.write_contents(companion, weights, own=True)
        data = document.described(
            self.frame,
            self.privacy,
            kind=self.kind,
            method=self.method,
            run=self.run,
            party=self.party,
            statement="\n".join(
                [WHOLE if self.party is None else document.UNCOVERED, self.regime, str(self.privacy)]
            ),
        )
        data["design"] = self.design.to_data()
        data["regime"] = self.regime
        data["tensors"] = {"file": companion.name, "sha256": hashlib.sha256(weights).hexdigest()}
        document.write_document(path, data, own=True)

    @classmethod
    def load(cls, path: Path) -> NetworkFile:
        return cls.of(document.read_document(path), path)

    @classmethod
    def of(cls, data: Mapping[str, Any], path: Path) -> NetworkFile:
        need_networks()
        if data.get("kind") not in KINDS:
            raise ModelError(f"{path} holds a {data.get('kind')}, which is not a network.")
        try:
            design, frame = Design.from_data(data["design"]), document.frame_in(data)
            if KINDS[data["kind"]].classifies != (design.task == "classification"):
                raise ValueError(f"a {data['kind']} for {design.task}")
            tensors = _weights(path.with_name(str(data["tensors"]["file"])), data["tensors"]["sha256"])
            texts = str(data["regime"]), str(data["run"]), data["party"], str(data["method"])
            return cls(data["kind"], design, frame, tensors, document.privacy_in(data), *texts)
        except DataError:
            raise
        except document.IMPOSSIBLE as error:
            raise ModelDamaged(f"{path} describes a model that cannot be: {error}") from None

    def network(self, *, networks: Mapping[str, Any] | None = None, fusion: Any = None) -> Network:
        need_networks()
        from colonnade.methods.network.network import Network

        return Network.built(self.design, self.frame, self.tensors, networks=networks, fusion=fusion)


def network_file(
    kind: str, network: Network, privacy: document.Privacy, *, regime: str, run: str, party: str | None = None
) -> NetworkFile:
    return NetworkFile(
        kind, network.design, network.frame, network.tensors(), privacy, regime, run=run, party=party
    )


def network_parts(
    kind: str, network: Network, privacy: document.Privacy, *, regime: str, run: str
) -> dict[str, NetworkFile]:
    holder = () if network.fusion is None else (network.design.receiver,)
    return {
        party: network_file(kind, network.part(party), privacy, regime=regime, run=run, party=party)
        for party in dict.fromkeys((*network.locals, *holder))
    }


def weights_path(path: Path) -> Path:
    return path.with_suffix(".safetensors")


def _weights(path: Path, digest: str) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        contents = path.read_bytes()
    except FileNotFoundError:
        raise DataMissing(f"{path}: the weights of the model are not there. Copy both files of it.") from None
    except OSError as error:
        raise DataUnreadable(f"{path} cannot be read ({error.strerror}).") from None
    if hashlib.sha256(contents).hexdigest() != digest:
        raise ModelDamaged(
            f"{path} is cut off or was altered: its digest is not the one in the model's file. Copy both again from "
            "where they were saved."
        )
    try:
        tensors: Tensors = load(contents)
    except SafetensorError:
        raise ModelDamaged(f"{path} is not a file of weights.") from None
    if not all(np.isfinite(array).all() for array in tensors.values()):
        raise ModelDamaged(f"{path} holds weights that are not finite.")
    return tensors


@dataclass(frozen=True)
class Communication:
    """What a run sent, as measured on the channels, beside PBM-VFL's formula T·B·M·P(log₂(bM) + F)."""

    sums: int
    gradients: int
    everything: int
    formula: float

    @property
    def over_formula(self) -> float:
        return (self.sums + self.gradients) / self.formula


@dataclass(frozen=True, eq=False)
class NetworkModel(TrainedModel):
    """The parts of those who are here; `history` is made with exact labels, and for the label holder alone."""

    network: Network
    statement: str
    history: tuple[Epoch, ...]
    epochs: int

    @property
    def communication(self) -> Communication | None:
        """What the run sent, where all of it was seen."""
        if self.run is None:
            return None
        plan, outcome = self.run.plan, self.run.outcome
        sent, formula = outcome.bytes_by_step, formula_bytes(plan) * self.epochs / plan.passes
        return Communication(sent.get("sum", 0), sent.get("back", 0), outcome.bytes_sent, formula)

    def scores(self, features: Array) -> Array:
        return self.network.scores(features)
