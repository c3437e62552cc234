"""What one member of a job between machines brings: its ledger, table, and what it asks of a plan before it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from colonnade.data.table import Table
from colonnade.errors import JobError
from colonnade.evaluation.evaluate import refuse_uninformative
from colonnade.evaluation.held_out import check_readers, refuse_before_training
from colonnade.federation.approval import Asking
from colonnade.federation.cuts import part_asked
from colonnade.federation.federation import Site, remembering
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.federation.policy import PolicedLedger, Policy
from colonnade.federation.preflight import ledger_state, release_before
from colonnade.federation.proposal import not_signed, note_submission
from colonnade.federation.score_jobs import ScoreJob
from colonnade.federation.train import protocol_of
from colonnade.ledger import Ledger
from colonnade.ledger.admission import admit
from colonnade.models.files.membership import IdRules, TrainingMembership, remembered
from colonnade.protocols.parts import PartSpec
from colonnade.runtime.journal import ResumedLedger
from colonnade.runtime.kit import Kit
from colonnade.runtime.party import Accountant

PEOPLE_FILES = {Job: "party", ScoreJob: "score"}
"""Which of a kit's files names the people of a job."""


@dataclass(frozen=True, eq=False)
class SiteInputs:
    """What this member brings: its accountant, and, if it owns columns, its table and what it asks of a plan first.

    `evaluates` says the same of an evaluation of what was trained, once that is done.
    """

    accountant: Accountant
    table: Table | None = None
    dataset: str = ""
    shown_ids: int | None = None
    most_ids: int | None = None
    trusts_server: bool = False
    public: bool = False
    asks: Callable[[Any, bool], None] | None = None
    ledger: Ledger | None = None
    part: PartSpec | None = None
    approves: Asking | None = None
    evaluates: Callable[[], tuple[PartSpec, Callable[[Any, bool], None] | None]] | None = None

    def lists(self) -> tuple[TrainingMembership, ...]:
        """Whom this party's data has been trained on, under the names by which people are to be scored."""
        if self.ledger is None or self.table is None:
            return ()
        return remembered(self.ledger.path, self.dataset, IdRules.of(self.table.schema))

    def remembers(self, job: Job | ScoreJob) -> Callable[[Any, str], None] | None:
        """What notes whom a job trains on, before it is paid for."""
        if self.ledger is None or isinstance(job, ScoreJob):
            return None
        return remembering(self.ledger, self.dataset)

    def site(self, member: str) -> Site:
        if self.ledger is None:
            return Site({}, {})
        return Site({member: self.ledger}, {member: self.dataset})


def inputs_of(
    kit: Kit, job: Job | ScoreJob, member: str, job_id: str, resumes: str, proposal: str = ""
) -> SiteInputs:
    """What this member brings to a job; what its policy refuses is refused here, before anybody is met.

    `proposal` is what two administrators signed, if they did.
    """
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
            return SiteInputs(accountant)
        held_out = PartSpec(share, "held-out")
        return SiteInputs(accountant, part=PartSpec(share, "training"), evaluates=lambda: (held_out, None))
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
        note_submission(
            proposal,
            kit=kit,
            ledger=ledger,
            job=resumes or job_id,
            what=f"{job.name!r} by {job.method} of {', '.join(job.parties)}",
            text=job.text,
            party=member,
            resumed=resumed,
        )
    elif policy.four_eyes:
        raise not_signed(member)

    table, part = file.table(), None
    if isinstance(job, Job) and job.held_out is not None:
        part = part_asked(job.held_out, "training", ledger=ledger, dataset=file.dataset, schema=table.schema)
        part.check(member)
    policed = PolicedLedger(ledger, policy)
    approves = None
    if policy.people is not None:
        first = resumes or job_id
        approves = Asking(
            kit,
            policy,
            ledger,
            file.dataset,
            first,
            job.name,
            job.method,
            member,
            job.timeout,
            part,
            resumed,
            job.text,
        )
    if not resumed:
        policy.check_comparisons(ledger.comparisons(), file.dataset)

    def asks(part: PartSpec | None, worth: Callable[[Any, bool], None]) -> Callable[[Any, bool], None]:
        def ask(plan: Any, counts: bool) -> None:
            worth(plan, counts)
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
        held_out = part_asked(
            share or 0.0, "held-out", ledger=ledger, dataset=file.dataset, schema=table.schema
        )
        return held_out, asks(held_out, refuse_uninformative)

    worth = refuse_before_training(job) if isinstance(job, Job) else lambda _plan, _counts: None
    return SiteInputs(
        ResumedLedger(policed) if may_be_charged else policed,
        table,
        file.dataset,
        file.shown_ids,
        policy.most_ids,
        "server" in policy.alignment,
        file.public,
        asks(part, worth),
        ledger,
        part,
        approves,
        evaluates if part is not None else None,
    )
