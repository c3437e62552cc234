"""The page on which a job is planned: what it would cost and bring, before anything is paid."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from colonnade.board.drafts import Declared, Draft, declared_here
from colonnade.board.forecasts import Forecast
from colonnade.board.place import Place
from colonnade.cli.plan.text import method_rows, notes
from colonnade.errors import ColonnadeError, FileMissing
from colonnade.evaluation.held_out import holdout_text
from colonnade.forecast.default import trained_on
from colonnade.forecast.plan_job import (
    ask_budgets,
    costs_of,
    features_of,
    plan_job,
    refusals_for,
    warnings_for,
)
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS
from colonnade.privacy.words import about_text, observer_text, unit_text
from colonnade.protocols.plans import Plan, Task
from colonnade.report.facts import guarantee_facts
from colonnade.report.text import declared_text

Facts = dict[str, Any]
KEPT = 50
FIELDS = ("name", "task", "method", "epsilon", "delta", "held_out", "rows", "base", "every")
"""What the form asks for besides parties and columns; whatever sends it may leave some out."""


@dataclass
class Planned:
    """A plan that somebody made here, kept while the board runs."""

    key: str
    draft: Draft
    facts: Facts
    form: dict[str, str]
    saved: list[Path] = field(default_factory=list)


class Plans:
    """The plans of one board, the oldest of which are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[str, Planned] = OrderedDict()
        self._count = 0

    def add(self, draft: Draft, facts: Facts, form: dict[str, str]) -> Planned:
        with self._lock:
            self._count += 1
            made = self._made[str(self._count)] = Planned(str(self._count), draft, facts, form)
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
            return made

    def find(self, key: str) -> Planned:
        with self._lock:
            planned = self._made.get(key)
        if planned is None:
            raise FileMissing(
                f"there is no plan {key!r} here any more: plans are kept while the board runs. Make it again."
            )
        return planned

    def latest(self) -> list[Planned]:
        with self._lock:
            return list(self._made.values())[::-1]


def form_facts(place: Place, fields: dict[str, str]) -> Facts:
    """What the form shows: parties with their columns, methods and tasks, with what was chosen so far."""
    try:
        declared, problem = declared_here(place), ""
    except (ColonnadeError, OSError) as error:
        declared, problem = {}, str(error)
    named = any(name.startswith("party:") for name in fields)
    chosen = any(name.startswith("column:") for name in fields)
    return {
        "fields": {**dict.fromkeys(FIELDS, ""), "task": _task(declared), **fields},
        "problem": problem,
        "parties": [
            {
                "name": party,
                "known_from": one.known_from,
                "own": one.file is not None,
                "chosen": not named or f"party:{party}" in fields,
                "label": " and ".join(label.column for label in one.schema.labels),
                "columns": [
                    {
                        **column,
                        "declared": declared_text(column),
                        "chosen": not chosen or f"column:{party}:{column['name']}" in fields,
                    }
                    for column in _described(one)
                ],
            }
            for party, one in declared.items()
        ],
        "tasks": get_args(Task),
        "methods": [
            (method.name, method.title, ", ".join(method.tasks))
            for method in METHODS.values()
            if isinstance(method, Method)
        ],
        "jobs": [path.name for path in place.job_files()],
    }


def _described(one: Declared) -> list[dict[str, Any]]:
    described: Any = one.schema.to_data()["columns"]
    return list(described)


def _task(declared: dict[str, Declared]) -> str:
    labels = [one.schema.label for one in declared.values() if one.schema.label is not None]
    if not labels:
        return "pca"
    return "classification" if hasattr(labels[0], "classes") else "regression"


def promised(draft: Draft) -> Facts:
    """What the job promises and would cost each party here, from declarations and ledgers alone, at once."""
    job = draft.job
    rows = trained_on(draft.rows, job.held_out)
    plan = plan_job(job, draft.schemas, rows=rows)
    files, features = draft.files, features_of(job.task, draft.schemas)
    return {
        "rows": rows,
        "features": features,
        "method": job.method,
        "because": job.because,
        "judging": holdout_text(job),
        "guarantees": _guarantees(plan),
        "answers": ask_budgets(plan, files, held_out=job.held_out),
        "costs": [_costs(party, draft, plan) for party in files],
        "warnings": [
            *refusals_for(job, plan, files),
            *warnings_for(plan, epsilon=job.epsilon, features=features),
        ],
    }


def _guarantees(plan: Plan) -> list[Facts]:
    facts = [guarantee_facts(item) for item in plan.guarantees]
    owners = plan.group.owners
    return [{**item, "about": about_text(item["observer"], item["unit"], owners)} for item in facts]


def _costs(party: str, draft: Draft, plan: Plan) -> Facts:
    file = draft.files[party]
    try:
        costs = costs_of(plan, file, held_out=draft.job.held_out)
    except ColonnadeError as error:
        return {"party": party, "dataset": file.dataset, "error": str(error), "costs": []}
    return {"party": party, "dataset": file.dataset, "error": "", "costs": cost_lines(costs, party)}


def cost_lines(costs: Any, party: str) -> list[Facts]:
    """What each observer would learn and what would be left, in plain words."""
    return [
        {"who": observer_text(cost.observer), "about": unit_text(cost.unit, owner=party), "cost": cost}
        for cost in costs
    ]


def forecast_facts(made: Forecast | None) -> Facts | None:
    """A forecast for a page: the table of methods and how to read it, or how far it is, or why there is none."""
    if made is None:
        return None
    facts = made.facts
    if facts is None:
        return {"state": "wrong" if made.error else "going", "error": made.error, **made.words}
    # One method alone is compared with none.
    alone = len(facts["methods"]) == 1 and facts["recommended"]
    recommended = None if alone else facts["recommended"]
    return {
        "state": "done",
        "methods": method_rows(facts["methods"], recommended),
        "notes": notes(facts),
        "recommended": recommended or "",
        "why": "" if alone else facts["why"],
        "because": facts["because"],
        "method": facts["method"],
        "coding": facts["coding"],
    }
