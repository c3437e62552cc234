"""Judge what a job trained on the people that it held out, at no further cost to anybody but for whole columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from colonnade.errors import ColonnadeError, PlanError
from colonnade.federation.federation import Federation, Run
from colonnade.federation.job import Job
from colonnade.federation.train import Trained, model_for, protocol_of, worth_its_charge
from colonnade.methods.method import TrainingResult
from colonnade.methods.network.model import NetworkModel
from colonnade.methods.network.network_file import NetworkFile, network_parts
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.models.class_weights import rule_of
from colonnade.models.files.linear_file import model_file
from colonnade.models.logistic import LogisticRegression
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Plan
from colonnade.scoring.evaluating import (
    Judged,
    Judging,
    check_held_out,
    check_model,
    judge_jointly,
    judging_of,
    limits_of,
)
from colonnade.scoring.figures import error_text, figure_text
from colonnade.scoring.judgement import Judgement
from colonnade.scoring.network_judged import NetworkJudged, judge_network, scores_within

NOT_JUDGED = "The model was not judged on the people held out: {reason}"
AnyJudged = Judged | NetworkJudged | str | None
"""How good a model is, who may know it of a network, or why it is not known; None where nobody was held out."""


def judging_text(job: Job) -> str:
    """How those are used whom a job holds out, and who will know what comes of it, before it is run."""
    if job.held_out is None:
        return ""
    if protocol_of(job).scores == "released weights":
        return "The model is judged on them. That adds to no total but about whole columns."
    return (
        "The network is judged on them by scores with noise, which only the label holder sees: the figures are its own "
        "and on its own page. That adds to no total but about whole columns."
    )


def worth_training(job: Job) -> Callable[[Plan, bool], None]:
    """What refuses a plan of a job, before anything is charged: too few people to learn from, or to judge on."""
    worthwhile = worth_its_charge(job)

    def ask(plan: Plan, counts: bool) -> None:
        worthwhile(plan, counts)
        if counts and job.held_out is not None and protocol_of(job).scores == "released weights":
            check_held_out(plan, job.held_out, epsilon=job.epsilon)
        if job.held_out is not None and isinstance(plan, EmbeddingsPlan) and plan.options.coalitions:
            raise PlanError(
                "held_out: people are held out to judge the network on by scores with noise, and no statement covers "
                "what the coalitions of [options] would learn of those together. Nothing was charged. Leave held_out "
                "or coalitions out."
            )

    return ask


def judge_trained(
    job: Job, federation: Federation, result: TrainingResult | ColonnadeError, run: Run[Any]
) -> AnyJudged:
    """The judgement of what was trained, or why there is none; None for a job that holds nobody out.

    Its noise is such that no total grows by it: the people held out lose at most what those trained on did.
    """
    if job.held_out is None or isinstance(result, ColonnadeError):
        return None
    if isinstance(result, NetworkModel):
        return _judge_network(job, federation, result, run)
    judging = judging_of_trained(job, result, run, alignment=federation.alignment)
    if isinstance(judging, str):
        return judging
    try:
        return judge_jointly(
            federation,
            judging.model,
            epsilon=judging.request.epsilon,
            delta=judging.request.delta,
            accepted_delta=judging.request.accepted_delta,
            limits=judging.request.limits,
        )
    except ColonnadeError as error:
        return NOT_JUDGED.format(reason=error)


def _judge_network(
    job: Job, federation: Federation, model: NetworkModel, run: Run[Any]
) -> NetworkJudged | str:
    try:
        request = scores_within(model.network.design, run.plan, alignment=federation.alignment)
        return judge_network(federation, model.network, holders_part(job, model, run), request)
    except ColonnadeError as error:
        return NOT_JUDGED.format(reason=error)


def holders_part(job: Job, model: NetworkModel, run: Run[Any]) -> NetworkFile | None:
    """How the label holder of a network reads scores by it; None where the label holder is not."""
    kind = type(model_for(job, model)).__name__
    parts = network_parts(kind, model.network, model.privacy, regime=model.statement, run=run.name)
    return parts.get(model.network.design.receiver)


def judging_of_trained(
    job: Job, result: TrainingResult, run: Run[Any], *, alignment: Alignment
) -> Judging | str:
    """What is asked to judge a model by, so that no total grows by it; or why it cannot be judged."""
    try:
        model = model_for(job, result).fit(result)
        plan, limits = run.plan, limits_of(run.plan)
        record = [epsilon for _, unit, epsilon in limits if unit == "record"]
        return judging_of(
            check_model(model_file(model, method=job.method, run=run.name)),
            plan.group.owners,
            epsilon=min(record, default=job.epsilon),
            delta=plan.delta,
            accepted_delta=plan.delta,
            limits=limits,
            alignment=alignment,
        )
    except ColonnadeError as error:
        return NOT_JUDGED.format(reason=error)


def decided(job: Job, trained: Trained, judged: AnyJudged) -> tuple[AnyJudged, str]:
    """The judgement at the threshold that a job's rule finds in it, which the model takes too, and a note of it."""
    rule, model = rule_of(job.options), trained.model
    if rule is None or not isinstance(model, LogisticRegression):
        return judged, ""
    if not isinstance(judged, Judged) or not isinstance(judged.judgement, Judgement):
        return judged, f"The threshold stays at 0.5: there is no judgement to read {rule!r} from."
    judgement = judged.judgement.at(rule)
    model.threshold = judgement.threshold_by(rule)
    said = (
        f"{figure_text(model.threshold, judgement.threshold_error)} ± {error_text(judgement.threshold_error)}"
    )
    note = f"The threshold is {said}: threshold = {rule!r}, read from the people held out."
    return replace(judged, judgement=judgement), note
