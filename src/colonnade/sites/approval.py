"""Approval by people: jobs that two administrators submit, and jobs that wait until somebody at this party says yes."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from colonnade.crypto.sealing import SigningKey, signed_by
from colonnade.data.documents import shown
from colonnade.errors import InputError, KitError, NotApproved
from colonnade.federation.federation import ledger_state, release_before
from colonnade.federation.files import make_folder, write_whole
from colonnade.federation.job import Job, ScoreJob
from colonnade.ledger import Decision, Ledger, Release
from colonnade.ledger.entry_store import canonical
from colonnade.ledger.ledger import PATIENCE
from colonnade.ledger.state import Prospect, prospects
from colonnade.protocols.agreement import PartSpec, digest
from colonnade.randomness import SystemRandomness
from colonnade.runtime.identity import NotTrusted, Trust
from colonnade.sites.kit import SUBMITS, Kit, Signature, check_vouched, role_in, vouch
from colonnade.sites.policy import Approvers, Policy

_FORMAT = 1
HOURS = 24.0
MOST_HOURS = 30 * 24.0
_PURPOSES = {"proposal": "colonnade proposal", "confirmation": "colonnade confirmation"}
TWO_SUBMIT = "Let one administrator propose it (`colonnade job propose`), and another confirm it."


@dataclass(frozen=True)
class Proposal:
    """A job as two administrators sign it; `number` is drawn for it, so that no two proposals are alike."""

    number: str
    job: str
    proposed: str
    until: str
    proposer: str
    proposal: Signature = ()
    confirmer: str = ""
    confirmation: Signature = ()

    @property
    def digest(self) -> str:
        """What both sign, in 64 hexadecimal digits: everything but who confirms, and the signatures."""
        signed = ("number", "job", "proposed", "until", "proposer")
        statement = {"format": _FORMAT, **{name: getattr(self, name) for name in signed}}
        return hashlib.sha256(canonical(statement).encode()).hexdigest()

    @property
    def text(self) -> str:
        signatures = {"proposal": dict(self.proposal), "confirmation": dict(self.confirmation)}
        facts = {"format": _FORMAT, **asdict(self), **signatures}
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def parse(cls, text: str, *, name: str = "the proposal") -> Proposal:
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT:
                raise InputError(
                    f"{name}: its format is {data['format']!r}, and this version reads {_FORMAT}. Everybody installs "
                    "the same release."
                )
            return cls(**{field: _read_proposal(data[field], field) for field in cls.__dataclass_fields__})
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"{name} is not a proposal of a job, or it is damaged. Name the file that "
                "`colonnade job propose` wrote."
            ) from None

    @classmethod
    def load(cls, path: Path) -> Proposal:
        if not path.is_file():
            raise InputError(f"{path} does not exist. Name the file that `colonnade job propose` wrote.")
        return cls.parse(path.read_text(encoding="utf-8", errors="replace"), name=str(path))

    def check_signed(self, scheme: str, trust: Trust) -> None:
        """Return if whoever proposed, or confirmed, signed this and may submit jobs; otherwise `NotTrusted`."""
        name = self.proposer if scheme == "proposal" else self.confirmer
        signature = self.proposal if scheme == "proposal" else self.confirmation
        certificate = check_vouched(
            signature, self.digest.encode(), purpose=_PURPOSES[scheme], name=name, trust=trust
        )
        if role_in(certificate) not in SUBMITS:
            raise NotTrusted(f"{name!r} may not submit jobs")

    def check_two(self) -> None:
        """Return if proposer and confirmer are two, by their names and by their keys; otherwise `NotTrusted`."""
        certificates = {dict(self.proposal).get("certificate"), dict(self.confirmation).get("certificate")}
        if self.proposer.casefold() == self.confirmer.casefold() or len(certificates) < 2:
            raise NotTrusted(f"{self.proposer!r} both proposed and confirmed it, and two people are to")

    def over(self) -> bool:
        return datetime.datetime.now(datetime.UTC) > datetime.datetime.fromisoformat(self.until)


def _read_proposal(value: Any, field: str) -> Any:
    if field in _PURPOSES:
        return tuple(sorted((str(key), str(part)) for key, part in value.items()))
    if not isinstance(value, str):
        raise TypeError(field)
    if field in ("proposed", "until") and datetime.datetime.fromisoformat(value).tzinfo is None:
        raise ValueError(field)
    return value


def propose(kit: Kit, job: str, *, hours: float = HOURS) -> Proposal:
    if not 0 < hours <= MOST_HOURS:
        raise InputError(f"--hours: found {hours:g}; it must be greater than 0 and at most {MOST_HOURS:g}.")
    _check_submits(kit)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    identity = kit.identity()
    proposal = Proposal(
        number=SystemRandomness().bytes(16).hex(),
        job=job,
        proposed=now.isoformat(),
        until=(now + datetime.timedelta(hours=hours)).isoformat(),
        proposer=identity.name,
    )
    return replace(proposal, proposal=_signed(kit, proposal, "proposal"))


def confirm(kit: Kit, proposal: Proposal) -> Proposal:
    _check_submits(kit)
    confirmed = replace(proposal, confirmer=kit.identity().name)
    confirmed = replace(confirmed, confirmation=_signed(kit, confirmed, "confirmation"))
    trust = kit.trust()
    try:
        confirmed.check_signed("proposal", trust)
        confirmed.check_two()
        confirmed.check_signed("confirmation", trust)
    except NotTrusted as error:
        raise KitError(f"the proposal of {proposal.proposer!r} is not confirmed: {error}.") from None
    if proposal.over():
        raise InputError(
            f"the proposal of {proposal.proposer} was to be confirmed by {proposal.until[:16].replace('T', ' ')} UTC. "
            "Ask for a new one."
        )
    return confirmed


def _check_submits(kit: Kit) -> None:
    if kit.kind != "admin":
        raise KitError(
            f"{kit.path} is a {kit.kind}'s kit. Jobs are proposed and confirmed by administrators."
        )
    if role_in(kit.identity().certificate) not in SUBMITS:
        raise KitError(
            f"{kit.path}: {kit.identity().name} may not submit jobs. Ask an administrator who may."
        )


def _signed(kit: Kit, proposal: Proposal, scheme: str) -> Signature:
    return vouch(kit.identity(), proposal.digest.encode(), purpose=_PURPOSES[scheme], scheme=scheme)


def note_submission(
    given: str, job: Job | ScoreJob, *, kit: Kit, ledger: Ledger, run: str, party: str, resumed: bool
) -> None:
    """Check what two administrators signed for a run and note it in the ledger, or raise `NotApproved`."""
    try:
        proposal = Proposal.parse(given, name="what administrators signed")
    except InputError as error:
        raise NotApproved(f"{party}: {error}") from None
    earlier = [decision for decision in ledger.decisions() if decision.request == proposal.digest]
    if resumed and earlier and earlier[0].job == run:
        return
    try:
        if proposal.job != job.text:
            raise NotTrusted("they signed another job than this one")
        for scheme in _PURPOSES:
            proposal.check_signed(scheme, kit.trust())
        proposal.check_two()
        if proposal.over():
            raise NotTrusted(f"it was to begin by {proposal.until[:16].replace('T', ' ')} UTC")
        signed = {proposal.proposer: proposal.proposal, proposal.confirmer: proposal.confirmation}
        what = f"{job.name!r} by {job.method} of {', '.join(job.parties)}"
        decisions = [
            Decision(run, proposal.digest, what, (), by, approved=True, party=party, signature=signature)
            for by, signature in signed.items()
        ]
        # The first note of a proposal wins, whichever process of this party writes it.
        written = not earlier and all(map(ledger.note_decision, decisions))
        first = next(one for one in ledger.decisions() if one.request == proposal.digest)
        if not written or first.job != run:
            raise NotTrusted(f"it was for the run {first.job}, and is for one run")
    except NotTrusted as error:
        raise NotApproved(
            f"{party}: what two administrators signed for this job does not hold: {error}. Nothing was charged, and no "
            f"ids were compared. {TWO_SUBMIT}"
        ) from None


REQUESTS = "requests"
_PURPOSE = "colonnade approval"
_GLANCE_SECONDS = 0.5
_MAX_NAME = 100
_MAX_REASON = 1000

State = Literal["waiting", "approved", "declined", "ended"]


@dataclass(frozen=True)
class Request:
    """A job that waits, or waited, for so many people at one party; `digest` binds decisions to what was shown."""

    job: str
    name: str
    party: str
    what: str
    costs: tuple[Prospect, ...]
    people: int
    digest: str
    requested: str
    until: str
    state: State
    ledger: str
    text: str = ""
    decisions: tuple[Decision, ...] = ()

    @property
    def approvals(self) -> tuple[str, ...]:
        return tuple(decision.by for decision in self.decisions if decision.approved)

    def to_data(self) -> dict[str, Any]:
        """The request as JSON data, without decisions, which the ledger has."""
        return {"format": _FORMAT, **{name: one for name, one in asdict(self).items() if name != "decisions"}}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Request:
        facts = {name: data[name] for name in cls.__dataclass_fields__ if name != "decisions"}
        return cls(**{**facts, "costs": tuple(Prospect(**cost) for cost in data["costs"])})


def list_requests(kit: Kit, *, ended: bool = False, patience: float = PATIENCE) -> tuple[Request, ...]:
    """What waits for people at this kit's party, the oldest first; with `ended` also what no longer does."""
    read = [_read(path) for path in (kit.path / REQUESTS).glob("*.json")]
    if not read:
        return ()
    requests = _with_decisions(kit, read, patience)
    listed = [request for request in requests if ended or request.state == "waiting"]
    return tuple(sorted(listed, key=lambda request: request.requested))


