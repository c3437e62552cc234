"""Neural networks over several parties, as a method: sums of embeddings, after PBM-VFL.

The table of methods imports this without PyTorch. A plan needs none either; training and scoring do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from colonnade.data.documents import Form
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.forecast.pilots import Axis, Pilot, kept, product
from colonnade.methods.method import Method, Noise, TrainedModel, TrainingSpec, options_of, plan_views
from colonnade.methods.moments.plan import DEFAULT_GAMMA
from colonnade.methods.network.design import Kind
from colonnade.methods.network.extra import need_networks
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.protocol import TrainedEmbeddings
from colonnade.methods.network.request import EmbeddingsRequest
from colonnade.methods.network.spec import NetworkSpec
from colonnade.methods.network.terms import Mechanism, Regime
from colonnade.protocols.alignment import Alignment
from colonnade.runtime.run import Program

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class NetworkOptions(Form):
    """What `NeuralClassifier` takes, but for modules of one's own, which no job file can hold.

    `networks` left out is "random" where networks are frozen, else "dense"; `image` is [channels, height, width] of
    each party's part. ε and δ of the job are for what the label holder learns of one party's part of one record. No
    party's network may have more than `parameters` numbers to learn: noise is accounted for that many.
    """

    regime: Regime = "frozen"
    mechanism: Mechanism = "poisson-binomial"
    networks: Kind | None = None
    image: Annotated[list[Count], Field(min_length=3, max_length=3)] | None = None
    embedding: Count = 16
    trials: Count = 16
    beta: Positive | None = None
    label_epsilon: Positive | None = None
    local_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    epochs: Count = 10
    batch: Count = 100
    learning_rate: Positive = 0.01
    momentum: Share = 0.9
    clip: Positive = 1.0
    held_out: Share = 0.0
    patience: Count = 3
    gradient_bits: Annotated[int, Field(ge=16, le=32)] = 32
    parameters: Count = 1 << 16
    coalitions: list[list[str]] = Field(default_factory=list)
    seed: Annotated[int, Field(ge=0)] = 0


def request(asked: TrainingSpec, alignment: Alignment, public: tuple[str, ...] = ()) -> EmbeddingsRequest:
    """What the parties compare. The paper's regime is for public data, in one process, and nowhere else."""
    options = options_of(asked, NetworkOptions)
    if options.regime == "paper" and not public:
        raise OnlyForPublicData(
            "regime = 'paper' protects nobody end to end: it runs on public data in one process. Use regime = 'frozen' "
            "or 'private-local'."
        )
    return spec_of(asked).request(alignment, options.parameters)


def session(asked: TrainingSpec) -> Program:
    """What each party runs: its module begins alike wherever the others are."""
    need_networks()
    from colonnade.methods.network.training import network_session

    return network_session(spec_of(asked).settings())


def model(asked: TrainingSpec, results: Mapping[str, TrainedEmbeddings]) -> TrainedModel:
    """The parts of those who are here, which stay with their parties."""
    need_networks()
    from colonnade.methods.network.training import network_of

    return network_of(results, spec_of(asked).settings())


def pilots(plan: EmbeddingsPlan) -> tuple[Pilot, ...]:
    """Fewer epochs of fewer batches, learnt from and held out."""
    batch = plan.batch

    def at(epochs: int, train_batches: int, held_out: int) -> EmbeddingsPlan:
        tested = held_out * batch + plan.held_out % batch
        rows = train_batches * batch + plan.train_rows % batch + tested
        return kept(plan, replace(plan, epochs=epochs, rows=rows, held_out=tested))

    epochs = Axis(plan.epochs, 1, 2) if plan.learns_locally else Axis(plan.epochs, plan.epochs, plan.epochs)
    return product([epochs, Axis(plan.train_rows // batch, 8, 32), Axis(plan.held_out // batch, 0, 1)], at)


def noise(plan: EmbeddingsPlan) -> Noise:
    return Noise(math.sqrt(plan.sum_variance), "a coordinate of every person's summed embedding")


def spec_of(asked: TrainingSpec) -> NetworkSpec:
    if asked.gamma != DEFAULT_GAMMA:
        raise PlanError(
            f"gamma = {asked.gamma} is the grid of a moment release, and networks have none. Leave it out."
        )
    options = options_of(asked, NetworkOptions)
    given = options.model_dump(exclude={"image", "coalitions"})
    return NetworkSpec(
        task=asked.task,
        epsilon=asked.epsilon,
        delta=asked.delta,
        accepted_delta=asked.accepted_delta,
        image=None if options.image is None else (options.image[0], options.image[1], options.image[2]),
        coalitions=tuple(tuple(members) for members in options.coalitions),
        **given,
    )


METHOD = Method(
    name="network",
    title="a network over noisy sums of embeddings",
    tasks=("classification", "regression"),
    options=NetworkOptions,
    trains="network",
    needs=need_networks,
    request=request,
    session=session,
    model=model,
    views=plan_views,
    checks=(),
    scores="joint scores",
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="floats",
)
