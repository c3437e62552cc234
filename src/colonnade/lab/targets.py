"""What can be audited, method by method: which protocol is run, on how many people, and which claims are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.lab import audited_descents as descents
from colonnade.lab import audited_sums as sums
from colonnade.lab.experiments import AuditClaim, Drawn, Experiment, Target
from colonnade.lab.people import People, corner, together
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.table import protocol_named
from colonnade.privacy.observers import OthersPart, PartyView
from colonnade.protocols.plans import Plan, TrainingSpec, default_delta, options_of
from colonnade.runtime.party import Group
from colonnade.runtime.run import Program

SAME_NOISE = (
    "The noise of this method does not depend on how many people there are: few show as much as many."
)
ALONE = (
    "What is seen of one record has nothing to do with the others, so that every record of a session counts."
)
OWN_ROWS = "The plan is the job's on so few people, with noise of its own for the same ε."


@dataclass(frozen=True)
class AuditTarget:
    """What a job asks for, and who is in the data set beside the canaries: people declared public, or nobody."""

    method: str
    spec: TrainingSpec
    group: Group
    schemas: tuple[PublicSchema, ...]
    rest: People | None = None

    def others(self, count: int) -> People:
        return together([corner(self.schemas, 0.0)] * count) if self.rest is None else self.rest

    def rows(self, count: int) -> int:
        return 1 + self.others(count - 1)[self.group.owners[0]].rows

    def plan(self, rows: int) -> Any:
        return self.spec.plan(self.group, self.schemas, rows)


def target_of(subject: AuditTarget) -> Target:
    """What there is to audit of a method; one that promises nothing and claims nothing is a `PlanError`.

    Everybody brings the same people in the same order: alignment releases nothing and is not audited.
    """
    method, spec = subject.method, subject.spec
    if method not in _BUILDERS:
        audited = ", ".join(_BUILDERS)
        raise PlanError(
            f"method = {method!r} has no observers to audit: it is a simulation in one place, or has no noise. "
            f"Audits are of {audited}."
        )
    delta = default_delta(1) if spec.delta is None else spec.delta
    # On so few people any δ may be above 1/n; that is about real people, and there are none here.
    spec = replace(spec, delta=delta, accepted_delta=delta, alignment="equal")
    return _BUILDERS[method](replace(subject, spec=spec))


def _target(
    subject: AuditTarget,
    experiments: Iterable[Experiment],
    runs: int,
    *notes: str,
    program: Program | None = None,
    drawn: Iterable[Drawn] = (),
) -> Target:
    own = program or protocol_named(subject.method).session(subject.spec)
    tried = tuple(experiments)
    return Target(subject.method, subject.group, subject.schemas, own, tried, runs, notes, tuple(drawn))


def _opened(subject: AuditTarget) -> Target:
    # Checks of rows draw randomness of their own between the last row and the noise, and change nothing that is opened.
    request = replace(subject.spec, verify="none")
    plan = request.plan(subject.group, subject.schemas, subject.rows(2))
    experiments = sums.opened_experiments(plan, request, subject.rest)
    return _target(subject, experiments, 400, SAME_NOISE, drawn=sums.opened_draws(plan))


def _messages(subject: AuditTarget) -> Target:
    rows = subject.rows(descents.MESSAGE_ROWS)
    spec, request, notes = _requested(subject, rows, "calibration")
    few, many = (
        request.plan(subject.group, subject.schemas, count) for count in (rows, descents.MANY_MESSAGES)
    )
    others, paper = subject.others(descents.MESSAGE_ROWS - 1), request is not spec
    experiments = (
        *descents.message_experiments(few, request, _claims(few, spec, paper), others),
        *descents.canary_message_experiments(many, request, _claims(many, spec, paper)),
    )
    return _target(subject, experiments, 400, *notes)


def _descended(subject: AuditTarget) -> Target:
    plan, others = subject.plan(subject.rows(descents.FEW_ROWS)), subject.others(descents.FEW_ROWS - 1)
    if subject.method == "slr":
        return _target(subject, descents.gradient_experiments(plan, subject.spec, others), 24, OWN_ROWS)
    tried = descents.margin_experiments(plan, subject.spec, others)
    return _target(subject, tried, 24, SAME_NOISE, drawn=descents.margin_draws(plan))


def _encrypted(subject: AuditTarget) -> Target:
    if getattr(subject.spec.options, "defence", "sound") == "none":
        raise PlanError("defence = 'none' claims nothing; `colonnade attack` shows what it gives away.")
    rows = subject.rows(descents.ENCRYPTED_ROWS)
    step = options_of(subject.spec.with_options(defence="sound"), EncryptedOptions).step_size
    spec, request, notes = _requested(subject, rows, "defence", learning_rate=min(1.0, step))
    plan = request.plan(subject.group, subject.schemas, rows)
    claims, others = _claims(plan, spec, request is not spec), subject.others(descents.ENCRYPTED_ROWS - 1)
    return _target(subject, descents.encrypted_experiments(plan, request, claims, others), 24, *notes)


def _each_record(subject: AuditTarget) -> Target:
    """Of methods by which what is seen of one record has nothing to do with the others."""
    if subject.method == "network":
        tried = descents.network_experiments(subject.plan(descents.MANY_EMBEDDED), subject.spec)
        notes = descents.WORST, ALONE, descents.HOLDER_ONLY
        return _target(subject, tried, 60, *notes, program=descents.worst_session)
    if subject.method == "local":
        tried = sums.local_experiments(subject.plan(1), subject.spec)
    else:
        tried = sums.one_shot_experiments(subject.plan(sums.MANY), subject.spec)
    return _target(subject, tried, 400, SAME_NOISE, ALONE)


def _requested(
    subject: AuditTarget, rows: int, choice: str, **paper: float
) -> tuple[TrainingSpec, TrainingSpec, list[str]]:
    """What is proved with so few rows, what is run, another where a paper's formula is asked for, and notes."""
    batch, notes = getattr(subject.spec.options, "batch", None), [OWN_ROWS]
    spec = subject.spec.with_options(**{choice: "sound"})
    if batch is not None and batch > rows:
        spec = spec.with_options(batch=None)
        notes.append(f"Batches of {batch} are audited as one batch of all people.")
    if getattr(subject.spec.options, choice, "sound") != "paper":
        return spec, spec, notes
    formula = spec.with_options(**{choice: "paper"}, **paper)
    return spec, replace(formula, public=subject.group.owners), notes


def _claims(plan: Plan, spec: TrainingSpec, paper: bool) -> list[AuditClaim]:
    """What is proved, or what a paper's formula was given as its target."""
    if not paper:
        return [AuditClaim.of(stated) for stated in plan.guarantees]
    claims = []
    for owner in plan.group.owners:
        observer, unit = PartyView(owner), OthersPart(owner)
        about = f"{observer.sentence}, about {unit.sentence}"
        claims.append(AuditClaim(observer.name, unit.name, about, spec.epsilon, plan.delta, proved=False))
    return claims


_BUILDERS: dict[str, Callable[[AuditTarget], Target]] = {
    "moments": _opened,
    "spca": _opened,
    "functional": _opened,
    "slr": _descended,
    "margin": _descended,
    "local": _each_record,
    "private-messages": _messages,
    "one-shot": _each_record,
    "encrypted": _encrypted,
    "network": _each_record,
}
AUDITED = tuple(_BUILDERS)
"""The methods that have observers to audit."""
