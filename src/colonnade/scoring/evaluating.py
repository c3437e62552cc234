"""Judge a released model on private people, by the protocol and charged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import ColumnMissing, LabelMismatch, PlanError, TooFewPeople, TrainedOn
from colonnade.federation.federation import Federation, Run
from colonnade.methods.network.network_file import NetworkFile
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.files.membership import TrainingMembership
from colonnade.models.input_spec import InputSpec
from colonnade.privacy.guarantee import account
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.joint_scores import Terms
from colonnade.protocols.judging import Opened, judge_session
from colonnade.protocols.judging_plan import JudgePlan, JudgeRequest, Limit
from colonnade.protocols.plans import Plan
from colonnade.protocols.specs import Spec
from colonnade.runtime.party import Party
from colonnade.runtime.run import Program
from colonnade.scoring.classes_judged import ClassesJudged, contrasts, judge_classes
from colonnade.scoring.evaluating_rows import threshold_of_model
from colonnade.scoring.judgement import Judgement, judge_opened
from colonnade.scoring.linear import linear_terms
from colonnade.scoring.number_laws import judge_numbers_opened
from colonnade.scoring.numbers_judged import NumbersJudged
from colonnade.scoring.score import Saved

Array = NDArray[np.float64]
AUC_ERROR = 0.05
"""With a larger error from noise than this, on as many people of one class as of the other, a figure says nothing."""
RMSE_ERROR = 0.05
"""The same of numbers, as a share of the RMSE, where one frequency fits the residuals as well as any could."""
AnyJudgement = Judgement | ClassesJudged | NumbersJudged


@dataclass(frozen=True, eq=False)
class Judged:
    """A judgement and the run that it was read from."""

    judgement: AnyJudgement
    run: Run[JudgePlan]


def judge_jointly(
    federation: Federation,
    model: Saved,
    *,
    epsilon: float,
    delta: float | None = None,
    accepted_delta: float | None = None,
    limits: tuple[Limit, ...] = (),
    trained_on: Mapping[str, TrainingMembership] | None = None,
) -> Judged:
    """Judge a model on the people of a federation, those held out if it holds some out, charged to every ledger.

    People in `trained_on` are refused: figures on them would be too good. Judged people are remembered like those
    trained on, because exact scores of them would show more than was promised.
    """
    whole = check_model(model)
    missing = [party for party, _ in whole.frame.encoders if party not in federation.tables]
    if missing:
        raise ColumnMissing(
            f"the model reads columns of {', '.join(missing)}, which takes no part in this job."
        )
    for party, encoder in whole.frame.encoders:
        check_columns(party, encoder, federation.tables[party], whole.frame)
        refuse_trained(party, federation.tables[party], (trained_on or {}).get(party), federation)
    judging = judging_of(
        whole,
        federation.group.owners,
        epsilon=epsilon,
        delta=delta,
        accepted_delta=accepted_delta,
        limits=limits,
        alignment=federation.alignment,
    )

    async def session(party: Party, table: Table | None, asked: JudgeRequest) -> Opened:
        return await judge_session(party, table, asked, judging.terms.get(party.name))

    run = run_held_out(federation, session, judging.request, whole.frame)
    return Judged(judging.read(run.result(federation.group.owners[0])), run)


def run_held_out(federation: Federation, session: Program, request: Spec, frame: InputSpec) -> Run[Any]:
    """Run a judgement between all parties on the people held out, if some are; it is not what training opened.

    Of several labels the one counts that the model of this frame predicts.
    """
    before, opened, tables = federation.asks, federation.opened, federation.tables
    federation.asks = worth_judging
    federation.opened = lambda _run: None
    federation.tables = {party: with_label_of(frame, table) for party, table in tables.items()}
    try:
        return federation.run(session, request, part="held-out")
    finally:
        federation.asks, federation.opened, federation.tables = before, opened, tables


def with_label_of(frame: InputSpec, table: Table) -> Table:
    """A table of several labels with the one that a model predicts; any other as it is."""
    predicted = frame.label.label
    if predicted is None or not table.schema.more_labels:
        return table
    return table.for_label(predicted.column)


def worth_judging(plan: Plan, counts: bool) -> None:
    """Refuse, before anything is charged, a judgement that its noise would hide; scores are as noisy for many."""
    if counts and isinstance(plan, JudgePlan):
        check_enough(plan)


@dataclass(frozen=True, eq=False)
class Judging:
    """What is asked of a judgement, each owner's part of the scores, and how to read what was opened."""

    model: ModelFile
    request: JudgeRequest
    terms: Mapping[str, Terms]
    centres: Array

    def read(self, opened: Opened) -> AnyJudgement:
        """What was opened, as a judgement of the model."""
        if opened.plan.numbers:
            return judge_numbers_opened(opened, centre=float(self.centres[0]))
        if len(self.centres) > 1:
            chances = self.model.reading.answer == "probabilities"
            return judge_classes(opened, self.centres, chances=chances)
        return judge_opened(
            opened,
            centre=float(self.centres[0]),
            threshold=threshold_of_model(self.model),
            chances=self.model.reading.answer == "probabilities",
        )


