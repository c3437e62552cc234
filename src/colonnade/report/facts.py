"""What a run learnt, what each observer could learn, and what it cost: plain data for text, JSON and the page."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade import __version__
from colonnade.ledger import Ledger
from colonnade.ledger.bounds import Account
from colonnade.ledger.entry_store import Entry
from colonnade.ledger.state import LedgerState, left
from colonnade.models.inputs import units
from colonnade.models.moments import default_floor, learnable_rank, noise_edge
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Uncertainty, Watch, noise_uncertainty
from colonnade.privacy.guarantee import Guarantee
from colonnade.runtime.party import Group

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation, Run, Site
    from colonnade.models.uncertainty import Watch


Array = NDArray[np.float64]

# Where on its declared range a number's effect is shown, from low to high.
PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)


def covers_text(rate: float) -> str:
    """What the intervals mean, and what they do not."""
    return (
        f"Intervals cover, {100 * rate:g} times in 100 on average over the columns, what the same rule with the same "
        "floor would have found without the noise that protects people. They do not say how other people's rows "
        "would have changed it (sampling error), and not what the floor damps."
    )


def learning_facts(
    release: MomentRelease, model_facts: Mapping[str, Any], watch: Watch | None = None
) -> dict[str, Any]:
    """Intervals around coefficients, and effects by column: what can be added to what a model says of itself.

    Nothing is added for components, and no intervals where the coefficients are not those of the default rule.
    """
    if not model_facts or "intercept" not in model_facts:
        return {}
    # A fit of the matched rule takes seconds, and intervals would take a hundred.
    matched = model_facts.get("rule", {}).get("name") == "matched"
    uncertainty = None if matched else noise_uncertainty(release, watch=watch)
    given = np.array(model_facts["coefficients"], dtype=np.float64)
    if len(given) > 1:
        given = given - given[
            [row for row in range(len(given)) if not uncertainty or row not in uncertainty.unknown]
        ].mean(axis=0)
    if uncertainty is not None and not np.allclose(uncertainty.coefficients, given, rtol=1e-6, atol=1e-9):
        uncertainty = None
    added: dict[str, Any] = {"by_column": _effects(release, model_facts["rows"], given, uncertainty)}
    if release.label.one_hot:
        added["count_noise"] = release.class_moments().count_noise
    if uncertainty is not None:
        widths = [[_finite(width) for width in row] for row in uncertainty.half_widths]
        added["intervals"] = {
            "rate": uncertainty.rate,
            "covers": covers_text(uncertainty.rate),
            "coefficients": given.tolist(),
            "half_widths": widths,
        }
    return added


def spectrum_facts(release: MomentRelease) -> dict[str, Any]:
    """Eigenvalues of the scatter against what noise alone shows; none where it drowned even the row count."""
    if not release.plain_moments().count > 0:
        return {"eigenvalues": [], "edge": 0.0, "floor": 0.0, "learnable_rank": 0}
    values = np.asarray(np.linalg.eigvalsh(release.plain_moments().scatter().matrix)[::-1], dtype=np.float64)
    return {
        "eigenvalues": [float(f"{value:.6g}") for value in values],
        "edge": noise_edge(release.noise, len(values)),
        "floor": release.noise * default_floor(len(values)),
        "learnable_rank": learnable_rank(values, release.noise),
    }


def _effects(
    release: MomentRelease, rows: list[str], coefficients: Array, uncertainty: Uncertainty | None
) -> list[dict[str, Any]]:
    """For every row of coefficients, its columns with their effects, the strongest first."""
    modes = {party: encoder.mode for party, encoder in release.encoders}
    columns: list[list[dict[str, Any]]] = [[] for _ in rows]
    for unit in units(release.encoders):
        if unit.mapped:
            # What went through a map together has no effect column by column.
            continue
        column = unit.columns[0]
        places, features = column.shown(modes[unit.party])
        combinations = np.zeros((len(places), release.columns))
        combinations[:, unit.span] = (features - features.mean(axis=0)) / math.sqrt(release.attributes)
        effects = coefficients @ combinations.T
        widths = None if uncertainty is None else uncertainty.half_widths_of(combinations)
        for number in range(len(rows)):
            points = [
                {
                    "at": at,
                    "effect": float(effects[number, place]),
                    "half_width": None if widths is None else _finite(widths[number, place]),
                }
                for place, at in enumerate(places)
            ]
            columns[number].append(
                {
                    "column": unit.name,
                    "owner": unit.party,
                    "ordered": column.ordered,
                    "points": points,
                    "range": float(np.ptp(effects[number])),
                }
            )
    return [
        {"row": row, "columns": sorted(found_columns, key=lambda item: -item["range"])}
        for row, found_columns in zip(rows, columns, strict=True)
        if found_columns
    ]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


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
    model_facts: Mapping[str, Any],
    measured: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
    watch: Watch | None = None,
) -> Facts:
    """Everything worth reading about one run: budgets and bytes of those who are here, all in one process.

    `measured` are figures on data declared public, or None; `notes` are what its reader should know besides. `watch`
    may skip the estimate of what noise did to the model, which is then a note.
    """
    # Here, because facts of ledgers are read without any model or table.
    from colonnade.data.schema import PublicSchema
    from colonnade.models.uncertainty import Watch

    release, plan, group = run.release, run.plan, run.plan.group
    described = plan.to_data()
    watch = watch or Watch()
    model = {**model_facts, **(learning_facts(release, model_facts, watch) if release is not None else {})}
    here = [owner for owner in group.owners if owner in federation.ledgers]
    return {
        "name": name,
        "version": __version__,
        "versions": {
            "colonnade": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "task": described["spec"]["task"],
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
                **_several_labels(described["schemas"][owner]),
                "keeps_shares": owner in group.computing_parties,
            }
            for owner in group.owners
        ],
        "server": {"name": group.server, "keeps_shares": group.server_keeps},
        "private": not run.reproducible,
        "warning": NOT_PRIVATE if run.reproducible else None,
        "notes": [*notes, *filter(None, [watch.skipped])],
        "guarantees": [guarantee_facts(item) for item in plan.guarantees],
        "noise": None
        if release is None
        else {"standard_deviation": release.noise, "mu": str(release.mu), "gamma": release.gamma},
        "collusion": collusion_text(group, checked=described.get("verify", "none") != "none")
        if "computing_parties" in described
        else NO_SHARES,
        "learnt": model,
        "spectrum": None if release is None else spectrum_facts(release),
        "measured": None if measured is None else dict(measured),
        "measured_on": None if measured is None else plan.rows,
        "traffic": traffic_facts(run),
        "ledgers": {
            owner: totals_facts(federation.ledgers[owner], federation.datasets[owner]) for owner in here
        },
        "before": {
            owner: before_facts(federation.ledgers[owner], federation.datasets[owner], run.name)
            for owner in here
        },
    }


def _several_labels(schema: Facts) -> Facts:
    return {"labels": len(schema["labels"])} if "labels" in schema else {}


def guarantee_facts(item: Guarantee) -> Facts:
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
    """Bytes and rounds of what everybody may read of, by sender, receiver and step."""
    outcome = run.outcome.shared
    flows = [
        {"from": sender, "to": to, "step": step, "bytes": size}
        for sender, traffic in outcome.traffic.items()
        for (to, step), size in traffic.sent.items()
    ]
    rounds: dict[str, int] = {}
    for traffic in outcome.traffic.values():
        for step, count in traffic.rounds_by_step.items():
            rounds[step] = max(count, rounds.get(step, 0))
    steps = [
        {"step": step, "bytes": size, "rounds": rounds.get(step, 0)}
        for step, size in outcome.bytes_by_step.items()
    ]
    return {"bytes": outcome.bytes_sent, "rounds": outcome.rounds, "steps": steps, "flows": flows}


def collusion_text(group: Group, *, checked: bool) -> str:
    """What the sharing itself assumes, and what would be lost without it; `checked` if a member may deviate."""
    computing_parties, t = ", ".join(group.computing_parties), group.threshold
    alone = "no computing party alone learns" if t == 1 else f"no {t} computing parties together learn"
    deviating = (
        "Every statement says how far a member may deviate from the protocol."
        if checked
        else "Everybody is taken to follow the protocol."
    )
    return (
        f"The shares of all columns lie with {computing_parties}: {alone} anything from them but what is opened, "
        f"and any "
        f"{t + 1} of them together could recover every column. {deviating}"
    )


def totals_facts(ledger: Ledger, dataset: str) -> Facts:
    """What others may read of a ledger: where the accounts of one data set stand.

    Entries, their number and the ledger's head also speak of other data sets.
    """
    whole = ledger_facts(ledger)
    return {
        "party": whole["party"],
        "totals": [total for total in whole["totals"] if total["dataset"] == dataset],
        "exact": [item for item in whole["exact"] if item["dataset"] == dataset],
    }


def ledger_facts(ledger: Ledger) -> Facts:
    """Totals and history of one ledger, all data sets included: for the party that keeps it."""
    return entries_facts(ledger.entries())[0]


def entries_facts(entries: Sequence[Entry]) -> tuple[Facts, LedgerState]:
    """Totals and history of a ledger's entries, whose chain was checked, and the state that they make."""
    state = LedgerState("the ledger")
    for entry in entries:
        state.read(entry)
    facts = {
        "party": state.party,
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
                **({"otherwise": total.otherwise} if total.otherwise else {}),
            }
            for total in state.totals()
        ],
        "exact": [
            {"dataset": dataset, "receiver": receiver, "people": people}
            for (dataset, receiver), people in sorted(state.exact.items())
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
    return facts, state


def before_facts(ledger: Ledger, dataset: str, run: str) -> list[Facts]:
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
        if total.dataset != dataset:
            continue
        account = Account(total.dataset, total.unit, total.observer)
        epsilon = state.lost(account, total.delta).epsilon(total.delta)
        before.append({"epsilon_before": epsilon, "left_before": left(total.budget_epsilon, epsilon)})
    return before


# What administrators who submit a job do, by the scheme of their signatures.
_SUBMITTED = {"proposal": "proposed", "confirmation": "confirmed"}


def entry_text(entry: Entry) -> str:
    """What one entry of a ledger says, in words."""
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
            return (
                f"{release['what']} of {body['dataset']!r}{part} to {release['receiver']}, run {run}{seeded}"
            )
        case "compared":
            through = f", through {body['through']}" if "through" in body else ""
            partners = ", ".join(body["partners"])
            return f"ids of {body['dataset']!r} compared with {partners}{through}, run {body['run'][:12]}"
        case "decision":
            because = f": {body['because']}" if body["because"] else ""
            said = _SUBMITTED.get(
                body["signature"].get("scheme"), "approved" if body["approved"] else "declined"
            )
            return f"{body['by']} {said} job {body['job']}, {body['what']}{because}"
        case _:
            return f"{body['party']}'s ledger stood at entry {body['entry']}"
