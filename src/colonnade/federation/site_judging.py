"""Judging at one site, right after training and over the same channel: every member judges what all came away with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from colonnade.data.table import Table
from colonnade.errors import ColonnadeError, PlanError
from colonnade.federation.federation import Run
from colonnade.federation.job import Job
from colonnade.federation.train import result_at
from colonnade.methods.network.model import NetworkModel
from colonnade.methods.network.network_file import NetworkFile
from colonnade.protocols.joint_scores import ScoresSpec, scores_session
from colonnade.protocols.judging import judge_session
from colonnade.protocols.parts import PartSpec
from colonnade.runtime.party import Accountant, Party
from colonnade.runtime.run import Outcome, reason_for_peers
from colonnade.scoring.evaluating import Judged, Judging, with_label_of
from colonnade.scoring.judged_training import NOT_JUDGED, holders_part, judging_of_trained
from colonnade.scoring.network_judged import NetworkJudged, judged_scores, scores_within


def check_readers(job: Job) -> None:
    """Refuse to hold people out, before anybody is met, where a member could not take part in judging on them."""
    group = job.group()
    apart = [name for name in group.members if name not in (*group.owners, group.server)]
    if job.held_out is not None and apart:
        raise PlanError(
            f"held_out: people are held out to judge the model on, but keepers without columns "
            f"({', '.join(apart)}) do not read the model, and could not take part between machines. Nothing was run or "
            "charged. Leave held_out out, train in one process, or take keepers among the parties and the server."
        )


async def judge_at_site(
    party: Party,
    table: Table | None,
    job: Job,
    run: Run[Any],
    *,
    part: PartSpec,
    accountant: Accountant,
    asks: Callable[[Any, bool], None] | None,
) -> Judged | NetworkJudged | str:
    """The judgement as this member reads it, or why there is none; what was trained is good either way.

    Whether there is one follows from the job, the plan and the model, which all members share, so that all of them
    begin it or none does.
    """
    result = result_at(job, run)
    if result is None or isinstance(result, ColonnadeError):
        return NOT_JUDGED.format(reason="nothing was learnt.")
    judging: Judging | NetworkScores | str
    if isinstance(result, NetworkModel):
        judging = _network_scores(job, result, run)
    else:
        judging = judging_of_trained(job, result, run, alignment=job.alignment)
    if isinstance(judging, str):
        return judging
    # Whoever had to approve the job has: a judgement must cost no more, which `asks` sees to.
    judge = replace(
        party,
        ledger=accountant,
        part=part,
        asks=asks,
        aligned=None,
        approves=None,
        run="",
        seeded=False,
        opened=set(),
    )
    try:
        return await _judged(judge, table, judging)
    except ColonnadeError as error:
        # What was trained is paid for and good; peers are told, and end too.
        party.channel.stop(reason_for_peers(error))
        return NOT_JUDGED.format(reason=reason_for_peers(error))


async def _judged(
    judge: Party, table: Table | None, judging: Judging | NetworkScores
) -> Judged | NetworkJudged:
    if isinstance(judging, NetworkScores):
        network = judging.model.network
        scored = await scores_session(
            judge, table, judging.request, network.part(judge.name).terms().get(judge.name)
        )
        scores = Run(scored.plan, Outcome({judge.name: scored}, {judge.name: judge.traffic}))
        return judged_scores(scores, scored, network, judging.reads)
    labelled = None if table is None else with_label_of(judging.model.frame, table)
    opened = await judge_session(judge, labelled, judging.request, judging.terms.get(judge.name))
    run = Run(opened.plan, Outcome({judge.name: opened}, {judge.name: judge.traffic}))
    return Judged(judging.read(opened), run)


@dataclass(frozen=True, eq=False)
class NetworkScores:
    """What is asked to judge a network by, its parts that are here, and how scores are read where they are."""

    request: ScoresSpec
    model: NetworkModel
    reads: NetworkFile | None


def _network_scores(job: Job, model: NetworkModel, run: Run[Any]) -> NetworkScores | str:
    try:
        request = scores_within(model.network.design, run.plan, alignment=job.alignment)
    except ColonnadeError as error:
        return NOT_JUDGED.format(reason=error)
    return NetworkScores(request, model, holders_part(job, model, run))
