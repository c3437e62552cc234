"""What a method is: a way to train a model on the columns of all parties, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.documents import Form
from colonnade.learn.frame import Frame
from colonnade.learn.privacy import Privacy
from colonnade.learn.release import MomentRelease
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.moments_plan import DEFAULT_GAMMA
from colonnade.protocols.plans import Task
from colonnade.protocols.session import RequestFor

if TYPE_CHECKING:
    from colonnade.learn.federation import Federation, Run

Array = NDArray[np.float64]


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


@dataclass(frozen=True, eq=False)
class Learnt:
    """A linear model that a protocol trained.

    `coefficients` has one row, or one for each class, and acts on `frame.features(rows)`; with `intercepts` it gives
    log-odds for classes and the label's own units for numbers. `split` says that the weights stay with their parties:
    only a simulation in one process sees them beside each other; `holder` is who has all of them, where one party does.
    `run` is None for a simulation without a protocol. `figures` are numbers of a paper, which promise nothing.
    """

    frame: Frame
    coefficients: Array
    intercepts: Array
    privacy: Privacy
    run: Run[Any] | None = None
    split: bool = False
    holder: str | None = None
    notes: tuple[str, ...] = ()
    figures: tuple[PaperFigure, ...] = ()


@dataclass(frozen=True)
class Method:
    """A name for the job file, what it can do, and how to do it.

    `public_only` marks simulations that look at everybody's rows in one place: they run on data that every party
    declared public, and nowhere else. `request` is what a protocol's parties compare before they plan, so that a plan
    can be made without a run; a simulation has none.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    options: type[Form]
    train: Callable[[Federation, Asked], Learnt | MomentRelease]
    public_only: bool = False
    request: Callable[[Asked, Alignment], RequestFor[Any]] | None = None


def frame_of(found: MomentRelease | Learnt) -> Frame:
    """How to read people for what was found."""
    if isinstance(found, Learnt):
        return found.frame
    return Frame(found.encoders, found.label, found.attributes)