def judging_of(
    model: ModelFile,
    owners: tuple[str, ...],
    *,
    epsilon: float,
    delta: float | None,
    accepted_delta: float | None,
    limits: tuple[Limit, ...],
    alignment: Alignment,
) -> Judging:
    """The judgement of a model between these owners, made alike by everybody who has the model."""
    weights, offsets = heads_of(model)
    ranges = [score_ranges(model.frame, row) for row in weights]
    request = JudgeRequest(
        model=model.run,
        reaches=tuple(tuple(head[owner].reach for owner in owners) for head in ranges),
        epsilon=shortened(epsilon),
        delta=delta,
        accepted_delta=accepted_delta,
        limits=tuple((observer, unit, shortened(most)) for observer, unit, most in limits),
        alignment=alignment,
    )
    terms = {
        owner: _centred(term, np.array([head[owner].middle for head in ranges]))
        for owner, term in linear_terms(model.frame, weights).items()
    }
    centres = offsets + np.array([sum(head[owner].middle for owner in owners) for head in ranges])
    return Judging(model, request, terms, centres)


def shortened(epsilon: float) -> float:
    """A little less, and the same at everybody whose floats differ in their last digits."""
    return math.floor(epsilon * 1e6) / 1e6 if epsilon > 1e-3 else epsilon


def _lengthened(reach: float) -> float:
    """A little more, and the same at everybody whose floats differ in their last digits."""
    unit = 10.0 ** (math.floor(math.log10(reach)) - 3)
    return float(f"{math.ceil(reach / unit * (1 + 1e-9)) * unit:.6g}")


def heads_of(model: ModelFile) -> tuple[Array, Array]:
    """Weights and offsets of what is judged: the score of two classes, of more each one's against the mean of all."""
    if len(model.weights) == 1:
        return model.weights, model.offsets
    return contrasts(model.weights.T).T, contrasts(model.offsets)


def limits_of(plan: Plan) -> tuple[Limit, ...]:
    """What a run was to each observer about each unit, at its own δ: judging within that raises no total."""
    lines = {
        (line.observer, line.unit): line.event
        for owner in plan.group.owners
        for line in plan.lines_for(owner)
    }
    return tuple((*key, account(event, plan.delta).epsilon) for key, event in lines.items())


def check_model(model: Saved) -> ModelFile:
    """A linear model of classes or of numbers whose weights are all released; anything else is refused by name."""
    if isinstance(model, NetworkFile):
        raise PlanError(
            "the parts of a network stay with their parties, and this one lies in one file. Give the folder of the run "
            "that trained it, or judge on public rows with --rows."
        )
    if model.party is not None:
        raise PlanError(
            f"the weights of method {model.method!r} stay with their parties and scores by them are covered by no "
            "guarantee, so it cannot be judged on private people. Train with a method that releases its model."
        )
    if not model.reading.classifies and (model.reading.answer, model.reading.link) != (
        "prediction",
        "identity",
    ):
        raise PlanError(
            f"{model.reading.title} is not judged on private people: that is for classes, and for numbers that are "
            "linear in the columns. Judge on public rows with --rows."
        )
    return model


def people_for(plan: JudgePlan) -> int:
    """With fewer people the noise alone moves an AUC by more than `AUC_ERROR` even if all classes are as large.

    The variance of Σ Im(φ₁ conj φ₀)/f from noise s√f/n_c on each coordinate of φ_c, |φ| ≤ 1, is at most
    (s²/n₁² + s²/n₀²) Σ 1/f, times (2/π)² for the AUC; of C classes the rest have C − 1 sums and C − 1 times as many
    people, which is s²/n² · C³/(C − 1). Of numbers, noise s/n on |φ| = e^(−x²/2) is an error of s/(n x²|φ|) of the
    deviation x, as a share of it, and x²|φ| is at most 2/e.
    """
    if plan.numbers:
        return math.ceil(plan.deviation * math.e / 2.0 / RMSE_ERROR)
    spread = math.sqrt(sum(1.0 / frequency for frequency in plan.heads[0].frequencies))
    classes = plan.heads[0].sums
    share = math.sqrt(classes**3 / (classes - 1))
    return math.ceil((2.0 / math.pi) * plan.deviation * spread * share / AUC_ERROR)


