"""What one member of a job between machines brings: its ledger, table and scores, and what it asks before it pays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.data.encoder import Encoder
from colonnade.data.table import Table
from colonnade.errors import JobError, ModelDamaged, ModelError, NotApproved, PlanError
from colonnade.evaluation.evaluate import check_columns, refuse_uninformative
from colonnade.evaluation.held_out import check_readers, refuse_before_training
from colonnade.evaluation.predict import SPLIT, Stored, read_scores, scores_csv
from colonnade.evaluation.scores import linear_bound, linear_terms
from colonnade.federation.federation import Site, ledger_state, release_before, remembering
from colonnade.federation.files import FACTS, check_format, make_folder, write_whole
from colonnade.federation.holdout import own_file, requested_part
from colonnade.federation.job import Job, ScoreJob
from colonnade.federation.party_file import PartyFile
from colonnade.federation.train import protocol_of
from colonnade.ledger import Ledger
from colonnade.ledger.admission import admit
from colonnade.methods.network.network_file import NetworkFile
from colonnade.methods.network.plan import Design
from colonnade.models.files.document import MODEL, PARTIES
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.files.membership import IdRules, Lists, TrainingMembership, remembered
from colonnade.protocols.agreement import PartSpec
from colonnade.protocols.joint_scores import Scored, ScoresSpec, Terms, Weights, scores_session
from colonnade.report.record import RunRecord
from colonnade.runtime.journal import ResumedLedger
from colonnade.runtime.party import Party
from colonnade.runtime.run import PartyInputs
from colonnade.sites.approval import TWO_SUBMIT, Asking, note_submission
from colonnade.sites.kit import Kit
from colonnade.sites.policy import PolicedLedger, Policy

PEOPLE_FILES = {Job: "party", ScoreJob: "score"}
"""Which of a kit's files names the people of a job."""


@dataclass(frozen=True, eq=False)
class SiteInputs(PartyInputs):
    """What this member brings; an owner of columns has its `own` ledger, and says whom an evaluation is about."""

    own: Ledger | None = None
    evaluates: Callable[[], tuple[PartSpec, Callable[[Any, bool], None] | None]] | None = None

    def lists(self) -> tuple[TrainingMembership, ...]:
        """Whom this party's data has been trained on, under the names by which people are to be scored."""
        if self.own is None or self.table is None:
            return ()
        return remembered(self.own.path, self.dataset, IdRules.of(self.table.schema))

    def site(self, member: str) -> Site:
        return Site({}, {}) if self.own is None else Site({member: self.own}, {member: self.dataset})


def inputs_of(
    kit: Kit, job: Job | ScoreJob, member: str, job_id: str, resumes: str, proposal: str = ""
) -> SiteInputs:
    """What this member brings to a job; what its policy refuses is refused here, before anybody is met."""
    resumed = bool(resumes)
    if isinstance(job, Job):
        check_readers(job)
    # A short run has a record only until it is charged, so it cannot have been.
    may_be_charged = resumed and isinstance(job, Job) and protocol_of(job).resumable
    if member not in job.parties:
        path = kit.path / f"{member}.ledger"
        own = Ledger.open(path) if path.exists() else Ledger.create(path, member)
        share = job.held_out if isinstance(job, Job) else None
        accountant = ResumedLedger(own) if may_be_charged else own
        if share is None:
            return SiteInputs(accountant, trusts_server=False)
        held_out = PartSpec(share, "held-out")
        training = PartSpec(share, "training")
        return SiteInputs(accountant, trusts_server=False, part=training, evaluates=lambda: (held_out, None))
    site, people = kit.site(), PEOPLE_FILES[type(job)]
    if "party" not in site or "policy" not in site:
        raise JobError(
            f"{kit.path} was not told which party file and policy to use. Start it with `party start`."
        )
    if people not in site:
        raise JobError(
            f"{kit.path} was not told whom to score. Start it with `party start --score FILE`, a party file that names "
            "the people to score."
        )
    file, policy = PartyFile.load(site[people]), Policy.load(site["policy"])
    if file.party != member:
        raise JobError(f"{file.path}, party: found {file.party!r}, but this kit is {member!r}'s.")
    policy.check_job(job, member)
    ledger = file.open_ledger()
    if proposal:
        run = resumes or job_id
        note_submission(proposal, job, kit=kit, ledger=ledger, run=run, party=member, resumed=resumed)
    elif policy.four_eyes:
        raise NotApproved(
            f"{member}: two administrators are to submit every job, and this one came without their signatures. "
            f"Nothing was charged, and no ids were compared. {TWO_SUBMIT}"
        )

    table, part = file.table(), None
    part_of = partial(requested_part, ledger=ledger, dataset=file.dataset, schema=table.schema)
    if isinstance(job, Job) and job.held_out is not None:
        part = part_of(job.held_out, "training")
        part.check(member)
    policed = PolicedLedger(ledger, policy)
    approves = None
    if policy.people is not None:
        approves = Asking(kit, policy, ledger, file.dataset, resumes or job_id, job, member, part, resumed)
    if not resumed:
        policy.check_comparisons(ledger.comparisons(), file.dataset)

    def asks(part: PartSpec | None, value: Callable[[Any, bool], None]) -> Callable[[Any, bool], None]:
        def ask(plan: Any, counts: bool) -> None:
            value(plan, counts)
            release = release_before(plan, member, part)
            policy.check_plan(plan, counts=counts)
            policy.check_release(release)
            if approves is not None:
                approves.check(release)
            if not may_be_charged:
                # A run that goes on may have been charged before, which its ledger will find.
                admit(ledger_state(ledger), release, file.dataset)

        return ask

    def evaluates() -> tuple[PartSpec, Callable[[Any, bool], None]]:
        share = job.held_out if isinstance(job, Job) else None
        held_out = part_of(share or 0.0, "held-out")
        return held_out, asks(held_out, refuse_uninformative)

    value = refuse_before_training(job) if isinstance(job, Job) else lambda _plan, _counts: None
    return SiteInputs(
        ResumedLedger(policed) if may_be_charged else policed,
        table,
        file.dataset,
        file.shown_ids,
        policy.most_ids,
        remembering(ledger, file.dataset) if isinstance(job, Job) else None,
        part,
        asks=asks(part, value),
        approves=approves,
        trusts_server="server" in policy.alignment,
        public=file.public,
        own=ledger,
        evaluates=evaluates if part is not None else None,
    )


