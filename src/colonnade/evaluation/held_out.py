"""What came of a job, computed to its end: its models, and how good they are on the people that it held out.

That costs nothing more but for whole columns. Whoever writes or shows a run fits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import ColonnadeError, ModelError, PlanError
from colonnade.evaluation import evaluate
from colonnade.evaluation.estimates import Estimate, TwoClassEstimate, error_text, estimate_rows, figure_text
from colonnade.evaluation.evaluate import Evaluation, EvaluationTask, Price, check_model
from colonnade.federation import train
from colonnade.federation.federation import Federation, Run, Site
from colonnade.federation.holdout import NoModel
from colonnade.federation.job import Job
from colonnade.methods.method import TrainingResult
from colonnade.methods.network.network_file import NetworkModel, network_parts
from colonnade.methods.network.plan import NetworkPlan
from colonnade.models.class_weights import rule_of
from colonnade.models.files.linear_file import model_file
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Watch
from colonnade.protocols.agreement import PartSpec
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.evaluation import EvaluationSpec
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Accountant, Party
from colonnade.runtime.run import Outcome, reason_for_peers

Array = NDArray[np.float64]
NOT_EVALUATED = "The model was not evaluated on the people held out: {reason}"
MOST = 50_000
"""So many people are enough to learn a linear model of one party's columns from."""
HeldOut = Evaluation | str | None
"""How good a model is, or why that is not known; None where nobody was held out."""


def holdout_text(job: Job) -> str:
    if job.held_out is None:
        return ""
    if train.protocol_of(job).scores == "released weights":
        return "The model is evaluated on them. Only totals about whole columns grow."
    return (
        "The network is evaluated on them by scores with noise, which only the label holder sees: the figures are its "
        "own and on its own page. Only totals about whole columns grow."
    )


def refuse_before_training(job: Job) -> Callable[[Plan, bool], None]:
    """What refuses a plan of a job, before anything is charged: too few people to learn from, or to evaluate on."""
    unlearnable = train.refuse_unlearnable(job)

    def ask(plan: Plan, counts: bool) -> None:
        unlearnable(plan, counts)
        if counts and job.held_out is not None and train.protocol_of(job).scores == "released weights":
            check_held_out(plan, job.held_out, epsilon=job.epsilon)
        if job.held_out is not None and isinstance(plan, NetworkPlan) and plan.options.coalitions:
            raise PlanError(
                "held_out: the network would be evaluated by scores with noise, and no statement covers what the "
                "coalitions of [options] would learn of those together. Nothing was charged. Leave held_out "
                "or coalitions out."
            )

    return ask


def check_held_out(training: Plan, share: float, *, epsilon: float) -> None:
    """Refuse a training whose held-out people would be too few to evaluate it on, before anything is charged."""
    label = next(schema.label for schema in training.schemas if schema.label is not None)
    classes = max(1, len(label.classes))
    reaches = ((1.0,) * len(training.group.owners),) * (classes if classes > 2 else 1)
    delta = training.delta
    request = EvaluationSpec(
        "", reaches, epsilon, evaluate.limits_of(training), delta=delta, accepted_delta=delta
    )
    rows = max(1, round(training.rows * share / (1.0 - share)))
    # Of several labels the model of the first is evaluated.
    schemas = tuple(replace(schema, more_labels=()) for schema in training.schemas)
    evaluate.refuse_uninformative(request.plan(training.group, schemas, rows), counts=True)


def check_readers(job: Job) -> None:
    """Refuse to hold people out, before anybody is met, where a member could not take part in evaluating on them."""
    group = job.group()
    apart = [name for name in group.members if name not in (*group.owners, group.server)]
    if job.held_out is not None and apart:
        raise PlanError(
            f"held_out: computing parties without columns ({', '.join(apart)}) do not read the model, and could not "
            "take part in its evaluation between machines. Nothing was run or "
            "charged. Leave held_out out, train in one process, or take computing parties among the parties and "
            "the server."
        )


def holdout_task(job: Job, result: TrainingResult, run: Run[Any], *, alignment: Alignment) -> EvaluationTask:
    """No total grows by it: the people held out lose at most what those trained on did."""
    if isinstance(result, NetworkModel):
        kind, network = type(train.model_for(job, result)).__name__, result.network
        parts = network_parts(kind, network, result.privacy, regime=result.statement, run=run.name)
        return evaluate.network_task_within(
            network, parts.get(network.design.receiver), run.plan, alignment=alignment
        )
    model = train.model_for(job, result).fit(result)
    whole = check_model(model_file(model, method=job.method, run=run.name))
    price = Price.of_training(run.plan, job.epsilon)
    return evaluate.linear_task(whole, run.plan.group.owners, price, alignment=alignment)


def evaluate_trained(
    job: Job, federation: Federation, result: TrainingResult | None, run: Run[Any]
) -> HeldOut:
    if job.held_out is None or result is None:
        return None
    try:
        return holdout_task(job, result, run, alignment=federation.alignment).run(federation)
    except ColonnadeError as error:
        return NOT_EVALUATED.format(reason=error)


