"""A trained network in parts, its two files, and what every method asks of a model."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from colonnade.data.encoder import Encoder
from colonnade.data.table import AlignedTable
from colonnade.errors import (
    DataError,
    DataMissing,
    DataUnreadable,
    InputError,
    ModelDamaged,
    ModelError,
    OnlyForPublicData,
    PlanError,
)
from colonnade.evaluation.scores import JointScores, score_jointly
from colonnade.methods.method import Array, TrainedModel
from colonnade.methods.network.design import OWN, Design
from colonnade.methods.network.extra import need_networks
from colonnade.methods.network.modules import FusionModel, LocalNetwork, Weights, from_seed, local_network
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.protocol import formula_bytes
from colonnade.models.discriminant import Reading
from colonnade.models.files.document import (
    IMPOSSIBLE,
    UNCOVERED,
    Privacy,
    described,
    frame_in,
    privacy_in,
    read_document,
    write_contents,
    write_document,
)
from colonnade.models.files.membership import TrainingMembership
from colonnade.models.inputs import InputSpec
from colonnade.protocols.joint_scores import ScoresSpec, Terms
from colonnade.runtime.run import Outcome

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation
    from colonnade.methods.network.modules import Epoch


Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Network:
    """Parts beside each other, as only a simulation in one process sees them; or those that one party has.

    A party without the label has its own module and no fusion model.
    """

    design: Design
    frame: InputSpec
    locals: Mapping[str, LocalNetwork]
    fusion: FusionModel | None

    def scores(self, features: Array) -> Array:
        """What all parts together say of rows of `frame.features`: log-odds of classes, or the label's own units."""
        # A frame divides by √m for the moments family; networks read each column in its own units.
        rows = torch.from_numpy((features * math.sqrt(self.frame.attributes)).astype(np.float32))
        total, start = np.zeros((len(rows), self.design.embedding)), 0
        for party, encoder in self.frame.encoders:
            total += self.locals[party].embed_features(rows[:, start : start + encoder.width])
            start += encoder.width
        return self.read(total)

    def read(self, sums: Array) -> Array:
        """What the fusion model says of sums of embeddings."""
        if self.fusion is None:
            raise ModelError(
                f"this part of a network scores nobody: {self.design.receiver} has its last layer."
            )
        scores = np.asarray(self.fusion.scores(sums), dtype=np.float64)
        return scores if self.design.classes else self.frame.label.from_unit(np.clip(scores, -1.0, 1.0))

    def terms(self) -> dict[str, Terms]:
        """Each party's summand: the embeddings of its own rows."""
        return {party: _embedded(self.locals[party], encoder) for party, encoder in self.frame.encoders}

    def score_people(
        self,
        people: Federation,
        *,
        trained_on: Mapping[str, TrainingMembership] | None,
        epsilon: float | None = None,
        delta: float | None = None,
        accepted_delta: float | None = None,
    ) -> JointScores:
        """Scores of people whose columns lie with the parties; only the label holder sees them.

        Exact scores disclose, for each person, the others' sum of embeddings to the label holder, and are refused for
        people in `trained_on`, and altogether where nobody knows who was trained on; with ε the sums carry noise and
        are charged. A network of the paper's regime scores public data only.
        """
        if self.design.regime == "paper" and not people.public:
            raise OnlyForPublicData(
                "this model was trained in the paper's regime: its scores would disclose the people it was trained on. "
                "Train it with 'frozen' or 'private-local' to score people who are not public."
            )
        if epsilon is None and trained_on is None and not people.public:
            raise PlanError(
                "which people the model was trained on is not known here, and exact scores of them would show more "
                "than was promised. Nothing was run. Score with the estimator that was fitted or the folder of the "
                "run, or give an ε (--epsilon) for noisy scores that are charged."
            )
        missing = [party for party, _ in self.frame.encoders if party not in people.tables]
        if missing or self.design.receiver not in people.tables:
            absent = ", ".join(missing or [self.design.receiver])
            raise DataError(f"the model has a part of {absent}, which takes no part here.")
        request = ScoresSpec(
            receiver=self.design.receiver,
            width=self.design.embedding,
            bound=float(self.design.bound),
            weights="private" if self.design.regime == "private-local" else "public",
            epsilon=epsilon,
            delta=delta,
            accepted_delta=accepted_delta,
            alignment=people.alignment,
        )
        scored = score_jointly(people, request, self.terms(), trained_on=trained_on)
        return replace(scored, sums=self.read(scored.sums))

    def tensors(self) -> Tensors:
        tensors: Tensors = {}
        for name, local in self.locals.items():
            tensors |= {f"network/{name}/{key}": value for key, value in _arrays(local.weights).items()}
        if self.fusion is not None:
            tensors |= {f"fusion/{key}": value for key, value in _arrays(self.fusion.weights).items()}
        return tensors

    def part(self, party: str) -> Network:
        mine = tuple(pair for pair in self.frame.encoders if pair[0] == party)
        return Network(
            self.design,
            InputSpec(mine, self.frame.label, self.frame.attributes),
            {name: local for name, local in self.locals.items() if name == party},
            self.fusion if party == self.design.receiver else None,
        )

    @classmethod
    def joined(cls, parts: Mapping[str, Network]) -> Network:
        """Parts beside each other again, in one process."""
        every = list(parts.values())
        label = next((part.frame.label for part in every if part.fusion is not None), every[0].frame.label)
        return cls(
            every[0].design,
            InputSpec.joined([part.frame for part in every], label),
            {name: local for part in every for name, local in part.locals.items()},
            next((part.fusion for part in every if part.fusion is not None), None),
        )

    @classmethod
    def built(
        cls,
        design: Design,
        frame: InputSpec,
        tensors: Tensors,
        *,
        networks: Mapping[str, nn.Module] | None = None,
        fusion: nn.Module | None = None,
    ) -> Network:
        """The network with these weights; `networks` and `fusion` are needed where they are a user's own modules."""
        locals_ = {}
        for party, encoder in frame.encoders:
            module = _module(design, party, encoder, networks)
            _fill(module, tensors, f"network/{party}/")
            nothing = np.zeros((1, encoder.width), dtype=np.float32)
            locals_[party] = LocalNetwork(
                party, module, nothing, bound=design.bound, embedding=design.embedding
            )
        last = None
        if any(name.startswith("fusion/") for name in tensors):
            if design.fusion == OWN and fusion is None:
                raise InputError(
                    "the fusion model is a module of its author's own, whose class no file holds. Give it: "
                    "load(path, fusion=module)."
                )
            head = copy.deepcopy(fusion) if fusion is not None else _linear(design)
            _fill(head, tensors, "fusion/")
            last = FusionModel(
                head, np.zeros((0, design.outputs)), classes=design.classes, scale=design.scale
            )
        return cls(design, frame, locals_, last)


