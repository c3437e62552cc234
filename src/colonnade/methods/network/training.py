"""From a federation and some modules to a trained network: what the estimators share."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import InputError, OnlyForPublicData
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.gathering import label_values
from colonnade.methods.network import modules
from colonnade.methods.network.network import Network, features_of
from colonnade.methods.network.network_file import NetworkModel
from colonnade.methods.network.plan import BOUND, OWN, Design, Kind, NetworkOptions, NetworkPlan
from colonnade.methods.network.protocol import (
    ModelFactory,
    PartyModels,
    TrainedEmbeddings,
    embeddings_session,
)
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.protocols.plans import TrainingSpec, options_of
from colonnade.randomness import public_permutation
from colonnade.runtime.party import Party
from colonnade.runtime.run import Program

SPLIT = (
    "Each party keeps its own network, and the label holder the fusion model, which is made with exact labels: no "
    "guarantee covers showing it to anybody else."
)


@dataclass(frozen=True)
class Settings:
    networks: Mapping[str, nn.Module] | None = None
    fusion: nn.Module | None = None
    checkpoint: Path | None = None


def kind_of(options: NetworkOptions) -> Kind:
    return options.networks or ("random" if options.regime == "frozen" else "dense")


def bring(name: str, settings: Settings, module: nn.Module | None) -> ModelFactory:
    """What one party does once rows are aligned: encode them, and put its networks on top."""

    def bring_in(aligned: AlignedTable | None, plan: NetworkPlan) -> PartyModels:
        if aligned is None:
            return PartyModels()
        options = plan.options
        contributor, fusion = None, None
        pace = {"learning_rate": options.learning_rate, "momentum": options.momentum}
        if module is not None:
            features = features_of(aligned, plan.encoders[name])
            contributor = modules.LocalNetwork(
                name, module, features, bound=BOUND, embedding=options.embedding, **pace
            )
        if name == plan.receiver:
            values, classes = label_values([aligned]), len(plan.label.classes)
            last = copy.deepcopy(settings.fusion)
            if last is None:
                # One linear layer, as in PBM-VFL.
                outputs = classes if classes > 2 else 1
                last = modules.from_seed(options.seed, lambda: nn.Linear(options.embedding, outputs))
            fusion = modules.FusionModel(
                last,
                modules.targets_of(values, classes) if classes else plan.label.to_unit(values)[:, None],
                classes=classes,
                scale=fusion_scale(plan),
                patience=options.patience if options.held_out else 0,
                **pace,
            )
        return PartyModels(contributor, fusion)

    return bring_in


def fusion_scale(plan: NetworkPlan) -> float:
    """The standard deviation of a sum's noise, if it is more than one: known before any data is."""
    if plan.options.regime == "paper":
        return 1.0
    return max(1.0, math.sqrt(plan.sum_variance))


def modules_for(
    tables: Mapping[str, Table], options: NetworkOptions, settings: Settings, first: int = 0
) -> dict[str, nn.Module]:
    """A module for each owner of columns; those given are copied, so that a fit leaves them as they were."""
    by_party: dict[str, nn.Module] = {}
    for number, (party, table) in enumerate(tables.items(), first):
        if not table.schema.columns:
            continue
        if settings.networks is None:
            encoder = table.schema.encoder("linear")
            by_party[party] = modules.local_network(
                kind_of(options),
                party=party,
                numbers=encoder.width,
                attributes=encoder.attributes,
                embedding=options.embedding,
                image=image_of(options),
                seed=options.seed + number + 1,
            )
        elif party in settings.networks:
            by_party[party] = copy.deepcopy(settings.networks[party])
        else:
            raise InputError(
                f"networks has a module for {', '.join(settings.networks) or 'nobody'}, but none for {party!r}. Give "
                "one for every party that owns columns."
            )
    return by_party


def finish(
    fusion: modules.FusionModel, sums: NDArray[np.float64], plan: NetworkPlan, *, linear: bool
) -> None:
    """What the label holder does with the last sums and its own labels, for itself: nothing leaves."""
    split = public_permutation(plan.rows, plan.options.seed)
    train, held_out = split[: plan.train_rows], split[plan.train_rows :]
    if linear:
        modules.solve_on_sums(fusion, sums, train=train, held_out=held_out, variance=plan.sum_variance)
    elif not plan.learns_locally:
        modules.fit_on_sums(
            fusion,
            sums,
            fusion.labels(),
            train=train,
            held_out=held_out,
            epochs=plan.options.epochs,
            batch=plan.batch,
            order=public_permutation(plan.train_rows, plan.options.seed + 1),
        )


def image_of(options: NetworkOptions) -> modules.ImageShape | None:
    if options.image is None:
        return None
    channels, height, width = options.image
    return channels, height, width


def train(federation: Federation, spec: TrainingSpec, settings: Settings) -> NetworkModel:
    if options_of(spec, NetworkOptions).regime == "paper" and not federation.public:
        raise OnlyForPublicData(
            "regime 'paper' protects nobody end to end: it is for data that every party declared public. Use 'frozen' "
            "or 'private-local', or say public = true if the data is."
        )
    run = federation.run(network_session(settings), spec, checkpoint=settings.checkpoint)
    return replace(network_of(run.outcome.results, settings), run=run)


def network_session(settings: Settings) -> Program:
    async def session(party: Party, table: Table | None, spec: TrainingSpec) -> TrainedEmbeddings:
        # Modules are numbered by their parties' places among the owners.
        place = party.group.owners.index(party.name) if party.owns_columns else 0
        own = {} if table is None else {party.name: table}
        module = modules_for(own, options_of(spec, NetworkOptions), settings, place).get(party.name)
        bringing = bring(party.name, settings, module)
        return await embeddings_session(party, table, spec, bringing)

    return session


def network_of(results: Mapping[str, TrainedEmbeddings], settings: Settings) -> NetworkModel:
    first = next(iter(results.values()))
    plan, holder = first.plan, results.get(first.plan.receiver)
    fusion: Any = None if holder is None else holder.brought.fusion
    if holder is not None and plan.options.regime != "paper" and holder.sums is not None:
        finish(fusion, holder.sums, plan, linear=settings.fusion is None)
    locals_: dict[str, Any] = {
        name: results[name].brought.contributor for name in plan.contributors if name in results
    }
    frame = InputSpec(tuple(plan.encoders.items()), plan.label)
    return NetworkModel(
        Network(design_of(plan, settings), frame, locals_, fusion),
        plan.statement,
        () if fusion is None else tuple(fusion.history),
        first.epochs,
        frame=frame,
        privacy=Privacy(plan.guarantees, reproducible=first.reproducible),
        split=True,
        notes=(plan.statement, SPLIT),
    )


def design_of(plan: NetworkPlan, settings: Settings) -> Design:
    return Design(
        task=plan.spec.task,
        regime=plan.options.regime,
        receiver=plan.receiver,
        networks=kind_of(plan.options) if settings.networks is None else OWN,
        fusion="linear" if settings.fusion is None else OWN,
        image=image_of(plan.options),
        embedding=plan.options.embedding,
        classes=len(plan.label.classes),
        scale=fusion_scale(plan),
    )
