"""SPCA: principal components from one Skellam release, on grids as coarse as its paper's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from colonnade.data.documents import Form
from colonnade.data.quantizer import Rounding
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.learn.federation import Federation, released
from colonnade.learn.method import Asked, Method
from colonnade.learn.paper_spca import paper_spca
from colonnade.learn.release import MomentRelease
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.moments_plan import DEFAULT_GAMMA
from colonnade.protocols.moments_session import MomentsRequest, moments_session


class SpcaOptions(Form):
    """The grid γ and how rows come onto it.

    `retry` draws a row's rounding again until its norm keeps the bound γ²c² + n that sensitivity is computed from, so
    the grid may be coarse. `calibration = "paper"` simulates the paper's own algorithm on public data.
    """

    gamma: Annotated[int, Field(ge=4)] = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    calibration: Literal["sound", "paper"] = "sound"


def train(federation: Federation, asked: Asked) -> MomentRelease:
    """Release the moments once; in paper mode, what the paper's algorithm would release."""
    options = _options(asked)
    if options.calibration == "paper":
        return paper_spca(federation, asked, gamma=options.gamma)
    return released(federation.run(moments_session, request(asked, federation.alignment)).result())


def request(asked: Asked, alignment: Alignment) -> MomentsRequest:
    """What the parties compare. The paper's own mode is a simulation and asks the parties for nothing."""
    options = _options(asked)
    if options.calibration == "paper":
        raise OnlyForPublicData(
            "calibration = 'paper' simulates the paper's formulas on public data; there is no plan of it."
        )
    return MomentsRequest(
        asked.task,
        asked.epsilon,
        asked.delta,
        asked.accepted_delta,
        options.gamma,
        alignment,
        options.rounding,
    )


def _options(asked: Asked) -> SpcaOptions:
    if not isinstance(asked.options, SpcaOptions):
        raise TypeError(f"spca takes SpcaOptions, not {type(asked.options).__name__}")
    if asked.gamma != DEFAULT_GAMMA:
        raise PlanError(f"gamma = {asked.gamma} of a job; for spca write it under [options].")
    return asked.options


METHOD = Method("spca", "SPCA, Skellam moments", ("pca",), SpcaOptions, train, request=request)
