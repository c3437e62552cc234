"""What one party may read about its own part of a run, and nobody else: how often it clipped, how long it took.

Clipping counts and seconds depend on a party's rows. They are in no shared file and in no message.
"""

from __future__ import annotations

from typing import Any

from colonnade.evaluation.estimates import NumberEstimate
from colonnade.evaluation.evaluate import Evaluation
from colonnade.evaluation.held_out import HeldOut, estimate_alone
from colonnade.federation.federation import Federation, Run, Site
from colonnade.report.accounts import merged
from colonnade.report.evaluation import beside_text, estimate_facts, figure_rows
from colonnade.report.facts import Facts, ledger_facts
from colonnade.report.html import render


def party_facts(run: Run[Any], federation: Federation | Site, party: str, *, name: str) -> Facts:
    """Everything about a run that belongs to one owner of columns."""
    table, traffic = run.aligned[party].table, run.outcome.traffic[party]
    sent: dict[str, int] = {}
    for (_, step), size in traffic.sent.items():
        sent[step] = sent.get(step, 0) + size
    steps = dict.fromkeys([*traffic.seconds, *sent])
    return {
        "name": name,
        "party": party,
        "run": run.name,
        "plan": run.plan.hash,
        "dataset": federation.datasets[party],
        "rows": run.plan.rows,
        "clipped": dict(table.clipping.counts),
        "clipped_rows": table.clipping.rows,
        "warning": table.clipping.warning,
        "steps": [
            {"step": step, "seconds": traffic.seconds.get(step, 0.0), "bytes": sent.get(step, 0)}
            for step in steps
        ],
        "seconds": sum(traffic.seconds.values()),
        "ledger": ledger_facts(federation.ledgers[party]),
    }


def alone_facts(run: Run[Any], evaluation: HeldOut) -> dict[str, Facts]:
    """For the label holder, if it is here, what its own columns alone would have on the people evaluated on."""
    if not isinstance(evaluation, Evaluation):
        return {}
    alone = estimate_alone(run, evaluation)
    holder = run.plan.group.active
    if alone is None or holder is None:
        return {}
    facts = estimate_facts(alone)
    model = "linear regression" if isinstance(alone, NumberEstimate) else "logistic regression"
    return {holder: {"rows": figure_rows(facts), "beside": beside_text(facts), "model": model}}


def network_facts(evaluation: HeldOut) -> dict[str, Facts]:
    """For the label holder, if it is here, how good a network is by the scores with noise that it alone has."""
    if not isinstance(evaluation, Evaluation) or evaluation.receiver is None:
        return {}
    if evaluation.estimate is None and not evaluation.reason:
        return {}
    plan = evaluation.run.plan
    said: Facts = {"people": plan.rows, "deviation": plan.deviation, "told": evaluation.reason}
    if evaluation.estimate is not None:
        facts = estimate_facts(evaluation.estimate)
        said |= {"rows": figure_rows(facts), "beside": beside_text(facts)}
    return {evaluation.receiver: said}


def party_page(facts: Facts) -> str:
    """The page of one party, for it alone."""
    return render("party.html", facts, totals=merged(facts["ledger"]["totals"]))


def party_pages(
    run: Run[Any], federation: Federation | Site, *, name: str, evaluation: HeldOut = None
) -> dict[str, str]:
    """A page for every owner of columns who is here; only whoever simulates all parties can make them all."""
    alone, network = alone_facts(run, evaluation), network_facts(evaluation)
    return {
        owner: party_page(
            {
                **party_facts(run, federation, owner, name=name),
                "alone": alone.get(owner),
                "network": network.get(owner),
            }
        )
        for owner in run.aligned
    }