def approve(
    kit: Kit, job: str, *, by: str, key: SigningKey | None = None, patience: float = PATIENCE
) -> Request:
    return _decide(kit, job, by, True, "", key, patience)


def decline(
    kit: Kit, job: str, *, by: str, because: str, key: SigningKey | None = None, patience: float = PATIENCE
) -> Request:
    if not because.strip():
        raise InputError("declining a job needs a reason, which stands in the ledger. Say why.")
    return _decide(kit, job, by, False, because.strip()[:_MAX_REASON], key, patience)


def _decide(
    kit: Kit, job: str, by: str, approved: bool, because: str, key: SigningKey | None, patience: float
) -> Request:
    by = " ".join(by.split())
    if not by or len(by) > _MAX_NAME or not by.isprintable():
        raise InputError(f"{shown(by)} is not a valid name of a person: use 1 to {_MAX_NAME} letters.")
    path = kit.path / REQUESTS / f"{kit.run_folder(job).name}.json"
    if not path.exists():
        raise InputError(
            f"no job {job} has asked {kit.path}. `colonnade party requests` lists those that wait."
        )
    (request,) = _with_decisions(kit, [_read(path)], patience)
    if request.state != "waiting":
        raise InputError(f"job {job} does not wait for anybody any more: it is {request.state}.")
    if by.casefold() in {decision.by.casefold() for decision in request.decisions}:
        raise InputError(f"{by} has decided about job {job} already. Somebody else is to say yes.")
    policy = Policy.load(kit.site()["policy"])
    if policy.people is not None and policy.people.keys:
        named = dict(policy.people.keys).get(by)
        if key is None or key.public.hex() != named:
            raise InputError(
                f"{policy.name}, approvers: "
                + (f"{by} signs with another key. Give theirs." if named else f"{by} is not named there.")
            )
    decision = Decision(
        job=request.job,
        request=request.digest,
        what=request.what,
        costs=tuple((cost.observer, cost.unit, cost.epsilon) for cost in request.costs),
        by=by,
        approved=approved,
        party=request.party,
        because=because,
    )
    if key is None:
        signature = vouch(kit.identity(), decision.statement, purpose=_PURPOSE, scheme="certificate")
    else:
        value = key.sign(decision.statement, purpose=_PURPOSE).hex()
        signature = (("public", key.public.hex()), ("scheme", "ed25519"), ("value", value))
    ledger = Ledger.open(request.ledger, patience=patience)
    ledger.note_decision(replace(decision, signature=signature))
    return _with_decisions(kit, [request], patience)[0]


