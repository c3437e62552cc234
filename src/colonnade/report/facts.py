"""What a run learnt, what each observer could learn, and what it cost: plain data for text, JSON and the page.

Everything here is public or belongs to post-processing: nothing in it was computed from rows, except figures
measured on data declared public, which say so.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colonnade import __version__
from colonnade.data.schema import PublicSchema
from colonnade.learn.federation import Federation, Run, Site
from colonnade.ledger import Ledger
from colonnade.ledger.book import Book, left
from colonnade.ledger.budget import Account
from colonnade.ledger.chain import Entry
from colonnade.privacy.guarantee import Guarantee
from colonnade.report.learning import learning_facts, spectrum_facts
from colonnade.runtime.group import Group

Facts = dict[str, Any]

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
    learnt: Mapping[str, Any],
    measured: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
) -> Facts:
    """Everything worth reading about one run: budgets and bytes of those who are here, all in one process.

    `measured` are figures on data declared public, or None; `notes` are what its reader should know besides.
    """
    release, plan, group = run.release, run.plan, run.plan.group
    described = plan.to_data()
    here = [owner for owner in group.owners if owner in federation.ledgers]
    return {
        "name": name,
        "version": __version__,
        "versions": {
            "colonnade": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "task": described["task"],
        "method": described["protocol"],
        "run": run.name,
        "plan": {"hash": plan.hash, **described},
        "rows": plan.rows,
        "parties": [
            {
                "name": owner,
                "columns": [
                    column.name for column in PublicSchema.from_data(described["schemas"][owner]).columns
                ],
                "holds_label": owner == group.active,
                "keeps_shares": owner in group.keepers,
            }
            for owner in group.owners
        ],
        "server": {"name": group.server, "keeps_shares": group.server_keeps},
        "private": not run.reproducible,
        "warning": NOT_PRIVATE if run.reproducible else None,
        "notes": list(notes),
        "guarantees": [guarantee_facts(item) for item in plan.guarantees],
        "noise": None
        if release is None
        else {"standard_deviation": release.noise, "mu": str(release.mu), "gamma": release.gamma},
        "collusion": collusion_text(group) if "keepers" in described else NO_SHARES,
        "learnt": {**learnt, **(learning_facts(release, learnt) if release is not None else {})},
        "spectrum": None if release is None else spectrum_facts(release),
        "measured": None if measured is None else dict(measured),
        "traffic": traffic_facts(run),
        "ledgers": {owner: ledger_facts(federation.ledgers[owner]) for owner in here},
        "before": {owner: before_facts(federation.ledgers[owner], run.name) for owner in here},
    }


def guarantee_facts(item: Guarantee) -> Facts:
    """One guarantee with its sentence."""
    return {
        "observer": item.observer.name,
        "unit": item.unit.name,
        "epsilon": item.epsilon,
        "delta": item.delta,
        "assumption": item.assumption,
        "method": item.method,
        "sentence": str(item),
    }


def traffic_facts(run: Run[Any]) -> Facts:
    """Bytes and rounds, by sender, receiver and step."""
    flows = [
        {"from": sender, "to": to, "step": step, "bytes": size}
        for sender, traffic in run.outcome.traffic.items()
        for (to, step), size in traffic.sent.items()
    ]
    rounds: dict[str, int] = {}
    for traffic in run.outcome.traffic.values():
        for step, count in traffic.rounds_by_step.items():
            rounds[step] = max(count, rounds.get(step, 0))
    steps = [
        {"step": step, "bytes": size, "rounds": rounds.get(step, 0)}
        for step, size in run.outcome.bytes_by_step.items()
    ]
    return {"bytes": run.outcome.bytes_sent, "rounds": run.outcome.rounds, "steps": steps, "flows": flows}


def collusion_text(group: Group) -> str:
    """What the sharing itself assumes, and what would be lost without it."""
    keepers, t = ", ".join(group.keepers), group.threshold
    alone = "no keeper alone learns" if t == 1 else f"no {t} keepers together learn"
    return (
        f"The shares of all columns lie with {keepers}: {alone} anything from them but what is opened, and any "
        f"{t + 1} of them together could recover every column. Everybody is taken to follow the protocol."
    )


def ledger_facts(ledger: Ledger) -> Facts:
    """Totals and history of one ledger."""
    return entries_facts(ledger.entries())[0]


def entries_facts(entries: Sequence[Entry]) -> tuple[Facts, Book]:
    """Totals and history of a ledger's entries, whose chain was checked, and the book that they make."""
    book = Book("the ledger")
    for entry in entries:
        book.read(entry)
    facts = {
        "party": book.party,
        "head": entries[-1].hash,
        "totals": [
            {
                "dataset": total.dataset,
                "unit": total.unit,
                "observer": total.observer,
                "epsilon": total.epsilon,
                "delta": total.delta,
                "budget": total.budget_epsilon,
                "left": total.left,
                "entries": total.entries,
                "private": not total.reproducible,
            }
            for total in book.totals()
        ],
        "exact": [
            {"dataset": dataset, "receiver": receiver, "people": people}
            for (dataset, receiver), people in sorted(book.exact.items())
        ],
        "entries": [
            {
                "number": entry.seq,
                "time": entry.time,
                "kind": entry.kind,
                "what": entry_text(entry),
                "hash": entry.hash,
            }
            for entry in entries
        ],
    }
    return facts, book


def before_facts(ledger: Ledger, run: str) -> list[Facts]:
    """What every account stood at before the first charge of a run, in the order of the totals.

    ε is at the δ of the budget that governs the account now, so that before and after can be compared.
    """
    book = Book("before the run")
    for entry in ledger.entries():
        if entry.kind == "charge" and entry.body["release"]["run"] == run:
            break
        book.read(entry)
    found = []
    for total in ledger.totals():
        epsilon = book.lost(Account(total.dataset, total.unit, total.observer)).epsilon(total.delta)
        found.append({"epsilon_before": epsilon, "left_before": left(total.budget_epsilon, epsilon)})
    return found


def entry_text(entry: Entry) -> str:
    """What one entry of a ledger says, in words."""
    body = entry.body
    match entry.kind:
        case "opened":
            return f"the ledger of {body['party']}"
        case "budget":
            return (
                f"ε = {body['epsilon']:g} at δ = {body['delta']:g} of {body['dataset']!r} for unit {body['unit']}, "
                f"observer {body['observer']}"
            )
        case "charge":
            release, run = body["release"], body["release"]["run"][:12]
            seeded = ", with seeded noise: no privacy" if release["reproducible"] else ""
            return f"{release['what']} of {body['dataset']!r} to {release['receiver']}, run {run}{seeded}"
        case _:
            return f"{body['party']}'s ledger stood at entry {body['entry']}"
