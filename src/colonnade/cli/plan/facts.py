"""A plan as facts: what a job would promise, cost and bring, by every method, rehearsed on invented people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from colonnade.crypto.cores import usable_cores
from colonnade.data.schema import PublicSchema
from colonnade.evaluation.held_out import holdout_text
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.federation.train import told_of
from colonnade.forecast.alignment_cost import Matching
from colonnade.forecast.default import left_open, settle, trained_on
from colonnade.forecast.expected import expected_loss
from colonnade.forecast.forecast import ERRORS
from colonnade.forecast.machine import Machine, NetworkLink
from colonnade.forecast.pilot_run import PilotRuns
from colonnade.forecast.plan_job import (
    coding_advice,
    features_of,
    group_of,
    plan_job,
    refusals_for,
    warnings_for,
)
from colonnade.forecast.recommend import (
    Candidate,
    Choice,
    candidates,
    choose,
    error_without_privacy,
    looked_at,
)
from colonnade.forecast.work import Advance, Work
from colonnade.methods.functional.method import notes_on
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.table import default_method
from colonnade.protocols.plans import Plan
from colonnade.report.facts import guarantee_facts

HERE = NetworkLink(math.inf, 0.0)


def plan_facts(
    job: Job,
    schemas: Mapping[str, PublicSchema],
    *,
    files: Mapping[str, PartyFile],
    rows: int,
    held: Mapping[str, int],
    named: frozenset[str] | None,
    advance: Advance,
    simulated: bool = True,
    effort: float = 2.0,
    line: NetworkLink = HERE,
    there: Machine | None = None,
    measured: bool = False,
) -> dict[str, Any]:
    """The plan of a job for so many common people, and what it and the `named` methods would cost and bring.

    Those whom the job holds out are not trained on. Without `named` it is every method that may be recommended.
    `there` is another machine than this one, whose speed is then measured, as it is with `measured`. No row is read,
    and no ledger is written.
    """
    trained = trained_on(rows, job.held_out)
    chosen = left_open(job)
    # Trials that choose the method are a part, each method is one, and so is the exact model they are read against.
    work = Work(advance, chosen + looked_at(job, named) + simulated)
    with told_of(job):
        job = settle(job, group_of(job, schemas), schemas, rows=trained, told=work.told)
    if chosen:
        work.done()
    planned = plan_job(job, schemas, rows=trained)
    choice, here, matching = _chosen(
        job,
        planned,
        schemas,
        files=files,
        common=rows,
        held=held,
        named=None if named is None else named | {job.method},
        simulated=simulated,
        effort=effort,
        work=work,
        measured=measured or there is not None,
    )
    work.end()
    matched = _matching_facts(planned, matching, line)
    return _facts(
        job,
        schemas,
        planned,
        choice,
        files=files,
        common=rows,
        people=held,
        matching=matched,
        line=line,
        here=here,
        there=there,
    )


def _chosen(
    job: Job,
    planned: Plan,
    schemas: Mapping[str, PublicSchema],
    *,
    files: Mapping[str, PartyFile],
    common: int,
    held: Mapping[str, int],
    named: frozenset[str] | None,
    simulated: bool,
    effort: float,
    work: Work,
    measured: bool,
) -> tuple[Choice, Machine | None, Matching]:
    """Rehearse, measure the machine that it was rehearsed on where somebody will want to know, and match people."""
    here = Machine.measured() if measured else None
    pilot_runs = PilotRuns(schemas, effort=effort)
    matching = Matching(planned.group, schemas, job.alignment, common, held)
    entries = candidates(
        job,
        planned,
        schemas,
        files=files,
        pilot_runs=pilot_runs,
        matching=matching,
        simulated=simulated,
        named=named,
        work=work,
    )
    exact = error_without_privacy(job, planned, pilot_runs) if simulated else None
    usual, _ = default_method(job.task, planned.group, epsilon=job.epsilon, delta=job.delta, gamma=job.gamma)
    return choose(entries, usual=usual, without_privacy=exact), here, matching


def _matching_facts(plan: Plan, matching: Matching, line: NetworkLink) -> dict[str, Any] | None:
    """In which way ids are matched, and what that is of the forecast; None where they are simply equal."""
    way, cost = matching.by(plan), matching.cost(plan)
    if way is None or cost is None:
        return None
    return {"by": way, "bytes": cost.bytes_sent, "seconds": cost.seconds + line.seconds(cost)}


def _facts(
    job: Job,
    schemas: Mapping[str, PublicSchema],
    plan: Plan,
    choice: Choice,
    *,
    files: Mapping[str, PartyFile],
    common: int,
    people: Mapping[str, int],
    matching: dict[str, Any] | None,
    line: NetworkLink,
    here: Machine | None,
    there: Machine | None,
) -> dict[str, Any]:
    features = features_of(job.task, schemas)
    own = choice.candidates[0]
    made = own.forecast
    rehearsed_on = {"cores": usable_cores()} if here is None else here.to_data()
    return {
        "name": job.name,
        "task": job.task,
        "method": job.method,
        "because": job.because,
        "rows": plan.rows,
        "common": common,
        "held_out": job.held_out,
        "judging": holdout_text(job),
        "alignment": job.alignment,
        "people": dict(people),
        "matching": matching,
        "features": features,
        "epsilon": job.epsilon,
        "delta": plan.delta,
        "plan": {"hash": plan.hash, **plan.to_data()},
        "guarantees": [guarantee_facts(item) for item in plan.guarantees],
        **(_noise_facts(plan, own) if made is not None and made.noise is not None else {}),
        **({"block_lines": _block_lines(plan)} if isinstance(plan, FunctionalPlan) else {}),
        "expected": expected_loss(plan),
        "methods": [_method_facts(item, line=line, here=here, there=there) for item in choice.candidates],
        "coding": coding_advice(plan),
        "error": ERRORS[job.task],
        "without_privacy": choice.without_privacy,
        "recommended": choice.recommended,
        "why": choice.why,
        "line": {
            "bandwidth": line.bandwidth if math.isfinite(line.bandwidth) else None,
            "latency": line.latency,
        },
        "machine": there.to_data() if there is not None else rehearsed_on,
        "rehearsed_on": rehearsed_on,
        "held": 8 * plan.rows * sum(len(schema.columns) for schema in schemas.values()),
        "budgets": [
            {"party": answer.party, "admits": answer.admits, "reason": answer.reason}
            for answer in own.answers
        ],
        "warnings": [
            *refusals_for(job, plan, files),
            *warnings_for(plan, epsilon=job.epsilon, features=features),
        ],
    }


def _method_facts(
    item: Candidate, *, line: NetworkLink, here: Machine | None, there: Machine | None
) -> dict[str, Any]:
    """One method's promise and forecast, its seconds on the stated machine and line."""
    made = item.forecast
    facts: dict[str, Any] = {
        "method": item.method.name,
        "title": item.method.title,
        "admitted": item.admitted,
        "reason": item.reason,
        "passed": item.passed,
        "guarantees": [] if item.plan is None else [guarantee_facts(each) for each in item.plan.guarantees],
        "forecast": None,
    }
    if made is None:
        return facts
    data = made.to_data()
    work = made.cost.seconds * (1.0 if here is None or there is None else here.stretch(made.kernel, to=there))
    sent = line.seconds(made.cost)
    return facts | {"forecast": {**data, "seconds": work + sent, "computing": work, "sending": sent}}


def _noise_facts(plan: Plan, own: Candidate) -> dict[str, Any]:
    noise = None if own.forecast is None else own.forecast.noise
    if noise is None:
        return {}
    facts: dict[str, Any] = {"standard_deviation": noise.deviation, "on": noise.on}
    if isinstance(plan, MomentsPlan | FunctionalPlan):
        # One person moves a moment of two columns by at most 1/m; in the box of the functional mechanism by 1.
        boxed = isinstance(plan, FunctionalPlan) and plan.options.domain != "ball"
        facts["people"] = noise.deviation * (1 if boxed else plan.attributes)
    if isinstance(plan, MomentsPlan) and plan.several:
        facts["labels"] = [block.label.column for block in plan.labels.blocks if block.label is not None]
    return {"noise": facts}


def _block_lines(plan: Any) -> list[str]:
    return list(notes_on(plan))
