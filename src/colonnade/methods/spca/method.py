"""SPCA: principal components from one Skellam release, on grids as coarse as its paper's."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from colonnade.data.quantizer import Rounding
from colonnade.data.schema import PublicSchema
from colonnade.federation.federation import Federation
from colonnade.methods.moments.method import METHOD as MOMENTS
from colonnade.methods.moments.plan import MomentsPlan, plan_moments
from colonnade.methods.spca.paper import paper_spca
from colonnade.models.release import MomentRelease
from colonnade.protocols.specs import (
    DEFAULT_GAMMA,
    Options,
    TrainingSpec,
    check_job_gamma,
    options_of,
    refuse_paper_plan,
)
from colonnade.runtime.group import Group


class SpcaOptions(Options):
    """The grid γ and how rows come onto it.

    `retry` draws a row's rounding again until its norm keeps the bound γ²c² + n that sensitivity is computed from, so
    the grid may be coarse. `calibration = "paper"` simulates the paper's own algorithm on public data.
    """

    method = "spca"
    takes_labels = True
    in_shares = True

    gamma: Annotated[int, Field(ge=4)] = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    calibration: Literal["sound", "paper"] = "sound"

    def check(self, spec: TrainingSpec) -> None:
        check_job_gamma(spec, "of a job; for spca write it under [options].")
        refuse_paper_plan(self.calibration)

    def plan(
        self, spec: TrainingSpec, group: Group, schemas: tuple[PublicSchema, ...], rows: int
    ) -> MomentsPlan:
        return plan_moments(spec, group, schemas, rows, gamma=self.gamma, rounding=self.rounding)


def as_in_the_paper(federation: Federation, spec: TrainingSpec) -> MomentRelease:
    """What the paper's algorithm would release, of public data."""
    check_job_gamma(spec, "of a job; for spca write it under [options].")
    return paper_spca(federation, spec, gamma=options_of(spec, SpcaOptions).gamma)


METHOD = replace(
    MOMENTS,
    name="spca",
    title="SPCA, Skellam moments",
    tasks=("pca",),
    options=SpcaOptions,
    scores=None,
    paper=as_in_the_paper,
)
