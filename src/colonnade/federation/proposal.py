"""Four eyes for submission: a job that one administrator proposes and another confirms, each with a key of their own.

A policy that says `submission = "two"` takes part in no other. Both signatures travel with the job, and every party
checks them against the federation's root: neither the server nor one administrator alone can submit. A confirmation is
for one run: a party's ledger notes who proposed and who confirmed it, and refuses it a second time. A run that stopped
goes on with the confirmation that it began with.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colonnade.errors import InputError, KitError, NotApproved
from colonnade.ledger import Decision, Ledger
from colonnade.ledger.chain import canonical
from colonnade.randomness import SystemRandomness
from colonnade.runtime.identity import NotTrusted, Trust
from colonnade.runtime.kit import SUBMITS, Kit
from colonnade.runtime.vouching import Signature, check_vouched, role_in, vouch

_FORMAT = 1
HOURS = 24.0
MOST_HOURS = 30 * 24.0
_PURPOSES = {"proposal": "colonnade proposal", "confirmation": "colonnade confirmation"}
_REMEDY = "Let one administrator propose it (`colonnade job propose`), and another confirm it."


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
        told = ("number", "job", "proposed", "until", "proposer")
        said = {"format": _FORMAT, **{name: getattr(self, name) for name in told}}
        return hashlib.sha256(canonical(said).encode()).hexdigest()

    @property
    def text(self) -> str:
        facts: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        signatures = {name: dict(facts[name]) for name in _PURPOSES}
        return json.dumps({"format": _FORMAT, **facts, **signatures}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def parse(cls, text: str, *, name: str = "the proposal") -> Proposal:
        """The proposal in a text; `name` is how messages call it."""
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
                f"{name} is no proposal of a job, or it is damaged. Name the file that `colonnade job propose` wrote."
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
    """One field of a proposal, of its type and, if it is a time, one that can be compared."""
    if field in _PURPOSES:
        return tuple(sorted((str(key), str(part)) for key, part in value.items()))
    if not isinstance(value, str):
        raise TypeError(field)
    if field in ("proposed", "until") and datetime.datetime.fromisoformat(value).tzinfo is None:
        raise ValueError(field)
    return value


def propose(kit: Kit, job: str, *, hours: float = HOURS) -> Proposal:
    """Propose a job, as the administrator whose kit this is; another one may confirm it for so many hours."""
    if not 0 < hours <= MOST_HOURS:
        raise InputError(f"--hours: found {hours:g}; it must be greater than 0 and at most {MOST_HOURS:g}.")
    _check_submits(kit)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    identity = kit.identity()
    made = Proposal(
        number=SystemRandomness().bytes(16).hex(),
        job=job,
        proposed=now.isoformat(),
        until=(now + datetime.timedelta(hours=hours)).isoformat(),
        proposer=identity.name,
    )
    return replace(made, proposal=_signed(kit, made, "proposal"))


def confirm(kit: Kit, proposal: Proposal) -> Proposal:
    """Confirm another administrator's proposal, as the administrator whose kit this is."""
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
    given: str, *, kit: Kit, ledger: Ledger, job: str, what: str, text: str, party: str, resumed: bool
) -> None:
    """Check what two administrators signed for a run and note it in the ledger; otherwise raise `NotApproved`.

    `job` is the id of the run, which one that goes on keeps; `text` is the job that this member was given. By then
    nothing was charged, and nobody met.
    """
    try:
        proposal = Proposal.parse(given, name="what administrators signed")
    except InputError as error:
        raise NotApproved(f"{party}: {error}") from None
    earlier = [decision for decision in ledger.decisions() if decision.request == proposal.digest]
    if resumed and earlier and earlier[0].job == job:
        return
    try:
        if proposal.job != text:
            raise NotTrusted("they signed another job than this one")
        for scheme in _PURPOSES:
            proposal.check_signed(scheme, kit.trust())
        proposal.check_two()
        if proposal.over():
            raise NotTrusted(f"it was to begin by {proposal.until[:16].replace('T', ' ')} UTC")
        decided = [_decision(proposal, scheme, job=job, what=what, party=party) for scheme in _PURPOSES]
        # The first note of a proposal wins, whichever process of this party writes it.
        noted = not earlier and all(ledger.note_decision(decision) for decision in decided)
        first = next(one for one in ledger.decisions() if one.request == proposal.digest)
        if not noted or first.job != job:
            raise NotTrusted(f"it was for the run {first.job}, and is for one run")
    except NotTrusted as error:
        raise NotApproved(
            f"{party}: what two administrators signed for this job does not hold: {error}. Nothing was charged, and no "
            f"ids were compared. {_REMEDY}"
        ) from None


def _decision(proposal: Proposal, scheme: str, *, job: str, what: str, party: str) -> Decision:
    first = scheme == "proposal"
    return Decision(
        job=job,
        request=proposal.digest,
        what=what,
        costs=(),
        by=proposal.proposer if first else proposal.confirmer,
        approved=True,
        party=party,
        signature=proposal.proposal if first else proposal.confirmation,
    )


def not_signed(party: str) -> NotApproved:
    """What a party says of a job that one administrator submitted, where its policy asks for two."""
    return NotApproved(
        f"{party}: two administrators are to submit every job, and this one came without their signatures. Nothing was "
        f"charged, and no ids were compared. {_REMEDY}"
    )
