"""Finished runs to report on, small enough to make anew, as facts that tests may change."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from typed import untyped

from colonnade import Federation, LogisticRegression, Schema, Table
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.federation.train import model_facts
from colonnade.report import html, text
from colonnade.report.facts import run_facts
from colonnade.report.lab import audit_section
from colonnade.report.plain import Section
from colonnade.report.record import AuditRecord, RunRecord

Facts = dict[str, Any]

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'name'"
BUDGET = 3.0


def made(*, seed: int | None = None, column: str = "age", name: str = "Risk") -> tuple[Facts, Federation]:
    rng, rows = np.random.default_rng(2), 300
    age, spent = rng.uniform(18, 90, rows), rng.uniform(0, 100, rows)
    risk = np.where(age / 90 + spent / 100 > 1, "high", "low")
    bank = Schema("n", (NumericColumn(column, 18.0, 90.0),), ClassLabel("risk", ("low", "high")))
    shop = Schema("n", (NumericColumn("spent", 0.0, 100.0),))
    held = Table.from_arrays("bank", {column: age, "risk": risk}, bank)
    tables = [held, Table.from_arrays("shop", {"spent": spent}, shop)]
    federation = Federation(tables, budget=(BUDGET, 1e-5), noise_seed=seed)
    # Pages of a release have the most to say: eigenvalues, intervals, classes.
    model = LogisticRegression(epsilon=1.0, method="moments").fit(federation)
    run = federation.runs[-1]
    found = model_facts(model, untyped(run.release))
    return run_facts(run, federation, name=name, model_facts=found).to_data(), federation


def run_page(facts: Mapping[str, Any], alongside: list[Section] | None = None) -> str:
    """The page of a run's facts, with the audit that may lie among them."""
    audit = audit_section(AuditRecord.model_validate(facts["audit"])) if "audit" in facts else None
    return html.run_page(RunRecord.model_validate(facts), alongside or (), audit=audit)


def run_text(facts: Mapping[str, Any], *, width: int | None = None, verbose: bool = False) -> str:
    return text.run_text(RunRecord.model_validate(facts), width=width, verbose=verbose)


@cache
def private_run() -> tuple[Facts, Federation]:
    return made()


@cache
def seeded_run() -> tuple[Facts, Federation]:
    return made(seed=7)


@cache
def hostile_run() -> tuple[Facts, Federation]:
    return made(column=HOSTILE, name=HOSTILE)