def _linear(design: Design) -> nn.Module:
    return from_seed(0, lambda: nn.Linear(design.embedding, design.outputs))


def _module(
    design: Design, party: str, encoder: Encoder, networks: Mapping[str, nn.Module] | None
) -> nn.Module:
    if networks is not None and party in networks:
        return copy.deepcopy(networks[party])
    if design.networks == OWN:
        raise InputError(
            f"the network of {party} is a module of its author's own, whose class no file holds. Give it: "
            f"load(path, networks={{{party!r}: module, ...}})."
        )
    return local_network(
        design.networks,
        party=party,
        numbers=encoder.width,
        attributes=encoder.attributes,
        embedding=design.embedding,
        image=design.image,
        seed=0,
    )


def _arrays(weights: Weights) -> Tensors:
    return {key: value.numpy().copy() for key, value in {**weights.parameters, **weights.buffers}.items()}


def _fill(module: nn.Module, tensors: Tensors, prefix: str) -> None:
    """Put weights into a module of the same shape."""
    places = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    given = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    shapes = {name: tuple(value.shape) for name, value in places.items()}
    if {name: value.shape for name, value in given.items()} != shapes:
        raise ModelError(
            f"the weights under {prefix!r} are those of another network than the one that was named."
        )
    with torch.no_grad():
        for name, value in given.items():
            places[name].copy_(torch.from_numpy(value.copy()))


