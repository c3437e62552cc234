"""SPCA: principal components from one Skellam release, on grids as coarse as its paper's."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from colonnade.data.documents import Form
from colonnade.data.quantizer import Rounding
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.federation.federation import Federation
from colonnade.methods.method import TrainingSpec, options_of
from colonnade.methods.moments.method import METHOD as MOMENTS
from colonnade.methods.moments.plan import DEFAULT_GAMMA
from colonnade.methods.moments.request import MomentsRequest
from colonnade.methods.spca.paper import paper_spca
from colonnade.models.release import MomentRelease
from colonnade.protocols.alignment import Alignment


class SpcaOptions(Form):
    """The grid γ and how rows come onto it.

    `retry` draws a row's rounding again until its norm keeps the bound γ²c² + n that sensitivity is computed from, so
    the grid may be coarse. `calibration = "paper"` simulates the paper's own algorithm on public data.
    """

    gamma: Annotated[int, Field(ge=4)] = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    calibration: Literal["sound", "paper"] = "sound"


def request(asked: TrainingSpec, alignment: Alignment, _public: tuple[str, ...] = ()) -> MomentsRequest:
    """What the parties compare. The paper's own mode is a simulation and asks the parties for nothing."""
    options = _options(asked)
    if options.calibration == "paper":
        raise OnlyForPublicData(
            "calibration = 'paper' simulates the paper's formulas on public data; there is no plan of it."
        )
    return MomentsRequest(
        asked.task,
        gamma=options.gamma,
        rounding=options.rounding,
        verify=asked.verify,
        **asked.target(alignment),
    )


def as_in_the_paper(federation: Federation, asked: TrainingSpec) -> MomentRelease:
    """What the paper's algorithm would release, of public data."""
    return paper_spca(federation, asked, gamma=_options(asked).gamma)


def _options(asked: TrainingSpec) -> SpcaOptions:
    options = options_of(asked, SpcaOptions)
    if asked.gamma != DEFAULT_GAMMA:
        raise PlanError(f"gamma = {asked.gamma} of a job; for spca write it under [options].")
    return options


METHOD = replace(
    MOMENTS,
    name="spca",
    title="SPCA, Skellam moments",
    tasks=("pca",),
    options=SpcaOptions,
    request=request,
    scores=None,
    paper=as_in_the_paper,
)
