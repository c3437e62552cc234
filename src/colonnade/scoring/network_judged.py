"""Judge a network on private people, by scores with noise that its label holder alone reads and holds labels to.

The figures are exact statistics of the label holder's own labels: they are for it, and in no shared file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import ColumnMissing, LabelMismatch, ModelError, NoNoiseFits, OnlyForPublicData
from colonnade.federation.federation import Federation, Run
from colonnade.methods.network.design import Design
from colonnade.methods.network.network_file import NetworkFile
from colonnade.privacy.guarantee import account
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.joint_scores import Scored, ScoresPlan, ScoresSpec, scores_session
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Party
from colonnade.scoring.classes_judged import judge_class_rows
from colonnade.scoring.evaluating import (
    AnyJudgement,
    check_columns,
    limits_of,
    refuse_trained,
    run_held_out,
    shortened,
)
from colonnade.scoring.judgement import judge_rows
from colonnade.scoring.numbers_judged import judge_numbers
from colonnade.scoring.score import Stored, network_of, network_scores

if TYPE_CHECKING:
    # With all that torch takes.
    from colonnade.methods.network.network import Network

Array = NDArray[np.float64]
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
) -> ScoresSpec:
    """Scores with noise by a network, for its label holder."""
    return ScoresSpec(
        receiver=design.receiver,
        width=design.embedding,
        bound=float(design.bound),
        weights="private" if design.regime == "private-local" else "public",
        epsilon=shortened(epsilon),
        delta=delta,
        accepted_delta=accepted_delta,
        alignment=alignment,
    )


def scores_within(design: Design, training: Plan, *, alignment: Alignment) -> ScoresSpec:
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
    federation: Federation, network: Network, model: NetworkFile | None, request: ScoresSpec
) -> NetworkJudged:
    """Score the people of a federation, those held out if it holds some out, and hold them to their labels."""
    terms = network.terms()

    async def session(party: Party, table: Table | None, asked: ScoresSpec) -> Scored:
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
    if label is None or not label.classes:
        column = "label" if label is None else label.column
        return judge_numbers(values[:, 0], np.asarray(truth, dtype=np.float64), label=column)
    classes = np.asarray(truth, dtype=np.int64)
    logs = np.log(np.clip(values, LEAST, 1.0))
    if len(label.classes) > 2:
        return judge_class_rows(logs, classes, names=tuple(label.classes), chances=True)
    names = (label.classes[0], label.classes[1])
    return judge_rows(logs[:, 1] - logs[:, 0], classes, names=names, threshold=0.0, chances=True)
