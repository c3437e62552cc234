"""Evaluate a model: on rows that may be looked at, or on private people, by a protocol and charged.

By released weights sums over everybody are opened for everybody to read. Of a network people are scored with noise, and
the label holder alone holds the scores to its labels: the figures are for it alone, and in no shared file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from colonnade import errors
from colonnade.data.encoder import Encoder
from colonnade.data.table import Table
from colonnade.evaluation import predict
from colonnade.evaluation.distributions import estimate_opened
from colonnade.evaluation.estimates import Estimate, contrasts, estimate_rows
from colonnade.evaluation.predict import Saved, Stored, read_scores
from colonnade.evaluation.scores import linear_terms, party_weights
from colonnade.federation.federation import Federation, Run
from colonnade.methods.baselines.gathering import label_values
from colonnade.methods.network.network_file import NetworkFile
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.inputs import InputSpec
from colonnade.privacy.guarantee import account
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.evaluation import EvaluationPlan, EvaluationSpec, Limit, Opened, evaluation_session
from colonnade.protocols.joint_scores import Scored, ScoresPlan, ScoresSpec, Terms, scores_session
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Party

if TYPE_CHECKING:
    # With all that torch takes.
    from colonnade.methods.network.network import Network

Array = NDArray[np.float64]
AUC_ERROR = 0.05
"""With a larger error from noise than this, on as many people of one class as of the other, a figure says nothing."""
RMSE_ERROR = 0.05
"""The same of numbers, as a share of the RMSE, where one frequency fits the residuals as well as any could."""
STEPS = 60
"""So often ε is lowered by a twentieth until no line of the scores is above its limit."""
LEAST = 1e-9
"""What is expected under noise is not a certainty: a probability is read as no nearer to 0 or 1 than this."""


def evaluate_file(model: Saved, path: Path, *, id_columns: tuple[str, ...], label: str) -> Estimate:
    declared = model.frame.label.label
    if declared is None:
        raise errors.PlanError(
            "the model predicts nothing: principal components have no label to evaluate by."
        )
    named = replace(declared, column=label)
    table = predict.rows_of_model(model.frame, path, id_columns, label=named)
    table.check()
    scores, truth = [], []
    for block in table.blocks():
        scores.append(predict.scores_of(model, model.frame.block_features(block)))
        truth.append(np.asarray(block.label))
    given = np.concatenate(scores)
    if isinstance(model, ModelFile) and not declared.classes:
        given = model.reading.values(given)
    chances, threshold = model.reading.answer == "probabilities", float(logit(model.threshold))
    return estimate_rows(given, np.concatenate(truth), named, chances=chances, threshold=threshold)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The estimate, where it may be read: of a network by the `receiver` alone; `reason` is why it has none."""

    run: Run[Any]
    estimate: Estimate | None = None
    reason: str = ""

    @property
    def receiver(self) -> str | None:
        return self.run.plan.receiver if isinstance(self.run.plan, ScoresPlan) else None

    @property
    def note(self) -> str:
        if self.receiver is None:
            return ""
        return (
            f"The network was evaluated on {self.run.plan.rows} people, by scores with noise that only "
            f"{self.receiver} sees. The figures stand on its own page and in nothing that is shared."
        )


@dataclass(frozen=True)
class Price:
    """What an evaluation may cost: ε for a record, and less where `limits` say so of an observer and a unit."""

    epsilon: float
    delta: float | None = None
    accepted_delta: float | None = None
    limits: tuple[Limit, ...] = ()

    @classmethod
    def of_training(cls, plan: Plan, epsilon: float) -> Price:
        """What a training was to everybody, at its own δ: an evaluation within that raises no total."""
        limits = limits_of(plan)
        record = [most for _, unit, most in limits if unit == "record"]
        return cls(min(record, default=epsilon), plan.delta, plan.delta, limits)


def limits_of(plan: Plan) -> tuple[Limit, ...]:
    lines = {
        (line.observer, line.unit): line.event
        for owner in plan.group.owners
        for line in plan.lines_for(owner)
    }
    return tuple((*key, account(event, plan.delta).epsilon) for key, event in lines.items())


@dataclass(frozen=True, eq=False)
class EvaluationTask:
    """Everybody who has the model, or a part of it, makes the same request."""

    frame: InputSpec
    request: EvaluationSpec | ScoresSpec
    terms: Callable[[str], Terms | None]
    read: Callable[[Run[Any], Any], Evaluation]

    async def session(self, party: Party, table: Table | None, request: Any) -> Opened | Scored:
        """Of several labels the one counts that the model predicts."""
        labelled = None if table is None else with_label_of(self.frame, table)
        if isinstance(request, ScoresSpec):
            return await scores_session(party, labelled, request, self.terms(party.name))
        return await evaluation_session(party, labelled, request, self.terms(party.name))

    def run(self, federation: Federation) -> Evaluation:
        """Run it between all parties on the people held out, if some are; it is not what training opened."""
        tables = {party: with_label_of(self.frame, table) for party, table in federation.tables.items()}
        hooks = replace(federation.hooks, asks=refuse_uninformative, opened=lambda _run: None)
        evaluated = federation.with_hooks(hooks, tables)
        run: Run[Any] = evaluated.run(self.session, self.request, part="held-out")
        reader = self.request.receiver if isinstance(self.request, ScoresSpec) else federation.group.owners[0]
        return self.read(run, run.result(reader))


