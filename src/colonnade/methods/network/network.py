"""A trained network in parts: every party's module and the label holder's fusion model, and how they score people."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from colonnade.data.encoder import Encoder
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import InputError, ModelError, OnlyForPublicData
from colonnade.evaluation.scores import JointScores, score_jointly
from colonnade.methods.method import Array
from colonnade.methods.network.modules import FusionModel, LocalNetwork, Weights, from_seed, local_network
from colonnade.methods.network.plan import OWN, Design
from colonnade.models.files.membership import TrainingMembership
from colonnade.models.inputs import InputSpec
from colonnade.protocols.joint_scores import ScoresSpec, Terms

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Network:
    """Parts side by side, as only a simulation in one process sees them; or those that one party has."""

    design: Design
    frame: InputSpec
    locals: Mapping[str, LocalNetwork]
    fusion: FusionModel | None

    def scores(self, features: Array) -> Array:
        """Log-odds of classes, or the label's own units, of rows of `frame.features`."""
        # A frame divides by √m for the moments family; networks read each column in its own units.
        rows = torch.from_numpy((features * math.sqrt(self.frame.attributes)).astype(np.float32))
        total, start = np.zeros((len(rows), self.design.embedding)), 0
        for party, encoder in self.frame.encoders:
            total += self.locals[party].embed_features(rows[:, start : start + encoder.width])
            start += encoder.width
        return self.read(total)

    def read(self, sums: Array) -> Array:
        if self.fusion is None:
            raise ModelError(
                f"this part of a network scores nobody: {self.design.receiver} has its last layer."
            )
        scores = np.asarray(self.fusion.scores(sums), dtype=np.float64)
        return scores if self.design.classes else self.frame.label.from_unit(np.clip(scores, -1.0, 1.0))

    def spec(self, epsilon: float | None, **terms: Any) -> ScoresSpec:
        """What is asked of the parties to score people; `terms` are δ and how people are matched."""
        design = self.design
        weights: Literal["private", "public"] = "private" if design.regime == "private-local" else "public"
        return ScoresSpec(
            receiver=design.receiver,
            width=design.embedding,
            bound=float(design.bound),
            weights=weights,
            epsilon=epsilon,
            **terms,
        )

    def terms(self) -> dict[str, Terms]:
        def embedded(local: LocalNetwork, encoder: Encoder) -> Terms:
            def term(aligned: AlignedTable) -> Array:
                rows = torch.from_numpy(features_of(aligned, encoder))
                return np.asarray(local.embed_features(rows), np.float64)

            return term

        return {party: embedded(self.locals[party], encoder) for party, encoder in self.frame.encoders}

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
        people in `trained_on`, and altogether where nobody knows who was trained on; with ε sums carry noise and are
        charged.
        """
        self.refuse_paper(people, "score")
        terms = {"delta": delta, "accepted_delta": accepted_delta, "alignment": people.alignment}
        scored = score_jointly(people, self.spec(epsilon, **terms), self.terms(), trained_on=trained_on)
        return replace(scored, sums=self.read(scored.sums))

    def refuse_paper(self, people: Federation, purpose: str) -> None:
        if self.design.regime == "paper" and not people.public:
            raise OnlyForPublicData(
                "this network was trained in the paper's regime: its scores would disclose the people it was trained "
                f"on. Train it with 'frozen' or 'private-local' to {purpose} people who are not public."
            )

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
            head = copy.deepcopy(fusion)
            if head is None:
                head = from_seed(0, lambda: nn.Linear(design.embedding, design.outputs))
            _fill(head, tensors, "fusion/")
            last = FusionModel(
                head, np.zeros((0, design.outputs)), classes=design.classes, scale=design.scale
            )
        return cls(design, frame, locals_, last)


def features_of(table: AlignedTable | Table, encoder: Encoder) -> NDArray[np.float32]:
    return np.concatenate([encoder.encode(block).astype(np.float32) for block in table.blocks()])


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
