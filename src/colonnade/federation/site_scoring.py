"""Scores between sites: each member uses what its own kit kept of the model, and only the receiver sees sums."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.table import Table
from colonnade.errors import ColumnMissing, JobError, ModelDamaged, ModelError, PlanError
from colonnade.evaluation.predict import SPLIT, Stored, read_scores, scores_csv
from colonnade.evaluation.scores import linear_bound, linear_terms
from colonnade.federation.own_files import own_file
from colonnade.federation.records import check_format
from colonnade.federation.score_jobs import ScoreJob
from colonnade.federation.whole_files import make_folder, write_whole
from colonnade.methods.network.design import Design
from colonnade.methods.network.network_file import NetworkFile
from colonnade.models.files.document import MODEL, PARTIES
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.files.membership import Lists, TrainingMembership
from colonnade.protocols.joint_scores import Scored, ScoresSpec, Terms, Weights, scores_session
from colonnade.runtime.party import Party

Array = NDArray[np.float64]
FACTS, SCORES = "facts.json", "scores.csv"


@dataclass(frozen=True)
class ModelScoresSpec(ScoresSpec):
    """A request for scores by the model of one run, whose name the parties compare too."""

    model: str = ""


@dataclass(frozen=True, eq=False)
class Scoring:
    """What one member has of a model to score with: its own term, whom it was trained on, and how sums are read.

    `encoder` is how it reads its own columns; a server has none, and nobody else but the receiver reads sums.
    """

    job: ScoreJob
    request: ModelScoresSpec
    terms: Terms | None = None
    encoder: Encoder | None = None
    people: tuple[TrainingMembership, ...] = ()
    saved: ModelFile | NetworkFile | None = None

    async def session(self, party: Party, table: Table | None, request: ScoresSpec) -> Scored:
        """What this member runs; an exact score of people it cannot tell from those trained on is refused."""
        if table is not None:
            self._check(party.name, table)
        return await scores_session(party, table, request, self.terms, Lists(self.people))

    def _check(self, name: str, table: Table) -> None:
        if not self.job.epsilon:
            self._check_people(name, table)
        declared = set(table.schema.columns)
        missing = (
            [column.name for column in self.encoder.columns if column not in declared] if self.encoder else []
        )
        if missing:
            raise ColumnMissing(
                f"{name}: the model reads {', '.join(missing)}, which the people to score do not have, or which are "
                "declared otherwise than in training. Declare them alike."
            )

    def _check_people(self, name: str, table: Table) -> None:
        if not any(self.request.model in people.runs for people in self.people):
            raise PlanError(
                f"{name}: which people the model was trained on is not known here, and exact scores of them would "
                "show more than was promised. Give an ε (epsilon) in the job for noisy scores that are charged."
            )
        for people in self.people:
            people.check_rules(name, table.schema)

    def keep(self, folder: Path, member: str, result: Scored) -> dict[str, Any]:
        """The receiver's scores in a file of its own; what everybody may note of them."""
        note = {"scores": self.job.model, "statement": result.plan.statement}
        if result.sums is None or result.aligned is None or self.saved is None:
            return note
        ids = tuple(str(person) for person in result.aligned.table.ids())
        scores = read_scores(self.saved, result.sums, ids, result.plan)
        make_folder(folder / PARTIES)
        write_whole(own_file(folder, member, SCORES), scores_csv(scores), own=True)
        return note


def scoring_of(
    job: ScoreJob, folder: Path, member: str, remembered: tuple[TrainingMembership, ...] = ()
) -> Scoring:
    """What a member has, in the folder of the run that trained it, to score with.

    `remembered` are the lists of its data set: people whom any run of it trained on.
    """
    if not (folder / FACTS).is_file():
        raise JobError(
            f"{job.path}, scores: {folder} holds no finished run. Name the job that trained the model; "
            "`colonnade runs --kit KIT` lists those that this member took part in."
        )
    here = (folder / MODEL).is_file() or any((folder / PARTIES).glob(f"*.{MODEL}"))
    stored = Stored.load(folder) if here else Stored(None, {}, {})
    people = (*((stored.people[member],) if member in stored.people else ()), *remembered)
    if isinstance(stored.whole, ModelFile):
        whole = stored.whole
        encoder = dict(whole.frame.encoders).get(member)
        _refuse_absent(job, [party for party, _ in whole.frame.encoders])
        request = _request(
            job, len(whole.weights), linear_bound(whole.frame, whole.weights), "released", whole.run
        )
        terms = linear_terms(whole.frame, whole.weights).get(member)
        return Scoring(job, request, terms, encoder, people, whole)
    part = stored.parts.get(member)
    design, run = _design(folder, part)
    if job.receiver != design.receiver:
        raise PlanError(
            f"{job.path}, receiver: found {job.receiver!r}, but {design.receiver!r} has the last layer of this network "
            "and is the only one that can read sums of embeddings."
        )
    private = design.regime == "private-local"
    request = _request(job, design.embedding, float(design.bound), "private" if private else "public", run)
    if not isinstance(part, NetworkFile):
        return Scoring(job, request, people=people)
    network, encoder = part.network(), dict(part.frame.encoders).get(member)
    return Scoring(job, request, network.terms().get(member), encoder, people, part)


def _request(job: ScoreJob, width: int, bound: float, weights: Weights, run: str) -> ModelScoresSpec:
    return ModelScoresSpec(
        receiver=job.receiver,
        width=width,
        bound=bound,
        weights=weights,
        epsilon=job.epsilon or None,
        delta=job.delta,
        accepted_delta=job.accepted_delta,
        alignment=job.alignment,
        model=run,
    )


def _design(folder: Path, part: ModelFile | NetworkFile | None) -> tuple[Design, str]:
    """The shape of a network and its run, from this member's part, or from the facts where it has none."""
    if isinstance(part, NetworkFile):
        return part.design, part.run
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        model_facts, run = facts["learnt"], str(facts["run"])
        check_format(facts, folder / FACTS)
        if model_facts and "network" in model_facts:
            return Design.from_data(model_facts["network"]), run
    except (ValueError, KeyError, TypeError):
        raise ModelDamaged(f"{folder / FACTS} was changed or cut off since the run wrote it.") from None
    if not model_facts:
        raise ModelError(f"{folder} holds no model: nothing was learnt in that run.")
    raise PlanError(SPLIT.format(method=facts.get("asked", {}).get("method", "")))


def _refuse_absent(job: ScoreJob, owners: list[str]) -> None:
    absent = [owner for owner in owners if owner not in job.parties]
    if absent:
        raise JobError(
            f"{job.path}, parties: the model reads columns of {', '.join(absent)}, which takes no part in this job."
        )