def check_enough(plan: JudgePlan) -> None:
    """Refuse a judgement on so few people that the noise hides it, before anything is charged."""
    needed = people_for(plan)
    if plan.rows < needed:
        what = (
            f"an RMSE by more than {RMSE_ERROR:.0%}" if plan.numbers else f"an AUC by more than {AUC_ERROR:g}"
        )
        raise TooFewPeople(
            f"{plan.rows} people to judge on are too few: noise of standard deviation {plan.deviation:.3g} on a count "
            f"would move {what}. Nothing was charged. {needed} people would do; hold out a larger share, bring more "
            "people, or raise epsilon."
        )


def check_held_out(training: Plan, share: float, *, epsilon: float) -> None:
    """Refuse a training whose held-out people would be too few to judge it on, before anything is charged."""
    label = next(schema.label for schema in training.schemas if schema.label is not None)
    classes = max(1, len(label.classes))
    reaches = ((1.0,) * len(training.group.owners),) * (classes if classes > 2 else 1)
    request = JudgeRequest(
        "",
        reaches,
        epsilon,
        limits_of(training),
        delta=training.delta,
        accepted_delta=training.delta,
    )
    rows = max(1, round(training.rows * share / (1.0 - share)))
    # Of several labels the model of the first is judged.
    schemas = tuple(replace(schema, more_labels=()) for schema in training.schemas)
    check_enough(request.plan(training.group, schemas, rows))


@dataclass(frozen=True)
class ScoreRange:
    """Where one owner's part of a score can lie: around a middle, by at most a reach."""

    middle: float
    reach: float


def score_ranges(frame: InputSpec, weights: Array) -> dict[str, ScoreRange]:
    """For each owner where its part of a linear score lies, whatever its people are like; from declarations alone."""
    scale = math.sqrt(frame.attributes)
    ranges, start = {}, 0
    for party, encoder in frame.encoders:
        own = np.asarray(weights, dtype=np.float64)[start : start + encoder.width] / scale
        start += encoder.width
        low = high = 0.0
        for column in encoder.plain:
            least, most = column.score_range(own[encoder.spans[column.name]], encoder.mode)
            low, high = low + least, high + most
        if encoder.map is not None:
            plain = sum(span.stop - span.start for span in encoder.spans.values())
            size = math.sqrt(encoder.map.attributes(len(encoder.mapped))) * float(np.linalg.norm(own[plain:]))
            low, high = low - size, high + size
        # More than any rounding of floats could add; a part that is always the same still has a bound.
        ranges[party] = ScoreRange((low + high) / 2.0, _lengthened(max(1e-6, (high - low) / 2.0)))
    return ranges


def _centred(term: Terms, middle: Array) -> Terms:
    def centred(aligned: AlignedTable) -> Array:
        return np.asarray(term(aligned) - middle)

    return centred


def check_columns(party: str, encoder: Encoder, table: Table, frame: InputSpec) -> None:
    """Refuse people who do not have the columns that a model reads, or another label than it predicts."""
    declared = set(table.schema.columns)
    missing = [column.name for column in encoder.columns if column not in declared]
    if missing:
        raise ColumnMissing(
            f"{party}: the model reads {', '.join(missing)}, which the people to judge on do not have, or which are "
            "declared otherwise than in training. Declare them alike."
        )
    if table.schema.labels and frame.label.label not in table.schema.labels:
        raise LabelMismatch(
            f"{party}: its label is declared otherwise than the one that the model predicts. Declare it alike."
        )


def refuse_trained(
    party: str, table: Table, people: TrainingMembership | None, federation: Federation
) -> None:
    """Refuse people whom the model was trained on: figures on them would be too good."""
    if people is None or federation.held_out is not None or federation.public:
        return
    people.check_rules(party, table.schema)
    known = sum(str(person) in people for person in table.ids())
    if known:
        raise TrainedOn(
            f"{party}: {known} of the people to judge on were trained on, and figures on them would be too good. Leave "
            "them out, or train with held_out."
        )