def vouched(decision: Decision, trust: Trust, people: Approvers) -> bool:
    """Whether a decision is signed by somebody who may: a person whom the policy names, else the party's own kit."""
    try:
        if people.keys:
            public, value = dict(people.keys)[decision.by], dict(decision.signature)["value"]
            signature = bytes.fromhex(value)
            return signed_by(bytes.fromhex(public), signature, decision.statement, purpose=_PURPOSE)
        check_vouched(
            decision.signature,
            decision.statement,
            purpose=_PURPOSE,
            name=decision.party,
            trust=trust,
            when_issued=True,
        )
    except (KeyError, ValueError):
        return False
    return True


def _with_decisions(kit: Kit, requests: Iterable[Request], patience: float) -> list[Request]:
    people = Policy.load(kit.site()["policy"]).people or Approvers(1, ())
    trust, cache = kit.trust(), dict[str, tuple[Decision, ...]]()
    decided = []
    for request in requests:
        if request.ledger not in cache:
            path = Path(request.ledger)
            cache[request.ledger] = Ledger.open(path, patience=patience).decisions() if path.exists() else ()
        state = request.state
        if state == "waiting" and datetime.datetime.now(datetime.UTC).isoformat() > request.until:
            # Its process was killed: while it lives it says itself how it ended.
            state = "ended"
        counted = _counted(cache[request.ledger], request, trust, people)
        decided.append(replace(request, state=state, decisions=counted))
    return decided


def _counted(
    decisions: Iterable[Decision], request: Request, trust: Trust, people: Approvers
) -> tuple[Decision, ...]:
    return tuple(
        decision
        for decision in decisions
        if (decision.job, decision.party, decision.request) == (request.job, request.party, request.digest)
        and vouched(decision, trust, people)
    )


