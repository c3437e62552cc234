"""Judge what a job trained on the people that it held out, at no further cost to anybody but for whole columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.aligned import AlignedTable
from colonnade.data.table import Table
from colonnade.data.targets import ClassLabel
from colonnade.errors import ColonnadeError, ModelError, PlanError
from colonnade.evaluation.classes_judged import ClassesJudged, judge_class_rows
from colonnade.evaluation.evaluate import (
    Judged,
    Judging,
    NetworkJudged,
    check_held_out,
    check_model,
    judge_jointly,
    judge_network,
    judged_scores,
    judging_of,
    limits_of,
    scores_within,
    with_label_of,
)
from colonnade.evaluation.figures import error_text, figure_text
from colonnade.evaluation.judgement import Judgement, judge_rows
from colonnade.evaluation.numbers_judged import NumbersJudged, judge_numbers
from colonnade.federation.federation import Federation, Run
from colonnade.federation.job import Job
from colonnade.federation.train import Trained, model_for, protocol_of, result_at, worth_its_charge
from colonnade.methods.method import TrainingResult
from colonnade.methods.network.model import NetworkModel
from colonnade.methods.network.network_file import NetworkFile, network_parts
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.models.class_weights import rule_of
from colonnade.models.files.linear_file import model_file
from colonnade.models.logistic import LogisticRegression
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.evaluation import judge_session
from colonnade.protocols.joint_scores import ScoresRequest, scores_session
from colonnade.protocols.parts import PartSpec
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Accountant, Party
from colonnade.runtime.run import Outcome, reason_for_peers

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
        if job.held_out is not None and isinstance(plan, EmbeddingsPlan) and plan.coalitions:
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


Array = NDArray[np.float64]
MOST = 50_000
"""So many people are enough to learn a linear model of one party's columns from."""


def judged_alone(
    run: Run[Any], judged: Judged | NetworkJudged
) -> Judgement | ClassesJudged | NumbersJudged | None:
    """A linear model of the label holder's own columns, without noise; None where the label holder is not here."""
    holder = run.plan.group.active
    if holder not in run.aligned or holder not in judged.run.aligned:
        return None
    label = run.aligned[holder].schema.label
    if label is None:
        return None
    rows, truth = _rows(run.aligned[holder], most=MOST)
    others, answers = _rows(judged.run.aligned[holder])
    try:
        if isinstance(label, ClassLabel):
            return _classified(rows, truth.astype(np.int64), others, answers.astype(np.int64), label)
        design = np.column_stack([rows, np.ones(len(rows))])
        weights = np.linalg.lstsq(design, truth, rcond=None)[0]
        return judge_numbers(others @ weights[:-1] + weights[-1], answers, label=label.column)
    except ModelError:
        return None


def _classified(
    rows: Array, classes: NDArray[np.int64], others: Array, answers: NDArray[np.int64], label: ClassLabel
) -> Judgement | ClassesJudged | None:
    # Heavy, and needed by nobody else who reads a run.
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(classes)) < len(label.classes):
        return None
    model = LogisticRegression(max_iter=500).fit(rows, classes)
    scores = np.asarray(model.decision_function(others))
    if len(label.classes) > 2:
        return judge_class_rows(scores, answers, names=tuple(label.classes), chances=True)
    names = (label.classes[0], label.classes[1])
    return judge_rows(scores, answers, names=names, threshold=0.0, chances=True)


def _rows(table: AlignedTable, *, most: int | None = None) -> tuple[Array, Array]:
    encoder = table.schema.encoder("circle")
    features, labels, count = [], [], 0
    for block in table.blocks():
        features.append(encoder.encode(block))
        labels.append(np.asarray(block.label, dtype=np.float64))
        count += block.rows
        if most is not None and count >= most:
            break
    return np.concatenate(features), np.concatenate(labels)


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

    request: ScoresRequest
    model: NetworkModel
    reads: NetworkFile | None


def _network_scores(job: Job, model: NetworkModel, run: Run[Any]) -> NetworkScores | str:
    try:
        request = scores_within(model.network.design, run.plan, alignment=job.alignment)
    except ColonnadeError as error:
        return NOT_JUDGED.format(reason=error)
    return NetworkScores(request, model, holders_part(job, model, run))
