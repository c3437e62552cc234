"""What a run learnt, what each observer could learn, and what it cost: the record for text, JSON and the page."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade import __version__
from colonnade.ledger import Ledger
from colonnade.ledger.bounds import Account
from colonnade.ledger.entry_store import Entry
from colonnade.ledger.state import LedgerState, left
from colonnade.privacy.guarantee import Guarantee
from colonnade.report import record as records
from colonnade.runtime.party import Group

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation, Run, Site

NOT_PRIVATE = (
    "No privacy: the noise of this run came from a seed, so whoever has the seed can take it out again."
)

NO_SHARES = (
    "Nobody keeps shares in this protocol: what each member sees is told above, by observer. Everybody is taken to "
    "follow the protocol."
)


def run_facts(
    run: Run[Any],
    federation: Federation | Site,
    *,
    name: str,
    model_facts: Mapping[str, Any],
    measured: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
) -> records.RunRecord:
    """Everything worth reading about one run: budgets and bytes of those who are here, all in one process.

    `measured` are figures on data declared public, or None; `notes` are what its reader should know besides.
    """
    # Here, because facts of ledgers are read without any model.
    from colonnade.models.effects import spectrum_facts

    release, plan, group = run.release, run.plan, run.plan.group
    described = plan.to_data()
    here = {
        owner: (federation.ledgers[owner], federation.datasets[owner])
        for owner in group.owners
        if owner in federation.ledgers
    }
    collusion, noise = NO_SHARES, None
    if "computing_parties" in described:
        collusion = collusion_text(group, checked=described.get("verify", "none") != "none")
    if release is not None:
        noise = records.NoiseRecord(standard_deviation=release.noise, mu=str(release.mu), gamma=release.gamma)
    return records.RunRecord(
        name=name,
        version=__version__,
        versions={"colonnade": __version__, "python": platform.python_version(), "numpy": np.__version__},
        task=described["spec"]["task"],
        method=described["spec"]["method"],
        run=run.name,
        plan={"hash": plan.hash, **described},
        rows=plan.rows,
        parties=[_party(owner, group, described["schemas"][owner]) for owner in group.owners],
        server=records.PartyRecord(name=group.server, keeps_shares=group.server_keeps),
        private=not run.reproducible,
        warning=NOT_PRIVATE if run.reproducible else None,
        notes=list(notes),
        guarantees=[guarantee_facts(item) for item in plan.guarantees],
        noise=noise,
        collusion=collusion,
        model_facts=records.ModelFactsRecord.model_validate(model_facts),
        spectrum=None if release is None else records.SpectrumRecord.model_validate(spectrum_facts(release)),
        measured=None if measured is None else dict(measured),
        measured_on=None if measured is None else plan.rows,
        traffic=traffic_facts(run),
        ledgers={owner: totals_facts(*books) for owner, books in here.items()},
        before={owner: before_facts(*books, run.name) for owner, books in here.items()},
    )


def _party(owner: str, group: Group, schema: dict[str, Any]) -> records.PartyRecord:
    from colonnade.data.schema import PublicSchema

    labels = {"labels": len(schema["labels"])} if "labels" in schema else {}
    return records.PartyRecord(
        name=owner,
        columns=[column.name for column in PublicSchema.from_data(schema).columns],
        holds_label=owner == group.active,
        keeps_shares=owner in group.computing_parties,
        **labels,
    )


def guarantee_facts(item: Guarantee) -> records.GuaranteeRecord:
    return records.GuaranteeRecord(
        observer=item.observer.name,
        unit=item.unit.name,
        epsilon=item.epsilon,
        delta=item.delta,
        assumption=item.assumption,
        method=item.method,
        sentence=str(item),
    )


def traffic_facts(run: Run[Any]) -> records.TrafficRecord:
    outcome = run.outcome.shared
    rounds: Counter[str] = Counter()
    for traffic in outcome.traffic.values():
        rounds |= Counter(traffic.rounds_by_step)  # the larger of both
    return records.TrafficRecord(
        bytes=outcome.bytes_sent,
        rounds=outcome.rounds,
        steps=[
            records.StepRecord(step=step, bytes=size, rounds=rounds[step])
            for step, size in outcome.bytes_by_step.items()
        ],
        flows=[
            records.FlowRecord(sender=sender, to=to, step=step, bytes=size)
            for sender, traffic in outcome.traffic.items()
            for (to, step), size in traffic.sent.items()
        ],
    )


def collusion_text(group: Group, *, checked: bool) -> str:
    """What the sharing itself assumes, and what would be lost without it; `checked` if a member may deviate."""
    computing_parties, t = ", ".join(group.computing_parties), group.threshold
    alone = "no computing party alone learns" if t == 1 else f"no {t} computing parties together learn"
    deviating = "Everybody is taken to follow the protocol."
    if checked:
        deviating = "Every statement says how far a member may deviate from the protocol."
    return (
        f"The shares of all columns lie with {computing_parties}: {alone} anything from them but what is opened, "
        f"and any {t + 1} of them together could recover every column. {deviating}"
    )


def totals_facts(ledger: Ledger, dataset: str) -> records.LedgerRecord:
    """What others may read of a ledger: the accounts of one data set. Entries and head also speak of others."""
    whole = ledger_facts(ledger)
    return records.LedgerRecord(
        party=whole.party,
        totals=[total for total in whole.totals if total.dataset == dataset],
        exact=[item for item in whole.exact if item.dataset == dataset],
    )


def ledger_facts(ledger: Ledger) -> records.LedgerRecord:
    """Totals and history of one ledger, all data sets included: for the party that keeps it."""
    return entries_facts(ledger.entries())[0]


def entries_facts(entries: Sequence[Entry]) -> tuple[records.LedgerRecord, LedgerState]:
    """Totals and history of a ledger's entries, whose chain was checked, and the state that they make."""
    state = LedgerState("the ledger")
    for entry in entries:
        state.read(entry)
    record = records.LedgerRecord(
        party=state.party,
        head=entries[-1].hash,
        totals=[
            records.TotalRecord(
                dataset=total.dataset,
                unit=total.unit,
                observer=total.observer,
                epsilon=total.epsilon,
                delta=total.delta,
                budget=total.budget_epsilon,
                left=total.left,
                entries=total.entries,
                private=not total.reproducible,
                **({"otherwise": total.otherwise} if total.otherwise else {}),
            )
            for total in state.totals()
        ],
        exact=[
            records.ExactRecord(dataset=dataset, receiver=receiver, people=people)
            for (dataset, receiver), people in sorted(state.exact.items())
        ],
        entries=[
            records.EntryRecord(
                number=entry.seq, time=entry.time, kind=entry.kind, what=entry_text(entry), hash=entry.hash
            )
            for entry in entries
        ],
    )
    return record, state


