"""Everything the parties agree on before a network is trained on sums of embeddings."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.crypto.masks import SumRing
from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock
from colonnade.errors import NotInstalled, OnlyForPublicData, PlanError, PrivacyError
from colonnade.ledger import LedgerLine
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.privacy.calibrate import calibrate, calibrate_poisson_binomial
from colonnade.privacy.events import Approximated, Composed, Event, PerStep, PoissonBinomial, Repeated
from colonnade.privacy.guarantee import AccountedCost, Guarantee, View, account, check_claim
from colonnade.privacy.observers import Coalition, ColumnsOf, Observer, OthersPart, PartOf, PartyView, Server
from colonnade.privacy.paper import local_variance
from colonnade.privacy.sensitivity.matrix import root_up
from colonnade.protocols import plans
from colonnade.protocols.agreement import digest
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.randomness import public_permutation
from colonnade.runtime.party import Group

BOUND = 1
"""C: no coordinate of an embedding is larger."""
# Embeddings of the local baseline and clipped gradients are integers on grids this fine.
EMBEDDING_GRID = 1 << 12
GRADIENT_GRID = 1 << 16

Regime = Literal["frozen", "private-local", "paper"]
Mechanism = Literal["poisson-binomial", "local-gaussian", "none"]
Kind = Literal["random", "dense", "convolutional", "resnet18"]
Indices = NDArray[np.int64]


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

    task: plans.Task
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
        design = cls(**{**data, "image": None if image is None else tuple(image)})
        known = (*get_args(Kind), OWN)
        if design.networks not in known or design.fusion not in ("linear", OWN):
            raise ValueError(f"networks of kind {design.networks!r} with a fusion of kind {design.fusion!r}")
        if design.regime not in get_args(Regime) or design.task not in ("classification", "regression"):
            raise ValueError(f"a network of regime {design.regime!r} for {design.task!r}")
        return design


@dataclass(frozen=True)
class Batch:
    """Some rows of one epoch: `held_out` ones are looked at and never learnt from."""

    step: int
    rows: Indices
    held_out: bool


def _about_all(
    plan: NetworkPlan, observer: Observer, known: Collection[str], assumption: str
) -> Iterator[View]:
    hidden = [party for party in plan.contributors if party not in known]
    subjects = hidden + ([] if plan.receiver in known or plan.receiver in hidden else [plan.receiver])
    announced = "" if plan.options.mechanism == "poisson-binomial" else "; embeddings are sent one by one"
    for party in subjects:
        if event := _event(plan, known, (party,)):
            yield View(observer, PartOf(party), event, assumption + announced)
    # Also where one party is all the others: accounts of whole records must not miss this run.
    if subjects and (event := _event(plan, known, tuple(subjects))):
        yield View(observer, OthersPart(), event, assumption + announced)
    for party in hidden:
        # The label is a column too, and no statement covers all labels.
        if party != plan.receiver and (event := _event(plan, known, (party,), rows=plan.rows)):
            yield View(observer, ColumnsOf(party), event, assumption + announced)


def _event(
    plan: NetworkPlan, known: Collection[str], changed: tuple[str, ...], *, rows: int = 1
) -> Event | None:
    moving = [party for party in changed if party in plan.contributors]
    parts: list[Event] = []
    if moving:
        parts.append(embedding_event(plan, known=known, changed=len(moving), rows=rows))
        if plan.update_noise is not None:
            parts += [update_event(plan, rows=rows)] * len(moving)
    labels = plan.receiver in changed and plan.learns_locally and rows == 1
    if labels:
        if plan.label_noise is None:
            # The returned gradient shows labels: there is no event to charge, and nothing is claimed.
            return None
        parts.append(label_event(plan))
    return None if not parts else parts[0] if len(parts) == 1 else Composed(tuple(parts))


def embedding_event(plan: NetworkPlan, *, known: Collection[str], changed: int = 1, rows: int = 1) -> Event:
    """The embeddings of one record, or of all, over all passes: P coordinates of each."""
    times = plan.passes * rows
    if plan.options.mechanism == "local-gaussian":
        extent = root_up(4 * EMBEDDING_GRID**2 * plan.options.embedding)
        # Each changed party sends a vector of its own.
        steps = PerStep((extent,) * (plan.passes * changed), plan.local_variance)
        draws = plan.rows * plan.passes * plan.options.embedding * len(plan.contributors)
        return Approximated(steps if rows == 1 else Repeated(steps, rows), draws=draws)
    hiding = len([party for party in plan.contributors if party not in known])
    leaf = PoissonBinomial(hiding, plan.options.trials, plan.beta, changed)
    return Repeated(leaf, times * plan.options.embedding)


def update_event(plan: NetworkPlan, *, rows: int = 1) -> Event:
    """The steps of one local network: a record is in one batch of each pass, and moves its clipped sum by 2c."""
    extent, steps = 2 * GRADIENT_GRID, plan.passes
    if rows > 1:
        extent, steps = extent * plan.batch, plan.steps
    return Approximated(
        PerStep((extent,) * steps, plan.update_variance), draws=max(1, plan.options.parameters * plan.steps)
    )


def label_event(plan: NetworkPlan) -> Event:
    """One label, randomised once: everything that leaves its holder afterwards is computed from the result."""
    leaf = PoissonBinomial(1, plan.label_trials, plan.label_beta)
    return leaf if plan.label_coordinates == 1 else Repeated(leaf, plan.label_coordinates)


@lru_cache(maxsize=256)
def cost_of(event: Event, delta: float) -> AccountedCost:
    try:
        return account(event, delta)
    except PrivacyError:
        # So large that not even the samplers' distance from their laws fits into δ.
        return AccountedCost(math.inf, delta, "no bound at this δ")


# A step's counts, words and gradients are held at once by every party, and a gradient travels in one frame.
MOST_VALUES = 1 << 24
LARGEST_TRIALS = 1 << 12
LARGEST_PAPER_BETA = 0.25
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class NetworkOptions(plans.Options):
    """What `NeuralClassifier` takes, but for modules of one's own, which no job file can hold.

    ε and δ of the job are for what the label holder learns of one party's part of one record. `networks` left out is
    "random" where networks are frozen, else "dense"; `image` is [channels, height, width] of each party's part; `beta`
    is given in the paper's regime alone. `label_epsilon` is what fellow parties may learn about a label: left out, ε in
    the private-local regime and no bound in the paper's. `local_share` is the part of ε that embeddings get; `held_out`
    records are looked at by early stopping alone and charged like the others; noise is accounted for `parameters`
    numbers.
    """

    method = "network"

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

    def check(self, spec: plans.TrainingSpec) -> None:
        plans.check_job_gamma(spec, "is the grid of a moment release, and networks have none. Leave it out.")
        if self.regime == "paper" and not spec.public:
            raise OnlyForPublicData(
                "regime = 'paper' protects nobody end to end: it runs on public data in one process. Use regime = "
                "'frozen' or 'private-local'."
            )
        _check_values(self)
        _check_noise(self)

    def plan(self, spec: plans.TrainingSpec, group: Group, schemas: plans.Schemas, rows: int) -> NetworkPlan:
        """ε is kept for what the label holder learns of one part of one record; the paper's regime promises nothing."""
        if spec.task not in ("classification", "regression"):
            raise PlanError(f"networks learn classification or regression, not {spec.task!r}.")
        plans.check_parties(group, schemas, spec.task)
        for members in self.coalitions:
            if len(set(members)) < 2 or set(members) - set(group.owners):
                raise PlanError(
                    f"a coalition is two owners or more of {', '.join(group.owners)}, not {', '.join(members)}."
                )
        private = self.regime != "paper" and self.mechanism != "none"
        delta = plans.checked_delta(spec.epsilon if private else 1.0, spec.delta, spec.accepted_delta, rows)
        held_out = int(self.held_out * rows)
        if rows - held_out < 1:
            raise PlanError(
                f"held_out = {self.held_out:g} of {rows} records leaves none to learn from. Hold out fewer."
            )
        given = self.beta if self.regime == "paper" else None
        terms = plans.Agreed(spec=spec, group=group, rows=rows, schemas=schemas, delta=delta)
        beta, batch = Fraction(str(given or 0)), min(self.batch, rows - held_out)
        plan = NetworkPlan(beta=beta, batch=batch, held_out=held_out, **terms)
        if not plan.taught:
            raise PlanError(
                "an embedding is summed over at least one party beside the label holder; none declares a column."
            )
        if self.mechanism == "poisson-binomial" and len(plan.contributors) < 2:
            raise PlanError(
                f"{plan.taught[0]} alone declares columns, so that a sum of embeddings is its embedding. A secure sum "
                "needs two contributors or more; give the label holder columns too."
            )
        return plan if self.mechanism == "none" else _with_noise(plan)