def _read(path: Path) -> Request:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise InputError(f"{path} was written by another version of Colonnade. Install that one.")
        return Request.from_data(data)
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is not a valid request of a job: it is damaged. Submit the job anew."
        ) from None


@dataclass(eq=False)
class Asking:
    """A job's process that asks the people of its party: its `approves`, and asked about its release afterwards."""

    kit: Kit
    policy: Policy
    ledger: Ledger
    dataset: str
    run: str
    job: Job | ScoreJob
    party: str
    part: PartSpec | None = None
    resumed: bool = False
    granted: Request | None = None

    async def __call__(self, agreed: Mapping[str, Any], plans: Sequence[Any]) -> None:
        """Return when enough people have approved; otherwise raise `NotApproved`, or what ended the job."""
        path = self.kit.path / REQUESTS / f"{self.run}.json"
        # A run that goes on was asked about before; one that comes again under an old name was not.
        earlier = _read(path) if self.resumed and path.exists() else None
        request = self._request(agreed, plans, earlier)
        make_folder(path.parent)
        state: State = "ended"
        try:
            _write(path, request)
            approved = await self._decided(request)
            state = "approved" if approved else "declined"
        finally:
            _write(path, replace(request, state=state))
        if not approved:
            raise NotApproved(
                f"{self.party}: somebody declined the job. Nothing was charged, and no ids were compared. "
                "`colonnade party requests --ended` says there who did, and why."
            )
        self.granted = request

    async def _decided(self, request: Request) -> bool:
        people = cast("Approvers", self.policy.people)
        deadline = time.monotonic() + self.job.timeout
        while True:
            counted = _counted(self.ledger.decisions(request.job), request, self.kit.trust(), people)
            if not all(decision.approved for decision in counted):
                return False
            if len({decision.by.casefold() for decision in counted}) >= people.number:
                return True
            if time.monotonic() > deadline:
                missing = "1 person is" if people.number == 1 else f"{people.number} people are"
                raise NotApproved(
                    f"{self.party}: nobody approved the job within {self.job.timeout:g} s, and {missing} to. Nothing "
                    "was charged, and no ids were compared. Look at `colonnade party requests`, and give the job a "
                    "longer timeout."
                )
            await asyncio.sleep(_GLANCE_SECONDS)

    def _request(self, agreed: Mapping[str, Any], plans: Sequence[Any], earlier: Request | None) -> Request:
        releases = [release_before(plan, self.party, self.part) for plan in plans]
        costs: dict[tuple[str, str], Prospect] = {}
        for release in releases:
            for cost in prospects(ledger_state(self.ledger), release, self.dataset):
                worst = costs.setdefault((cost.observer, cost.unit), cost)
                dearest, least = max(worst.epsilon, cost.epsilon), min(worst.left, cost.left)
                costs[cost.observer, cost.unit] = replace(worst, epsilon=dearest, left=least)
        others = [owner for owner in plans[0].group.owners if owner != self.party]
        shown_costs = [[cost.observer, cost.unit, cost.epsilon] for cost in costs.values()]
        now = datetime.datetime.now(datetime.UTC)
        requested = now.isoformat(timespec="microseconds") if earlier is None else earlier.requested
        return Request(
            job=self.run,
            name=self.job.name,
            party=self.party,
            what=(
                f"{releases[0].what} of {self.dataset!r} to {releases[0].receiver}, by {self.job.method} with "
                f"{', '.join(others)}"
            ),
            costs=tuple(costs.values()),
            people=cast("Approvers", self.policy.people).number,
            # What a person is bound to: the job as all members compared it, its cost, and that it was asked then.
            digest=digest(
                {"job": agreed, "dataset": self.dataset, "costs": shown_costs, "requested": requested}
            ),
            requested=requested,
            until=(now + datetime.timedelta(seconds=self.job.timeout)).isoformat(timespec="seconds"),
            state="waiting",
            ledger=str(self.ledger.path),
            text=self.job.text,
        )

    def check(self, release: Release) -> None:
        """Return if a release costs no more than what was approved, once something was."""
        if self.granted is None:
            return
        allowed = {(cost.observer, cost.unit): cost.epsilon for cost in self.granted.costs}
        for cost in prospects(ledger_state(self.ledger), release, self.dataset):
            if not cost.epsilon <= allowed.get((cost.observer, cost.unit), 0.0):
                raise NotApproved(
                    f"{self.party}: {release.what} would cost {cost.observer} more than was approved. Nothing was "
                    "charged. Submit the job anew."
                )


def _write(path: Path, request: Request) -> None:
    text = json.dumps(request.to_data(), ensure_ascii=False, indent=1)
    write_whole(path, text + "\n", own=True)