async def evaluate_at_site(
    party: Party,
    table: Table | None,
    job: Job,
    run: Run[Any],
    *,
    part: PartSpec,
    accountant: Accountant,
    asks: Callable[[Any, bool], None] | None,
) -> Evaluation | str:
    """The evaluation as this member reads it, or why there is none; what was trained is good either way.

    All members begin it or none does.
    """
    try:
        result = train.result_at(job, run)
    except ColonnadeError:
        result = None
    if result is None:
        return NOT_EVALUATED.format(reason="nothing was learnt.")
    try:
        task = holdout_task(job, result, run, alignment=job.alignment)
    except ColonnadeError as error:
        return NOT_EVALUATED.format(reason=error)
    # Whoever had to approve the job has: an evaluation must cost no more, which `asks` sees to.
    member = replace(
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
        opened = await task.session(member, table, task.request)
        return task.read(
            Run(opened.plan, Outcome({party.name: opened}, {party.name: member.traffic})), opened
        )
    except ColonnadeError as error:
        # What was trained is paid for and good; peers are told, and end too.
        party.channel.stop(reason_for_peers(error))
        return NOT_EVALUATED.format(reason=reason_for_peers(error))


def decided(job: Job, trained: train.Trained, outcome: HeldOut) -> tuple[HeldOut, str]:
    rule, model = rule_of(job.options), trained.model
    if rule is None or not isinstance(model, LogisticRegression):
        return outcome, ""
    if not isinstance(outcome, Evaluation) or not isinstance(outcome.estimate, TwoClassEstimate):
        return outcome, f"The threshold stays at 0.5: there is no evaluation to read {rule!r} from."
    estimate = outcome.estimate.at(rule)
    model.threshold = estimate.threshold_probability
    error = estimate.threshold_error
    said = f"{figure_text(model.threshold, error)} ± {error_text(error)}"
    note = f"The threshold is {said}: threshold = {rule!r}, read from the people held out."
    return replace(outcome, estimate=estimate), note


def estimate_alone(run: Run[Any], evaluation: Evaluation) -> Estimate | None:
    """What the label holder's own columns alone would have, by a linear model without noise.

    These are exact figures of private people, for the label holder, and stand on its own page alone.
    """
    holder = run.plan.group.active
    if holder not in run.aligned or holder not in evaluation.run.aligned:
        return None
    label = run.aligned[holder].schema.label
    if label is None:
        return None
    rows, truth = _rows(run.aligned[holder], most=MOST)
    others, answers = _rows(evaluation.run.aligned[holder])
    try:
        if label.classes:
            # Heavy, and needed by nobody else who reads a run.
            from sklearn.linear_model import LogisticRegression as Exact

            classes = truth.astype(np.int64)
            if len(np.unique(classes)) < len(label.classes):
                return None
            model = Exact(max_iter=500).fit(rows, classes)
            scores = np.asarray(model.decision_function(others)).reshape(len(others), -1)
        else:
            design = np.column_stack([rows, np.ones(len(rows))])
            weights = np.linalg.lstsq(design, truth, rcond=None)[0]
            scores = (others @ weights[:-1] + weights[-1])[:, None]
        return estimate_rows(scores, answers, label, chances=True)
    except ModelError:
        return None


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


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A model of each label, the job's own first; `alone` is how good the label holder's own columns would be."""

    job: Job
    run: Run[Any]
    result: TrainingResult | None
    models: tuple[train.Trained, ...]
    notes: tuple[str, ...]
    evaluation: Evaluation | None
    alone: Estimate | None

    @property
    def failure(self) -> NoModel | None:
        return self.models[0].failure


def finish_training(
    job: Job,
    run: Run[Any],
    place: Federation | Site,
    result: TrainingResult | None,
    *,
    failure: NoModel | None = None,
    evaluation: HeldOut = None,
    watch: Watch | None = None,
) -> TrainedRun:
    """Fit every model of a run, with what noise did to it unless `watch` skips that.

    `failure` is why nothing came of it, if nothing did; `evaluation` is how good it is on the people held out, or why
    that is not known.
    """
    watch = watch or Watch()
    first = train.train_on(result, job, run, failure=failure, public=place.public, watch=watch)
    skipped = watch.skipped
    outcome, threshold = decided(job, first, evaluation)
    more = []
    if isinstance(result, MomentRelease):
        more = train.train_more(result, run, public=place.public, watch=watch)
    evaluated = outcome if isinstance(outcome, Evaluation) else None
    notes = (
        *first.notes,
        f"No model was learnt: {first.failure.text}" if first.failure else "",
        outcome if isinstance(outcome, str) else "",
        evaluated.note if evaluated is not None else "",
        threshold,
        skipped,
    )
    return TrainedRun(
        job,
        run,
        result,
        (first, *more),
        tuple(filter(None, notes)),
        evaluated,
        None if evaluated is None else estimate_alone(run, evaluated),
    )