SCORES = "scores.csv"


@dataclass(frozen=True)
class ModelScoresSpec(ScoresSpec):
    """A request for scores by the model of one run, whose name the parties compare too."""

    model: str = ""


@dataclass(frozen=True, eq=False)
class Scoring:
    """What one member has of a model: its own term, whom it was trained on, and for the receiver how sums are read."""

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
            if not any(self.request.model in people.runs for people in self.people):
                raise PlanError(
                    f"{name}: which people the model was trained on is not known here, and exact scores of them would "
                    "show more than was promised. Give an ε (epsilon) in the job for noisy scores that are charged."
                )
            for people in self.people:
                people.check_rules(name, table.schema)
        if self.encoder is not None:
            check_columns(name, self.encoder, table, "score")

    def keep(self, folder: Path, member: str, result: Scored) -> dict[str, Any]:
        """The receiver's scores in a file of its own; what everybody may note of them."""
        note = {"scores": self.job.scores, "statement": result.plan.statement}
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
    """What a member has to score with; `remembered` are people whom any run of its data set was trained on."""
    if not (folder / FACTS).is_file():
        raise JobError(
            f"{job.path}, scores: {folder} holds no finished run. Name the job that trained the model; "
            "`colonnade runs --kit KIT` lists those that this member took part in."
        )
    here = (folder / MODEL).is_file() or any((folder / PARTIES).glob(f"*.{MODEL}"))
    stored = Stored.load(folder) if here else Stored(None, {}, {})
    people = (*((stored.people[member],) if member in stored.people else ()), *remembered)
    price: dict[str, Any] = {
        "epsilon": job.epsilon or None,
        "delta": job.delta,
        "accepted_delta": job.accepted_delta,
    }
    request_of = partial(ModelScoresSpec, receiver=job.receiver, alignment=job.alignment, **price)
    if isinstance(stored.whole, ModelFile):
        whole = stored.whole
        encoder = dict(whole.frame.encoders).get(member)
        absent = [party for party, _ in whole.frame.encoders if party not in job.parties]
        if absent:
            raise JobError(
                f"{job.path}, parties: the model reads columns of {', '.join(absent)}, which takes no part in this job."
            )
        bound = linear_bound(whole.frame, whole.weights)
        request = request_of(width=len(whole.weights), bound=bound, weights="released", model=whole.run)
        terms = linear_terms(whole.frame, whole.weights).get(member)
        return Scoring(job, request, terms, encoder, people, whole)
    part = stored.parts.get(member)
    design, run = _design(folder, part)
    if job.receiver != design.receiver:
        raise PlanError(
            f"{job.path}, receiver: found {job.receiver!r}, but {design.receiver!r} has the last layer of this network "
            "and is the only one that can read sums of embeddings."
        )
    weights: Weights = "private" if design.regime == "private-local" else "public"
    request = request_of(width=design.embedding, bound=float(design.bound), weights=weights, model=run)
    if not isinstance(part, NetworkFile):
        return Scoring(job, request, people=people)
    network, encoder = part.network(), dict(part.frame.encoders).get(member)
    return Scoring(job, request, network.terms().get(member), encoder, people, part)


def _design(folder: Path, part: ModelFile | NetworkFile | None) -> tuple[Design, str]:
    """The shape of a network and its run, from this member's part, or from the facts where it has none."""
    if isinstance(part, NetworkFile):
        return part.design, part.run
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        check_format(facts, folder / FACTS)
        record = RunRecord.model_validate(facts)
        if record.model_facts.network:
            return Design.from_data(record.model_facts.network), record.run
    except (ValueError, KeyError, TypeError):
        raise ModelDamaged(f"{folder / FACTS} was changed or cut off since the run wrote it.") from None
    if not record.model_facts.model_fields_set:
        raise ModelError(f"{folder} holds no model: nothing was learnt in that run.")
    raise PlanError(SPLIT.format(method="" if record.requested is None else record.requested.method))
