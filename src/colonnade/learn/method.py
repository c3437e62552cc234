"""What a method is: a way to train a model on the columns of all parties, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.documents import Form
from colonnade.learn.frame import Frame
from colonnade.learn.privacy import Privacy
from colonnade.learn.release import MomentRelease
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.moments_plan import DEFAULT_GAMMA
from colonnade.protocols.plans import Request, Task

if TYPE_CHECKING:
    from colonnade.learn.federation import Federation, Run

Array = NDArray[np.float64]
LOG_LINK = ("poisson", "gamma")
"""Losses whose models predict exponentials of linear scores."""


def _nothing() -> None:
    """What most methods need beyond the core."""


class NoOptions(Form):
    """A method with nothing to choose."""


@dataclass(frozen=True)
class Asked:
    """What a user wants of a method; `options` are the method's own, in the shape of its form."""

    task: Task
    epsilon: float
    delta: float | None = None
    accepted_delta: float | None = None
    gamma: int = DEFAULT_GAMMA
    options: Form = field(default_factory=NoOptions)


@dataclass(frozen=True, eq=False, kw_only=True)
class Learnt(ABC):
    """A model that a protocol trained: whatever it is made of, it scores people.

    `split` says that the weights stay with their parties: only a simulation in one process sees them beside each
    other; `holder` is who has all of them, where one party does. `run` is None for a simulation without a protocol.
    `figures` are numbers of a paper, which promise nothing.
    """

    frame: Frame
    privacy: Privacy
    run: Run[Any] | None = None
    split: bool = False
    holder: str | None = None
    notes: tuple[str, ...] = ()
    figures: tuple[PaperFigure, ...] = ()

    @abstractmethod
    def scores(self, features: Array) -> Array:
        """What the model says of rows of `frame.features`.

        For classes log-odds or margins, one number for two of them and one for each of more; for a number one
        prediction in the label's own units.
        """


@dataclass(frozen=True, eq=False)
class LearntLinear(Learnt):
    """A linear model: one row of coefficients, or one for each class, on `frame.features`.

    `loss` is what it was trained with, by its name in `colonnade.learn.losses`; empty for the task's own, logistic or
    least squares. Poisson and Gamma models have a log link: there coefficients and intercepts give the logarithm of
    the predicted label.
    """

    coefficients: Array
    intercepts: Array
    loss: str = ""

    def scores(self, features: Array) -> Array:
        """Log-odds or margins of classes, predictions of numbers."""
        found = features @ self.coefficients.T + self.intercepts
        return np.asarray(np.exp(found) if self.loss in LOG_LINK else found)


@dataclass(frozen=True)
class Method:
    """A name for the job file, what it can do, and how to do it.

    `public_only` marks simulations that look at everybody's rows in one place: they run on data that every party
    declared public, and nowhere else. `request` is what a protocol's parties compare before they plan, so that a plan
    can be made without a run; a simulation has none. `trains` says what comes out, which decides the estimator that
    can take it, and `needs` raises an `InputError` where an extra that training needs is not installed.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    options: type[Form]
    train: Callable[[Federation, Asked], Learnt | MomentRelease]
    public_only: bool = False
    request: Callable[[Asked, Alignment], Request[Any]] | None = None
    trains: Literal["linear", "network"] = "linear"
    needs: Callable[[], None] = _nothing


def frame_of(found: MomentRelease | Learnt) -> Frame:
    """How to read people for what was found."""
    if isinstance(found, Learnt):
        return found.frame
    return Frame(found.encoders, found.label, found.attributes)
