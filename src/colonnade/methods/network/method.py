"""Sums of embeddings, after PBM-VFL, as a method: neither the table of methods nor a plan needs PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from colonnade.methods.method import Method, NoiseSummary, TrainedModel
from colonnade.methods.network.plan import NetworkOptions, NetworkPlan, need_networks
from colonnade.methods.network.protocol import TrainedEmbeddings
from colonnade.planning.cost import Axis, Pilot, kept, product
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.run import Program


def session(_spec: TrainingSpec) -> Program:
    need_networks()
    from colonnade.methods.network.training import Settings, network_session

    return network_session(Settings())


def model(_spec: TrainingSpec, results: Mapping[str, TrainedEmbeddings]) -> TrainedModel:
    need_networks()
    from colonnade.methods.network.training import Settings, network_of

    return network_of(results, Settings())


def pilots(plan: NetworkPlan) -> tuple[Pilot, ...]:
    batch = plan.batch

    def at(epochs: int, train_batches: int, held_out: int) -> NetworkPlan:
        tested = held_out * batch + plan.held_out % batch
        rows = train_batches * batch + plan.train_rows % batch + tested
        return kept(
            plan, replace(plan, spec=plan.spec.with_options(epochs=epochs), rows=rows, held_out=tested)
        )

    full = plan.options.epochs
    epochs = Axis(full, 1, 2) if plan.learns_locally else Axis(full, full, full)
    return product([epochs, Axis(plan.train_rows // batch, 8, 32), Axis(plan.held_out // batch, 0, 1)], at)


METHOD = Method(
    name="network",
    title="a network over noisy sums of embeddings",
    tasks=("classification", "regression"),
    options=NetworkOptions,
    trains="network",
    needs=need_networks,
    session=session,
    model=model,
    checks=(),
    scores="joint scores",
    resumable=True,
    pilots=pilots,
    noise=lambda plan: NoiseSummary(
        math.sqrt(plan.sum_variance), "a coordinate of every person's summed embedding"
    ),
    kernel="floats",
)