def with_label_of(frame: InputSpec, table: Table) -> Table:
    """A table of several labels with the one that a model predicts; any other as it is."""
    predicted = frame.label.label
    if predicted is None or not table.schema.more_labels:
        return table
    return table.for_label(predicted.column)


def linear_task(
    model: ModelFile, owners: tuple[str, ...], price: Price, *, alignment: Alignment
) -> EvaluationTask:
    """The evaluation of a model with released weights between these owners.

    What is evaluated is the score of two classes, of more each one's against the mean of all.
    """
    weights, offsets = model.weights, model.offsets
    if len(weights) > 1:
        weights, offsets = contrasts(weights.T).T, contrasts(offsets)
    ranges = [score_ranges(model.frame, row) for row in weights]
    request = EvaluationSpec(
        model=model.run,
        reaches=tuple(tuple(head[owner][1] for owner in owners) for head in ranges),
        epsilon=shortened(price.epsilon),
        delta=price.delta,
        accepted_delta=price.accepted_delta,
        limits=tuple((observer, unit, shortened(most)) for observer, unit, most in price.limits),
        alignment=alignment,
    )
    middles = {owner: np.array([head[owner][0] for head in ranges]) for owner in owners}
    terms = linear_terms(model.frame, weights, middles)
    centres = offsets + np.array([sum(head[owner][0] for owner in owners) for head in ranges])

    def read(run: Run[Any], opened: Opened) -> Evaluation:
        chances, threshold = model.reading.answer == "probabilities", float(logit(model.threshold))
        return Evaluation(run, estimate_opened(opened, centres, threshold=threshold, chances=chances))

    return EvaluationTask(model.frame, request, terms.get, read)


def network_task(
    network: Network, part: NetworkFile | None, price: Price, *, alignment: Alignment
) -> EvaluationTask:
    """The evaluation of a network by scores with noise; `part` is how its label holder reads them, where it is."""
    stated = {"delta": price.delta, "accepted_delta": price.accepted_delta, "alignment": alignment}
    request = network.spec(shortened(price.epsilon), **stated)

    def terms(party: str) -> Terms | None:
        return network.part(party).terms().get(party)

    def read(run: Run[Any], scored: Scored) -> Evaluation:
        if part is None or scored.sums is None or scored.aligned is None:
            return Evaluation(run)
        ids = tuple(str(person) for person in scored.aligned.table.ids())
        values = read_scores(part, scored.sums, ids, run.plan, network=network).values
        label, truth = scored.aligned.schema.label, label_values([scored.aligned])
        if label is not None and label.classes:
            values = np.log(np.clip(values, LEAST, 1.0))
            values = values if len(label.classes) > 2 else values[:, 1:] - values[:, :1]
        try:
            return Evaluation(run, estimate_rows(values, truth, label, chances=True))
        except errors.ModelError as error:
            return Evaluation(run, reason=str(error))

    return EvaluationTask(network.frame, request, terms, read)


def network_task_within(
    network: Network, part: NetworkFile | None, training: Plan, *, alignment: Alignment
) -> EvaluationTask:
    """Scores of those held out by which no total grows: none of their lines is above that of training.

    All members come to the same, because they have the same plan.
    """
    limits = {(observer, unit): most for observer, unit, most in limits_of(training)}
    receiver = network.design.receiver
    holder = f"party:{receiver}"
    epsilon = min((most for (observer, _), most in limits.items() if observer == holder), default=0.0)
    for _ in range(STEPS):
        if not 0.0 < epsilon < np.inf:
            break
        price = Price(epsilon, training.delta, training.delta)
        task = network_task(network, part, price, alignment=alignment)
        plan = task.request.plan(training.group, training.schemas, training.rows)
        lines = [line for owner in plan.group.owners for line in plan.lines_for(owner)]
        if all(
            account(line.event, plan.delta).epsilon <= limits.get((line.observer, line.unit), 0.0)
            for line in lines
        ):
            return task
        epsilon *= 0.95
    raise errors.NoNoiseFits(f"training allows {receiver} no ε for scores.")


def evaluate_jointly(federation: Federation, stored: Stored, price: Price) -> Evaluation:
    """Charged to every ledger; people that the model was trained on are refused."""
    tables = federation.tables
    if stored.whole is None:
        task = _stored_network_task(stored, federation, price)
    else:
        whole = check_model(stored.whole)
        _check_parties(federation, "the model reads columns of", [party for party, _ in whole.frame.encoders])
        task = linear_task(whole, federation.group.owners, price, alignment=federation.alignment)
    for party, encoder in task.frame.encoders:
        check_columns(party, encoder, tables[party], "evaluate on")
        labels = tables[party].schema.labels
        if labels and task.frame.label.label not in labels:
            raise errors.LabelMismatch(
                f"{party}: its label is declared otherwise than the one that the model predicts. Declare it alike."
            )
        people = stored.people.get(party)
        if people is None or federation.held_out is not None or federation.public:
            continue
        people.check_rules(party, tables[party].schema)
        known = sum(str(person) in people for person in tables[party].ids())
        if known:
            raise errors.TrainedOn(
                f"{party}: {known} of the people to evaluate on were trained on: their figures would be too good. "
                "Leave them out, or train with held_out."
            )
    return task.run(federation)


