"""What a run learnt, what each observer could learn, and what it cost: plain data for text, JSON and the page.

Everything here is public or belongs to post-processing: nothing in it was computed from rows, except figures
measured on data declared public, which say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import colonnade
from colonnade.learn.federation import Federation, Run
from colonnade.ledger import Ledger
from colonnade.privacy.guarantee import Guarantee

Facts = dict[str, Any]


def run_facts(
    run: Run,
    federation: Federation,
    *,
    name: str,
    learnt: Mapping[str, Any],
    measured: Mapping[str, float] | None,
) -> Facts:
    """Everything worth reading about one run. `measured` are figures on data declared public, or None."""
    release, plan, group = run.release, run.plan, run.plan.group
    return {
        "name": name,
        "version": colonnade.__version__,
        "task": plan.task,
        "run": release.run,
        "plan": {"hash": plan.hash, **plan.to_data()},
        "rows": plan.rows,
        "parties": [
            {
                "name": owner,
                "columns": [column.name for column in plan.encoders[owner].columns],
                "holds_label": owner == group.active,
                "keeps_shares": owner in group.keepers,
            }
            for owner in group.owners
        ],
        "server": {"name": group.server, "keeps_shares": group.server_keeps},
        "private": not release.reproducible,
        "guarantees": [guarantee_facts(item) for item in release.guarantees],
        "noise": {"standard_deviation": release.noise, "mu": str(release.mu), "gamma": release.gamma},
        "learnt": dict(learnt),
        "measured": None if measured is None else dict(measured),
        "traffic": traffic_facts(run),
        "ledgers": {owner: ledger_facts(federation.ledgers[owner]) for owner in group.owners},
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


def traffic_facts(run: Run) -> Facts:
    """Bytes and rounds, by sender, receiver and step."""
    flows = [
        {"from": sender, "to": to, "step": step, "bytes": size}
        for sender, traffic in run.outcome.traffic.items()
        for (to, step), size in traffic.sent.items()
    ]
    return {"bytes": run.outcome.bytes_sent, "rounds": run.outcome.rounds, "flows": flows}


def ledger_facts(ledger: Ledger) -> Facts:
    """Totals and history of one ledger."""
    receipt = ledger.receipt()
    return {
        "party": ledger.party,
        "head": receipt.head,
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
            for total in ledger.totals()
        ],
        "entries": [
            {"number": entry.seq, "kind": entry.kind, "time": entry.time, "hash": entry.hash}
            for entry in ledger.entries()
        ],
    }