@dataclass(frozen=True, kw_only=True)
class NetworkPlan(plans.TrainingPlan):
    """Made by `NetworkOptions`; batches follow public permutations.

    `local_variance` is σ² of the local baseline in units of its grid; `update_variance` that of the clipped sums that
    local networks learn from; `label_trials` and `label_beta` are 0 where nothing computed from labels leaves.
    """

    beta: Fraction
    batch: int
    held_out: int
    local_variance: Fraction = Fraction(0)
    update_variance: Fraction = Fraction(0)
    label_trials: int = 0
    label_beta: Fraction = Fraction(0)

    charged_as = "network"
    published = False

    @property
    def options(self) -> NetworkOptions:
        return plans.options_of(self.spec, NetworkOptions)

    @property
    def receiver(self) -> str:
        return self.group.active or ""

    @cached_property
    def contributors(self) -> tuple[str, ...]:
        """The owners of at least one column, in order; M of them."""
        return tuple(schema.party for schema in self.schemas if schema.columns)

    @property
    def taught(self) -> tuple[str, ...]:
        return tuple(party for party in self.contributors if party != self.receiver)

    @property
    def hiding(self) -> int:
        return len(self.taught)

    @property
    def sum_variance(self) -> float:
        """At most; where nothing goes back the label holder knows its own counts and embedding."""
        noisy = len(self.contributors) if self.learns_locally else self.hiding
        if self.options.mechanism == "poisson-binomial":
            return float(noisy * BOUND**2 / (4 * self.options.trials * self.beta**2))
        return noisy * float(self.local_variance) * (BOUND / EMBEDDING_GRID) ** 2

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        return {schema.party: schema.encoder("linear") for schema in self.schemas if schema.columns}

    @cached_property
    def label(self) -> LabelBlock:
        return LabelBlock(next(schema.label for schema in self.schemas if schema.label is not None))

    @property
    def learns_locally(self) -> bool:
        return self.options.regime != "frozen"

    @property
    def passes(self) -> int:
        return self.options.epochs if self.learns_locally else 1

    @cached_property
    def noise(self) -> PoissonBinomialNoise | None:
        if self.options.mechanism != "poisson-binomial":
            return None
        return PoissonBinomialNoise(self.options.trials, self.beta, Fraction(BOUND))

    @cached_property
    def local_noise(self) -> DiscreteGaussianNoise | None:
        used = self.options.mechanism == "local-gaussian" and self.local_variance
        return DiscreteGaussianNoise(self.local_variance) if used else None

    @cached_property
    def update_noise(self) -> DiscreteGaussianNoise | None:
        """What is added to the clipped sum of gradients before a local network learns from it."""
        return DiscreteGaussianNoise(self.update_variance) if self.update_variance else None

    @cached_property
    def label_noise(self) -> PoissonBinomialNoise | None:
        """How labels are randomised before anything that leaves is computed from them."""
        if not self.label_trials:
            return None
        return PoissonBinomialNoise(self.label_trials, self.label_beta, Fraction(1))

    @property
    def label_coordinates(self) -> int:
        return 2 if len(self.label.classes) > 2 else 1

    @cached_property
    def ring(self) -> SumRing:
        return SumRing(parties=len(self.contributors), largest=self.options.trials)

    @property
    def train_rows(self) -> int:
        return self.rows - self.held_out

    @property
    def steps_in_epoch(self) -> int:
        return -(-self.train_rows // self.batch) + -(-self.held_out // self.batch)

    @property
    def steps(self) -> int:
        return self.passes * self.steps_in_epoch

    def batches(self, epoch: int) -> Iterator[Batch]:
        split = public_permutation(self.rows, self.options.seed)
        train, looked_at = split[: self.train_rows], split[self.train_rows :]
        # The place of the epoch in the seed's sequence; only its being public and agreed matters.
        train = train[public_permutation(len(train), self.options.seed + (epoch + 1) * 1_000_003)]
        step = epoch * self.steps_in_epoch
        for rows, held_out in ((train, False), (looked_at, True)):
            for start in range(0, len(rows), self.batch):
                yield Batch(step, rows[start : start + self.batch], held_out)
                step += 1

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The label holder's views, each fellow party's, and those of the coalitions that the plan names.

        The label holder is listed as "server", which is what PBM-VFL calls it, and as the party that a ledger adds up
        for.
        """
        if self.options.mechanism == "none":
            return ()
        holder, views = self.receiver, list[View]()
        role = f"it is {holder}, which holds the label and runs the fusion model, and it colludes with nobody"
        alone = f"it colludes with nobody (its own counts it knows){UNCHECKED}"
        for observer, assumption in ((Server(), f"{role}{UNCHECKED}"), (PartyView(holder), alone)):
            views += _about_all(self, observer, {holder}, assumption)
        for party in self.taught if self.learns_locally else ():
            views += _about_all(self, PartyView(party), {party}, alone)
        for members in self.options.coalitions:
            if self.learns_locally or holder in members:
                pooled = f"it pools everything its members see{UNCHECKED}"
                views += _about_all(self, Coalition(tuple(members)), set(members), pooled)
        return tuple(views)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        statements = []
        for view in self.views if self.options.regime != "paper" else ():
            check_claim(view.event, observer=view.observer, unit=view.unit)
            cost = cost_of(view.event, self.delta)
            statements.append(
                Guarantee(view.observer, view.unit, cost.epsilon, cost.delta, view.assumption, cost.method)
            )
        return tuple(statements)

    @property
    def statement(self) -> str:
        labels = "the returned gradient shows labels to every party"
        if self.label_noise is not None:
            labels = "gradients are computed from randomised labels"
        return {
            "frozen": "frozen: local networks are public or random, only the fusion model learns, and nothing is sent "
            "back. What is stated holds end to end. Labels do not leave their holder.",
            "private-local": "private-local: local networks learn with clipped and noised steps, and gradients are "
            "computed from randomised labels. What is stated holds end to end.",
            "paper": "paper: per-embedding release, not end to end. Local networks learn from exact gradients, so that "
            f"a record also acts on every later embedding, and {labels}. "
            "Public data only; paper formula, not a guarantee.",
        }[self.options.regime]

    @property
    def what(self) -> str:
        times = f"{self.passes} time(s) a record"
        return f"sums of {self.options.embedding} embedding coordinates, {times} ({self.options.regime})"

    @property
    def shown_to(self) -> tuple[str, ...]:
        return self.group.owners if self.learns_locally else (self.receiver,)

    @property
    def is_published(self) -> bool:
        """How many epochs were run is told to everybody, and held-out people decide it where networks learn."""
        return self.learns_locally and self.held_out > 0

    def receiver_for(self, party: str) -> str:
        return self.receiver

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        """Its own part and whole records, to everyone but itself; in the paper's regime nothing is claimed.

        The label holder is charged as the party that it is: the server of a run sees nothing. Whole columns are stated
        and not charged: no release hides them, and no account is kept for them.
        """
        if self.options.regime == "paper":
            return ()
        views = [view for view in self.views if view.observer != Server()]
        return plans.lines_about(party, (view for view in views if not isinstance(view.unit, ColumnsOf)))

    def own_data(self) -> dict[str, Any]:
        first = next(self.batches(0)).rows
        return {
            "bound": BOUND,
            "beta": str(self.beta),
            "local_variance": str(self.local_variance),
            "update_variance": str(self.update_variance),
            "label_trials": self.label_trials,
            "label_beta": str(self.label_beta),
            "batch": self.batch,
            "held_out": self.held_out,
            "first_batch": digest([int(row) for row in first]),
        }


def _with_noise(blank: NetworkPlan) -> NetworkPlan:
    plan, options = blank, blank.options
    if options.regime == "paper":
        if options.label_epsilon is not None:
            plan = _with_label_noise(plan, options.label_epsilon)
        if options.mechanism == "poisson-binomial":
            return plan
        figure = local_variance(
            contributors=len(plan.contributors), trials=options.trials, beta=float(plan.beta)
        )
        grid = Fraction(EMBEDDING_GRID, BOUND) ** 2
        return replace(plan, local_variance=Fraction(str(figure.value)).limit_denominator(10**9) * grid)
    local = plan.learns_locally
    target = plan.spec.epsilon * options.local_share if local else plan.spec.epsilon
    if options.mechanism == "poisson-binomial":
        event = calibrate_poisson_binomial(
            plan.hiding,
            trials=(options.trials,),
            times=plan.passes * options.embedding,
            epsilon=target,
            delta=plan.delta,
        )
        plan = replace(plan, beta=Fraction(event.beta))
    else:
        variance = calibrate(
            lambda value: embedding_event(replace(blank, local_variance=value), known={blank.receiver}),
            epsilon=target,
            delta=blank.delta,
        )
        plan = replace(blank, local_variance=variance)
    if not local:
        return plan
    embeddings = embedding_event(plan, known={plan.receiver})
    variance = calibrate(
        lambda value: Composed((embeddings, update_event(replace(blank, update_variance=value)))),
        epsilon=plan.spec.epsilon,
        delta=plan.delta,
        digits=4,
    )
    labels = plan.spec.epsilon if options.label_epsilon is None else options.label_epsilon
    plan = _with_label_noise(replace(plan, update_variance=variance), labels)
    for view in plan.views:
        if view.unit == OthersPart() and math.isinf(cost_of(view.event, plan.delta).epsilon):
            raise PlanError(
                f"at ε = {plan.spec.epsilon:g} for one party's part, {view.observer.name} would learn so much about "
                "whole records that nothing can be stated about them. Choose a smaller ε, fewer coordinates or "
                "epochs, or a smaller local_share."
            )
    return plan


def _with_label_noise(plan: NetworkPlan, epsilon: float) -> NetworkPlan:
    """One coin, whose faces differ by at most e^ε between any two values: β = tanh(ε/2)/2, rounded down.

    It is also the best count for one number at the ε that labels are given: more trials at the same ε have a smaller
    bβ².
    """
    grid, each = 10**6, epsilon / plan.label_coordinates
    faces = max(1, min(math.floor(grid * math.tanh(each / 2) / 2), grid // 2 - 1))
    return replace(plan, label_trials=1, label_beta=Fraction(faces, grid))


def _check_values(options: NetworkOptions) -> None:
    for name, kinds in (("regime", Regime), ("mechanism", Mechanism)):
        if getattr(options, name) not in get_args(kinds):
            raise PlanError(
                f"{name} = {getattr(options, name)!r} is not one of {', '.join(get_args(kinds))}."
            )
    for name in ("embedding", "trials", "batch", "epochs", "parameters"):
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise PlanError(f"{name} = {value!r} is not a whole number from 1.")
    if options.trials > LARGEST_TRIALS:
        raise PlanError(f"trials = {options.trials}: b is from 1 to {LARGEST_TRIALS}. Try 16.")
    if options.gradient_bits not in (16, 32):
        raise PlanError(f"gradient_bits = {options.gradient_bits!r}: a gradient travels in 16 or 32 bits.")
    if not 0 <= options.held_out < 1:
        raise PlanError(f"held_out = {options.held_out!r} is a share of the records from 0 to below 1.")
    if not (math.isfinite(options.clip) and options.clip > 0):
        raise PlanError(f"clip = {options.clip!r} is not a positive number.")
    values = options.batch * options.embedding
    if values > MOST_VALUES:
        raise PlanError(
            f"batches of {options.batch} records with {options.embedding} coordinates are {values} values a step; "
            f"{MOST_VALUES} fit. Use batches of at most {max(1, MOST_VALUES // options.embedding)}."
        )


def _check_noise(options: NetworkOptions) -> None:
    paper = options.regime == "paper"
    labels = options.label_epsilon
    if labels is not None and not (math.isfinite(labels) and labels > 0):
        raise PlanError(f"label_epsilon = {labels!r} is not a positive number.")
    if options.mechanism == "none" and not paper:
        raise PlanError(
            "mechanism 'none' sends embeddings as they are. It is a baseline for public data: use regime 'paper'."
        )
    if paper:
        given = options.beta
        if options.mechanism != "none" and (given is None or not 0 < given <= LARGEST_PAPER_BETA):
            raise PlanError(
                f"beta = {given!r}: the paper's regime takes β from above 0 to 1/4, and b = trials, as given."
            )
        return
    if options.beta is not None:
        raise PlanError(
            f"beta = {options.beta!r}: regime {options.regime!r} calibrates β to ε. Leave it out, or use 'paper'."
        )
    if not 0 < options.local_share < 1:
        raise PlanError(f"local_share = {options.local_share!r} is a share of ε between 0 and 1.")