def _embedded(local: LocalNetwork, encoder: Encoder) -> Terms:
    def term(aligned: AlignedTable) -> Array:
        blocks = [encoder.encode(block).astype(np.float32) for block in aligned.blocks()]
        rows = torch.from_numpy(np.concatenate(blocks))
        return np.asarray(local.embed_features(rows), dtype=np.float64)

    return term


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
    privacy: Privacy
    regime: str
    run: str
    party: str | None = None
    method: str = METHOD_NAME

    @property
    def reading(self) -> Reading:
        return KINDS[self.kind]

    def save(self, path: Path) -> None:
        """Write the weights, then the document that names their digest."""
        need_networks()
        from safetensors.numpy import save

        weights = save({name: np.ascontiguousarray(array) for name, array in self.tensors.items()})
        companion = weights_path(path)
        if companion == path:
            raise ModelError(
                f"{path}: the weights are written beside it under that name. Let it end in .json."
            )
        # No guarantee covers showing a network's weights, whole or in parts.
        write_contents(companion, weights, own=True)
        data = described(
            self.frame,
            self.privacy,
            kind=self.kind,
            method=self.method,
            run=self.run,
            party=self.party,
            statement="\n".join([WHOLE if self.party is None else UNCOVERED, self.regime, str(self.privacy)]),
        )
        data["design"] = self.design.to_data()
        data["regime"] = self.regime
        data["tensors"] = {"file": companion.name, "sha256": hashlib.sha256(weights).hexdigest()}
        write_document(path, data, own=True)

    @classmethod
    def load(cls, path: Path) -> NetworkFile:
        """The network in a pair of files; a pair that is cut off, altered or newer is refused by name."""
        return cls.of(read_document(path), path)

    @classmethod
    def of(cls, data: Mapping[str, Any], path: Path) -> NetworkFile:
        """The network that a document describes, with the weights beside it."""
        need_networks()
        if data.get("kind") not in KINDS:
            raise ModelError(f"{path} holds a {data.get('kind')}, which is no network.")
        try:
            design, frame = Design.from_data(data["design"]), frame_in(data)
            if KINDS[data["kind"]].classifies != (design.task == "classification"):
                raise ValueError(f"a {data['kind']} for {design.task}")
            return cls(
                kind=data["kind"],
                design=design,
                frame=frame,
                tensors=_weights(path.with_name(str(data["tensors"]["file"])), data["tensors"]["sha256"]),
                privacy=privacy_in(data),
                regime=str(data["regime"]),
                run=str(data["run"]),
                party=data["party"],
                method=str(data["method"]),
            )
        except DataError:
            raise
        except IMPOSSIBLE as error:
            raise ModelDamaged(f"{path} describes a model that cannot be: {error}") from None

    def network(self, *, networks: Mapping[str, Any] | None = None, fusion: Any = None) -> Network:
        """The network itself; `networks` and `fusion` are a user's own modules, which no file holds."""
        need_networks()

        return Network.built(self.design, self.frame, self.tensors, networks=networks, fusion=fusion)


def network_file(
    kind: str, network: Network, privacy: Privacy, *, regime: str, run: str, party: str | None = None
) -> NetworkFile:
    """A network, or one party's part of it, ready to be saved."""
    return NetworkFile(
        kind=kind,
        design=network.design,
        frame=network.frame,
        tensors=network.tensors(),
        privacy=privacy,
        regime=regime,
        run=run,
        party=party,
    )


def network_parts(
    kind: str, network: Network, privacy: Privacy, *, regime: str, run: str
) -> dict[str, NetworkFile]:
    """One file for each party whose part is here, with that alone; the label holder's with the fusion model."""
    holder = () if network.fusion is None else (network.design.receiver,)
    return {
        party: network_file(kind, network.part(party), privacy, regime=regime, run=run, party=party)
        for party in dict.fromkeys((*network.locals, *holder))
    }


def weights_path(path: Path) -> Path:
    """Where the weights of a model file lie: beside it, under the same name."""
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
        """Sums and gradients over the formula: what framing and whole bits cost."""
        return (self.sums + self.gradients) / self.formula

    @classmethod
    def of(cls, outcome: Outcome, plan: EmbeddingsPlan, epochs: int) -> Communication:
        """The ledger of a finished run, which may have stopped early."""
        sent = outcome.bytes_by_step
        return cls(
            sums=sent.get("sum", 0),
            gradients=sent.get("back", 0),
            everything=outcome.bytes_sent,
            formula=formula_bytes(plan) * epochs / plan.passes,
        )


@dataclass(frozen=True, eq=False)
class NetworkModel(TrainedModel):
    """A network in parts that stay with their parties, its learning curve and how many epochs it took.

    `network` has the parts of those who are here. `history` is what the label holder saw, and nobody else: it is made
    with exact labels.
    """

    network: Network
    statement: str
    history: tuple[Epoch, ...]
    epochs: int

    @property
    def communication(self) -> Communication | None:
        """What the run sent, where all of it was seen."""
        if self.run is None:
            return None
        return Communication.of(self.run.outcome, self.run.plan, self.epochs)

    def scores(self, features: Array) -> Array:
        return self.network.scores(features)
