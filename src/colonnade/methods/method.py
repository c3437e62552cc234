"""What a method is: a way to train a model on the columns of all parties, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.documents import Form
from colonnade.data.labels import LabelBlock
from colonnade.errors import LocalProtocolError
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.models.release import MomentRelease
from colonnade.privacy.paper import PaperFigure
from colonnade.protocols.plans import Task, TrainingSpec, check_one_label
from colonnade.randomness import Randomness
from colonnade.runtime.run import Program

if TYPE_CHECKING:
    from colonnade.data.table import Table
    from colonnade.federation.federation import Federation, Run
    from colonnade.planning.cost import Pilot

Array = NDArray[np.float64]
LOG_LINK = ("poisson", "gamma")
"""Losses whose models predict exponentials of linear scores."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedModel(ABC):
    """A model that a protocol trained: whatever it is made of, it scores people.

    `split` says that the weights stay with their parties: only a simulation in one process sees them all. `holder` is
    who has all of them, where one party does. `run` is None for a simulation without a protocol. `figures` promise
    nothing.
    """

    frame: InputSpec
    privacy: Privacy
    run: Run[Any] | None = None
    split: bool = False
    holder: str | None = None
    notes: tuple[str, ...] = ()
    figures: tuple[PaperFigure, ...] = ()

    @abstractmethod
    def scores(self, features: Array) -> Array:
        """For classes log-odds or margins, one of two and one each of more; for a number its own units."""


@dataclass(frozen=True, eq=False)
class LinearModel(TrainedModel):
    """One row of coefficients, or one for each class, on `frame.features`; with a log link logarithms.

    `loss` is empty for the task's own, logistic or least squares. `counts` are people by class where training opened
    them, with their noise, and none below twice that.
    """

    coefficients: Array
    intercepts: Array
    loss: str = ""
    counts: Array | None = None

    def scores(self, features: Array) -> Array:
        scores = features @ self.coefficients.T + self.intercepts
        return np.asarray(np.exp(scores) if self.loss in LOG_LINK else scores)


def in_label_units(label: LabelBlock, coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
    """Log-odds as they are; a linear model of a number scaled to [−1, 1] in the label's own units."""
    if label.one_hot:
        return coefficients, intercepts
    low, high = label.from_unit([-1.0, 1.0])
    return coefficients * ((high - low) / 2.0), label.from_unit(intercepts)


TrainingResult = TrainedModel | MomentRelease
Kernel = Literal["products", "draws", "powers", "floats"]
"""What a protocol can spend most of its time in: products in a field, draws of noise, powers modulo n, floats."""

Scores = Literal["released weights", "joint scores"]
"""What a model can be evaluated by on private people: weights that everybody has, or sums with noise for one party."""


@dataclass(frozen=True)
class NoiseSummary:
    """The largest deviation of what a plan adds, and to what; with fewer than `people` nothing can be learnt."""

    deviation: float
    on: str
    people: int = 2

    def __str__(self) -> str:
        return f"{self.deviation:.3g} on {self.on}"


@dataclass(frozen=True, kw_only=True)
class AnyMethod(ABC):
    """A way to train that has a name: by a protocol between parties, or as a simulation for comparison.

    `trains` decides the estimator that can take it; `needs` raises an `InputError` where an extra is not installed;
    `public_only` runs only on data that every party declared public.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    options: type[Form]
    trains: Literal["linear", "network"] = "linear"
    needs: Callable[[], None] = lambda: None
    has_epsilon: bool = True
    public_only: bool = False

    @abstractmethod
    def train(self, federation: Federation, spec: TrainingSpec) -> TrainingResult:
        """What was asked for, of all parties in this process."""


@dataclass(frozen=True, kw_only=True)
class Baseline(AnyMethod):
    """A simulation for comparison, in one process: it has no protocol, and most see all rows in one place."""

    simulate: Callable[[Federation, TrainingSpec], TrainingResult]
    public_only: bool = True

    def train(self, federation: Federation, spec: TrainingSpec) -> TrainingResult:
        check_one_label([table.public() for table in federation.tables.values()], self.name)
        return self.simulate(federation, spec)


@dataclass(frozen=True, kw_only=True)
class Method(AnyMethod):
    """The contract: everything that a job, a site, a forecast and a report ask of a way to train between parties.

    Nothing that only a method can say has a default. `model` takes what the members who are present came away with, all
    in one process, one at a site, and returns what is known there: a release, a model, the parts of one that lie there;
    None where a release reached nobody. `checks` are what owners prove about what they deal and `scores` what a model
    is evaluated by on private people, None where no guarantee covers that. A run of many steps is `resumable`. `pilots`
    are short runs of which a plan is the weighted sum, `kernel` what it spends most of its time in. `twin` learns what
    the protocol would from the randomness it is given, and `paper` simulates the paper's own calibration on public
    data.
    """

    session: Callable[[TrainingSpec], Program]
    model: Callable[[TrainingSpec, Mapping[str, Any]], TrainingResult | None]
    checks: tuple[str, ...]
    scores: Scores | None
    resumable: bool
    pilots: Callable[[Any], tuple[Pilot, ...]]
    noise: Callable[[Any], NoiseSummary | None]
    kernel: Kernel
    twin: Callable[[Any, Mapping[str, Table], Randomness], TrainingResult] | None = None
    paper: Callable[[Federation, TrainingSpec], TrainingResult] | None = None

    def train(self, federation: Federation, spec: TrainingSpec) -> TrainingResult:
        """Run the protocol between all parties in this process; in the paper's own mode, simulate it."""
        if not isinstance(spec.options, self.options):
            raise TypeError(f"{self.name} takes {self.options.__name__}, not {type(spec.options).__name__}")
        if self.paper is not None and getattr(spec.options, "calibration", "") == "paper":
            return self.paper(federation, spec)
        public = federation.group.owners if federation.public else ()
        spec = replace(spec, alignment=federation.alignment, public=public)
        run = federation.run(self.session(spec), spec)
        result = self.model(spec, run.outcome.results)
        if result is None:
            raise LocalProtocolError(f"method {self.name!r} left nothing with anybody")
        return replace(result, run=run) if isinstance(result, TrainedModel) else result


def frame_of(result: TrainingResult) -> InputSpec:
    if isinstance(result, TrainedModel):
        return result.frame
    # A model reads a label as it would if it were the only one.
    return InputSpec(result.encoders, LabelBlock(result.label.label), result.attributes)