def before_facts(ledger: Ledger, dataset: str, run: str) -> list[records.BeforeRecord]:
    """What every account of a data set stood at before the first charge of a run, in the order of the totals.

    ε is at the δ of the budget that governs the account now, so that before and after can be compared.
    """
    state = LedgerState("before the run")
    for entry in ledger.entries():
        if entry.kind == "charge" and entry.body["release"]["run"] == run:
            break
        state.read(entry)
    before = []
    for total in ledger.totals():
        if total.dataset == dataset:
            account = Account(total.dataset, total.unit, total.observer)
            epsilon = state.lost(account, total.delta).epsilon(total.delta)
            remains = left(total.budget_epsilon, epsilon)
            before.append(records.BeforeRecord(epsilon_before=epsilon, left_before=remains))
    return before


# What administrators who submit a job do, by the scheme of their signatures.
_SUBMITTED = {"proposal": "proposed", "confirmation": "confirmed"}


def entry_text(entry: Entry) -> str:
    body = entry.body
    match entry.kind:
        case "opened":
            begun = f", begun anew: {body['reason']}" if body.get("reason") else ""
            return f"the ledger of {body['party']}{begun}"
        case "budget":
            account = f"{body['dataset']!r} for unit {body['unit']}, observer {body['observer']}"
            return f"ε = {float(body['epsilon']):g} at δ = {body['delta']:g} of {account}"
        case "charge":
            release, run = body["release"], body["release"]["run"][:12]
            seeded = ", with seeded noise: no privacy" if release["reproducible"] else ""
            part = f", {release['part']['name']} part," if "part" in release else ""
            what = f"{release['what']} of {body['dataset']!r}{part}"
            return f"{what} to {release['receiver']}, run {run}{seeded}"
        case "compared":
            through = f", through {body['through']}" if "through" in body else ""
            partners = ", ".join(body["partners"])
            return f"ids of {body['dataset']!r} compared with {partners}{through}, run {body['run'][:12]}"
        case "decision":
            because = f": {body['because']}" if body["because"] else ""
            decided = "approved" if body["approved"] else "declined"
            said = _SUBMITTED.get(body["signature"].get("scheme"), decided)
            return f"{body['by']} {said} job {body['job']}, {body['what']}{because}"
        case _:
            return f"{body['party']}'s ledger stood at entry {body['entry']}"