def _check_parties(federation: Federation, said: str, parties: Iterable[str]) -> None:
    missing = [party for party in dict.fromkeys(parties) if party not in federation.tables]
    if missing:
        raise errors.ColumnMissing(f"{said} {', '.join(missing)}, which takes no part in this job.")


def check_model(model: Saved) -> ModelFile:
    """A linear model of classes or of numbers whose weights are all released; anything else is refused by name."""
    if isinstance(model, NetworkFile):
        raise errors.PlanError(
            "the parts of a network stay with their parties, and this one lies in one file. Give the folder of the run "
            "that trained it, or evaluate on public rows with --rows."
        )
    if model.party is not None:
        raise errors.PlanError(
            f"the weights of method {model.method!r} stay with their parties and scores by them are covered by no "
            "guarantee, so it cannot be evaluated on private people. Train with a method that releases its model."
        )
    linear = (model.reading.answer, model.reading.link) == ("prediction", "identity")
    if not model.reading.classifies and not linear:
        raise errors.PlanError(
            f"{model.reading.title} is not evaluated on private people: that is for classes, and for numbers that "
            "are linear in the columns. Evaluate on public rows with --rows."
        )
    return model


def _stored_network_task(stored: Stored, federation: Federation, price: Price) -> EvaluationTask:
    first = next(part for part in stored.parts.values() if isinstance(part, NetworkFile))
    network = predict.network_of(stored, first)
    design = network.design
    if network.fusion is None:
        raise errors.ModelError(
            f"the last layer of this network is {design.receiver}'s and does not lie here, so it scores nobody. "
            "Nothing was charged. Give the folder of a run in one process, which has all parts."
        )
    network.refuse_paper(federation, "evaluate it on")
    read = [party for party, _ in network.frame.encoders]
    _check_parties(federation, "the network has a part of", [*read, design.receiver])
    if federation.tables[design.receiver].schema.label is None:
        raise errors.LabelMismatch(
            f"{design.receiver} has the last layer of this network and declares no label to evaluate it by. Declare "
            "the label in its schema."
        )
    return network_task(network, first, price, alignment=federation.alignment)


def check_columns(party: str, encoder: Encoder, table: Table, purpose: str) -> None:
    declared = set(table.schema.columns)
    missing = [column.name for column in encoder.columns if column not in declared]
    if missing:
        raise errors.ColumnMissing(
            f"{party}: the model reads {', '.join(missing)}, which the people to {purpose} do not have, or which are "
            "declared otherwise than in training. Declare them alike."
        )


def people_for(plan: EvaluationPlan) -> int:
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


def refuse_uninformative(plan: Plan, counts: bool) -> None:
    """Refuse, before anything is charged, so few people that noise hides them; scores are as noisy for many."""
    if not counts or not isinstance(plan, EvaluationPlan):
        return
    needed = people_for(plan)
    if plan.rows < needed:
        figure, most = ("RMSE", f"{RMSE_ERROR:.0%}") if plan.numbers else ("AUC", f"{AUC_ERROR:g}")
        raise errors.TooFewPeople(
            f"{plan.rows} people to evaluate on are too few: noise of deviation {plan.deviation:.3g} on a count "
            f"would move an {figure} by more than {most}. Nothing was charged. {needed} people would do; hold out a "
            "larger share, bring more people, or raise epsilon."
        )


def shortened(epsilon: float) -> float:
    """A little less, and the same at everybody whose floats differ in their last digits."""
    return math.floor(epsilon * 1e6) / 1e6 if epsilon > 1e-3 else epsilon


def score_ranges(frame: InputSpec, weights: Array) -> dict[str, tuple[float, float]]:
    """The middle and the half of where each owner's part of a linear score lies; from declarations alone."""
    ranges = {}
    for party, encoder, (part,) in party_weights(frame, np.asarray(weights, dtype=np.float64)[None]):
        own = part / math.sqrt(frame.attributes)
        low = high = 0.0
        for column in encoder.plain:
            least, most = column.score_range(own[encoder.spans[column.name]], encoder.mode)
            low, high = low + least, high + most
        if encoder.map is not None:
            plain = sum(span.stop - span.start for span in encoder.spans.values())
            size = math.sqrt(encoder.map.attributes(len(encoder.mapped))) * float(np.linalg.norm(own[plain:]))
            low, high = low - size, high + size
        # More than any rounding of floats could add; a part that is always the same still has a bound.
        half = max(1e-6, (high - low) / 2.0)
        # The same at everybody whose floats differ in their last digits.
        unit = 10.0 ** (math.floor(math.log10(half)) - 3)
        extent = float(f"{math.ceil(half / unit * (1 + 1e-9)) * unit:.6g}")
        ranges[party] = (low + high) / 2.0, extent
    return ranges
