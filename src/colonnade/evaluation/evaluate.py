"""Evaluate a model: on rows that may be looked at, or on private people, by a protocol and charged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from colonnade.data.aligned import AlignedTable
from colonnade.data.columns import BinaryColumn, BinnedColumn, CategoricalColumn, Column
from colonnade.data.encoding import Encoder, codes_of
from colonnade.data.number_codes import code_of_number
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.data.targets import ClassLabel
from colonnade.errors import (
    ColumnMissing,
    LabelMismatch,
    ModelError,
    NoNoiseFits,
    OnlyForPublicData,
    PlanError,
    TooFewPeople,
    TrainedOn,
)
from colonnade.evaluation.classes_judged import ClassesJudged, contrasts, judge_class_rows, judge_classes
from colonnade.evaluation.judgement import Judgement, judge_opened, judge_rows
from colonnade.evaluation.number_laws import judge_numbers_opened
from colonnade.evaluation.numbers_judged import NumbersJudged, judge_numbers
from colonnade.evaluation.predict import Saved, Stored, features_of, network_of, network_scores
from colonnade.evaluation.scores import linear_terms
from colonnade.federation.federation import Federation, Run
from colonnade.methods.network.design import Design
from colonnade.methods.network.network_file import NetworkFile
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.files.membership import TrainingMembership
from colonnade.models.input_spec import InputSpec
from colonnade.privacy.guarantee import account
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.evaluation import Opened, judge_session
from colonnade.protocols.evaluation_plan import JudgePlan, JudgeRequest, Limit
from colonnade.protocols.joint_scores import Scored, ScoresPlan, ScoresRequest, Terms, scores_session
from colonnade.protocols.plans import Plan, PlanT, Request
from colonnade.runtime.party import Party
from colonnade.runtime.run import Program

if TYPE_CHECKING:
    from colonnade.methods.network.network import Network


def judge_file(
    model: Saved, path: Path, *, id_columns: tuple[str, ...], label: str
) -> Judgement | ClassesJudged | NumbersJudged:
    """The judgement of a model on the rows of one file, which has every column of the model and the label."""
    declared = model.frame.label.label
    if declared is None:
        raise PlanError("the model predicts nothing: principal components have no label to be judged by.")
    columns = [
        replace(column, name=name)
        for name, column in zip(
            model.frame.column_names,
            (column for _, encoder in model.frame.encoders for column in encoder.columns),
            strict=True,
        )
    ]
    table = Table("rows", path, Schema(id_columns, tuple(columns), label=replace(declared, column=label)))
    table.check()
    scores, truth = [], []
    for block in table.blocks():
        features = features_of(block, model.frame)
        if isinstance(model, ModelFile):
            scores.append(model.scores(features @ model.weights.T))
        else:
            scores.append(model.network().scores(features))
        truth.append(np.asarray(block.label))
    given, labels = np.concatenate(scores), np.concatenate(truth)
    if not isinstance(declared, ClassLabel):
        said = model.reading.values(given) if isinstance(model, ModelFile) else given
        return judge_numbers(said[:, 0], labels.astype(np.float64), label=label)
    classes = labels.astype(np.int64)
    if given.shape[1] > 1:
        chances = model.reading.answer == "probabilities"
        return judge_class_rows(given, classes, names=tuple(declared.classes), chances=chances)
    return judge_rows(
        given[:, 0],
        classes,
        names=(declared.classes[0], declared.classes[1]),
        threshold=threshold_of_model(model),
        chances=model.reading.answer == "probabilities",
    )


def threshold_of_model(model: Saved) -> float:
    """The score above which a model of two classes says the second."""
    return float(logit(model.threshold)) if isinstance(model, ModelFile) else 0.0


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


def run_held_out(
    federation: Federation, session: Program, request: Request[PlanT], frame: InputSpec
) -> Run[PlanT]:
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
    classes = len(label.classes) if isinstance(label, ClassLabel) else 1
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
            least, most = _column_range(column, encoder, own[encoder.spans[column.name]])
            low, high = low + least, high + most
        if encoder.map is not None:
            plain = sum(span.stop - span.start for span in encoder.spans.values())
            size = math.sqrt(encoder.map.attributes(len(encoder.mapped))) * float(np.linalg.norm(own[plain:]))
            low, high = low - size, high + size
        # More than any rounding of floats could add; a part that is always the same still has a bound.
        ranges[party] = ScoreRange((low + high) / 2.0, _lengthened(max(1e-6, (high - low) / 2.0)))
    return ranges


def _column_range(column: Column, encoder: Encoder, weights: Array) -> tuple[float, float]:
    if isinstance(column, BinaryColumn | CategoricalColumn | BinnedColumn):
        values = codes_of(column) @ weights
        return float(values.min()), float(values.max())
    return code_of_number(column, encoder.mode).score_range(weights)


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


STEPS = 60
"""So often ε is lowered by a twentieth until no line of the scores is above its limit."""
LEAST = 1e-9
"""What is expected under noise is no certainty: a probability is read as no nearer to 0 or 1 than this."""


@dataclass(frozen=True, eq=False)
class NetworkJudged:
    """The run that scored people for a judgement, and what the label holder read of it, where the label holder is.

    `told` is why there are no figures, at the label holder.
    """

    run: Run[ScoresPlan]
    judgement: AnyJudgement | None = None
    told: str = ""

    @property
    def note(self) -> str:
        plan = self.run.plan
        return (
            f"The network was judged on {plan.rows} people, by scores with noise that {plan.receiver} alone sees. The "
            f"figures are {plan.receiver}'s own: they stand on its own page and in nothing that is shared."
        )


def scores_asked(
    design: Design, *, epsilon: float, delta: float | None, accepted_delta: float | None, alignment: Alignment
) -> ScoresRequest:
    """Scores with noise by a network, for its label holder."""
    return ScoresRequest(
        receiver=design.receiver,
        width=design.embedding,
        bound=float(design.bound),
        weights="private" if design.regime == "private-local" else "public",
        epsilon=shortened(epsilon),
        delta=delta,
        accepted_delta=accepted_delta,
        alignment=alignment,
    )


def scores_within(design: Design, training: Plan, *, alignment: Alignment) -> ScoresRequest:
    """Scores of those held out by which no total grows: none of their lines is above that of training.

    All members come to the same, because they have the same plan.
    """
    limits = {(observer, unit): most for observer, unit, most in limits_of(training)}
    holder = f"party:{design.receiver}"
    epsilon = min((most for (observer, _), most in limits.items() if observer == holder), default=0.0)
    for _ in range(STEPS):
        if not 0.0 < epsilon < np.inf:
            break
        asked = scores_asked(
            design, epsilon=epsilon, delta=training.delta, accepted_delta=training.delta, alignment=alignment
        )
        plan = asked.plan(training.group, training.schemas, training.rows)
        lines = [line for owner in plan.group.owners for line in plan.lines_for(owner)]
        if all(
            account(line.event, plan.delta).epsilon <= limits.get((line.observer, line.unit), 0.0)
            for line in lines
        ):
            return asked
        epsilon *= 0.95
    raise NoNoiseFits(
        f"training has no account of what {design.receiver} learns within which people could be scored."
    )


def judge_network(
    federation: Federation, network: Network, model: NetworkFile | None, request: ScoresRequest
) -> NetworkJudged:
    """Score the people of a federation, those held out if it holds some out, and hold them to their labels."""
    terms = network.terms()

    async def session(party: Party, table: Table | None, asked: ScoresRequest) -> Scored:
        return await scores_session(party, table, asked, terms.get(party.name))

    run = run_held_out(federation, session, request, network.frame)
    return judged_scores(run, run.result(request.receiver), network, model)


def evaluate_network(
    stored: Stored,
    federation: Federation,
    *,
    epsilon: float,
    delta: float | None,
    accepted_delta: float | None,
) -> NetworkJudged:
    """Judge a network whose parts lie here on the people of a federation, charged; those trained on are refused."""
    first = next(part for part in stored.parts.values() if isinstance(part, NetworkFile))
    network = network_of(stored, first)
    design = network.design
    if network.fusion is None:
        raise ModelError(
            f"the last layer of this network is {design.receiver}'s and does not lie here, so it scores nobody. "
            "Nothing was charged. Give the folder of a run in one process, which has all parts."
        )
    if design.regime == "paper" and not federation.public:
        raise OnlyForPublicData(
            "this network was trained in the paper's regime: its scores would disclose the people it was trained on. "
            "Train it with 'frozen' or 'private-local' to judge it on people who are not public."
        )
    read = [party for party, _ in network.frame.encoders]
    missing = [party for party in dict.fromkeys((*read, design.receiver)) if party not in federation.tables]
    if missing:
        raise ColumnMissing(
            f"the network has a part of {', '.join(missing)}, which takes no part in this job."
        )
    if federation.tables[design.receiver].schema.label is None:
        raise LabelMismatch(
            f"{design.receiver} has the last layer of this network and declares no label to judge it by. Declare the "
            "label in its schema."
        )
    for party, encoder in network.frame.encoders:
        check_columns(party, encoder, federation.tables[party], network.frame)
        refuse_trained(party, federation.tables[party], stored.people.get(party), federation)
    request = scores_asked(
        design, epsilon=epsilon, delta=delta, accepted_delta=accepted_delta, alignment=federation.alignment
    )
    return judge_network(federation, network, first, request)


def judged_scores(
    run: Run[ScoresPlan], scored: Scored, network: Network, model: NetworkFile | None
) -> NetworkJudged:
    """What was scored, held to the labels where the label holder is: `model` is how it reads scores."""
    if model is None or scored.sums is None or scored.aligned is None:
        return NetworkJudged(run)
    ids = tuple(str(person) for person in scored.aligned.table.ids())
    values = network_scores(model, scored.sums, ids, run.plan, network=network).values
    try:
        return NetworkJudged(run, _held_to(values, scored.aligned))
    except ModelError as error:
        return NetworkJudged(run, told=str(error))


def _held_to(values: Array, aligned: AlignedTable) -> AnyJudgement:
    label = aligned.schema.label
    truth = np.concatenate([block.label for block in aligned.blocks() if block.label is not None])
    if not isinstance(label, ClassLabel):
        column = "label" if label is None else label.column
        return judge_numbers(values[:, 0], np.asarray(truth, dtype=np.float64), label=column)
    classes = np.asarray(truth, dtype=np.int64)
    logs = np.log(np.clip(values, LEAST, 1.0))
    if len(label.classes) > 2:
        return judge_class_rows(logs, classes, names=tuple(label.classes), chances=True)
    names = (label.classes[0], label.classes[1])
    return judge_rows(logs[:, 1] - logs[:, 0], classes, names=names, threshold=0.0, chances=True)
