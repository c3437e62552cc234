"""`colonnade plan`: what a job would promise and cost, before anything is run or charged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.screen import say, say_json, width
from colonnade.errors import InputError, JobError

if TYPE_CHECKING:
    from colonnade.data.schema import PublicSchema
    from colonnade.learn.jobs import Job
    from colonnade.learn.party_files import PartyFile
    from colonnade.learn.planning import Answer
    from colonnade.protocols.functional_plan import FunctionalPlan
    from colonnade.protocols.moments_plan import MomentsPlan
    from colonnade.protocols.plans import Plan

EXAMPLE = """
It reads schemas, not rows: say with --rows how many people the parties are expected to have in common. --count
takes the least number of rows of any party instead, and reads that number, and nothing else, from the data.

Schemas are those that the parties' own files name; of a party whose file is not here, NAME.schema.toml beside the
job. Ledgers are asked and not written. Noise, bytes and memory are told of methods that release once; introductions
and the matching of ids come on top.

Example (`colonnade demo` writes such files):

  colonnade plan demo-run/job.toml --rows 455
"""


def plan(
    job: Path = typer.Argument(..., metavar="JOB", help="The job file (TOML)."),
    rows: int | None = typer.Option(
        None, "--rows", "-n", metavar="N", help="How many people the parties will have in common."
    ),
    count: bool = typer.Option(False, "--count", help="Read the numbers of rows from the data instead."),
    party: list[Path] = typer.Option(
        [], "--party", "-p", metavar="FILE", help="A party's own file (TOML); repeat for each party."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
) -> None:
    """Say what a job would promise each observer, whether budgets admit it, and what a release costs in bytes."""
    from colonnade.learn.jobs import Job
    from colonnade.learn.planning import ask_budgets, plan_job

    if (rows is None) != count:
        raise typer.BadParameter("give --rows N, or --count to read the numbers of rows, and not both.")
    if rows is not None and rows < 1:
        raise InputError(f"--rows: found {rows}; it must be at least 1.")
    agreed = Job.load(job)
    files, schemas = _declared(agreed, party)
    planned = plan_job(agreed, schemas, rows=_counted(agreed, files) if rows is None else rows)
    facts = _facts(agreed, schemas, planned, ask_budgets(planned, files))
    if as_json:
        say_json(facts)
        return
    say(_text(facts, width()))


plan.__doc__ = f"{plan.__doc__}\n{EXAMPLE}"


def _declared(job: Job, given: list[Path]) -> tuple[dict[str, PartyFile], dict[str, PublicSchema]]:
    """The parties' own files, as far as they are here, and every party's schema."""
    from colonnade.data.schema import Schema
    from colonnade.learn.party_files import party_files

    def alone(party: str) -> Path:
        return job.path.parent / f"{party}.schema.toml"

    absent = {
        party
        for party in job.parties
        if not given and not (job.path.parent / f"{party}.toml").exists() and alone(party).exists()
    }
    files = party_files(job, given, among=[party for party in job.parties if party not in absent])
    paths = {party: files[party].schema if party in files else alone(party) for party in job.parties}
    return files, {party: Schema.load(path).public(party) for party, path in paths.items()}


def _counted(job: Job, files: Mapping[str, PartyFile]) -> int:
    missing = [party for party in job.parties if party not in files]
    if missing:
        raise JobError(
            f"--count needs the own file of {', '.join(missing)}. Give it with --party, or use --rows."
        )
    return min(file.table().rows for file in files.values())


def _facts(
    job: Job, schemas: Mapping[str, PublicSchema], plan: Plan, answers: tuple[Answer, ...]
) -> dict[str, Any]:
    from colonnade.learn.planning import features_of, warnings_for
    from colonnade.protocols.functional_plan import FunctionalPlan
    from colonnade.protocols.moments_plan import MomentsPlan
    from colonnade.report.facts import guarantee_facts

    features = features_of(job.task, schemas)
    return {
        "name": job.name,
        "task": job.task,
        "method": job.method,
        "rows": plan.rows,
        "features": features,
        "epsilon": job.epsilon,
        "delta": plan.delta,
        "plan": {"hash": plan.hash, **plan.to_data()},
        "guarantees": [guarantee_facts(item) for item in plan.guarantees],
        **(_moments_facts(plan) if isinstance(plan, MomentsPlan) else {}),
        **(_blocks_facts(plan) if isinstance(plan, FunctionalPlan) else {}),
        "budgets": [
            {"party": answer.party, "admits": answer.admits, "reason": answer.reason} for answer in answers
        ],
        "warnings": list(warnings_for(plan, epsilon=job.epsilon, features=features)),
    }


def _moments_facts(plan: MomentsPlan) -> dict[str, Any]:
    """Noise, bytes and memory of a moment release."""
    from colonnade.learn.planning import noise_of

    noise = noise_of(plan)
    # One person moves the moment of two columns by at most 1/m.
    return {"noise": {"standard_deviation": noise, "people": noise * plan.attributes}, **_cost_facts(plan)}


def _blocks_facts(plan: FunctionalPlan) -> dict[str, Any]:
    """Whose coefficients an objective has, what each block and each party's part costs, noise, bytes and memory."""
    from dataclasses import asdict

    from colonnade.learn.method_functional import notes_on

    noise = max(line.deviation for line in plan.bill)
    # In the box a person moves the product of two columns by at most 1.
    people = noise * (plan.attributes if plan.domain == "ball" else 1)
    return {
        "blocks": [asdict(line) for line in plan.bill],
        "block_lines": list(notes_on(plan)),
        "noise": {"standard_deviation": noise, "people": people},
        **_cost_facts(plan),
    }


def _cost_facts(plan: MomentsPlan | FunctionalPlan) -> dict[str, Any]:
    """Bytes and memory, by running the plan on blanks."""
    from colonnade.learn.planning import price

    cost = price(plan)
    return {
        "traffic": {"bytes": cost.bytes_sent, "rounds": cost.rounds, "steps": dict(cost.bytes_by_step)},
        "memory": {"bytes": cost.memory, "matched_rows": cost.held},
    }


def _text(facts: dict[str, Any], columns: int | None) -> str:
    from colonnade.report.text import table_lines

    lines = [
        facts["name"],
        f"  {facts['task']} by {facts['method']} on {facts['rows']} people with {facts['features']} features, "
        f"plan {facts['plan']['hash'][:12]}",
    ]
    if facts["warnings"]:
        lines += ["", "Warnings", *_wrapped(facts["warnings"], columns)]
    lines += ["", "What each observer could learn at most"]
    lines += _wrapped([item["sentence"] for item in facts["guarantees"]], columns)
    if "noise" in facts:
        lines += _cost_lines(facts, columns)
    if "blocks" in facts:
        lines += ["", "Blocks of the objective", *_wrapped(facts["block_lines"], columns)]
    lines += ["", "Budgets"]
    words = {True: "yes", False: "no", None: "not known"}
    lines += table_lines(
        [(item["party"], words[item["admits"]], item["reason"]) for item in facts["budgets"]]
    )
    lines += ["", "Nothing was run or charged."]
    return "\n".join(lines)


def _cost_lines(facts: dict[str, Any], columns: int | None) -> list[str]:
    from colonnade.report.text import size_text, table_lines

    noise, traffic, memory = facts["noise"], facts["traffic"], facts["memory"]
    deviation, people = noise["standard_deviation"], noise["people"]
    lines = ["", "Noise"]
    lines += _wrapped(
        [
            f"The moment of two columns gets noise of standard deviation {deviation:.3g}. {people:,.0f} people could "
            f"move it as far at most, {people / facts['rows']:.2g} of the {facts['rows']} who take part."
        ],
        columns,
    )
    lines += ["", "Cost"]
    lines += table_lines(
        [
            (
                "sent",
                f"about {size_text(traffic['bytes'])} in {traffic['rounds']} rounds, ids and introductions aside",
            ),
            (
                "memory",
                f"up to about {size_text(memory['bytes'])}, and {size_text(memory['matched_rows'])} of matched rows",
            ),
        ]
    )
    return lines


def _wrapped(sentences: list[str], columns: int | None) -> list[str]:
    import textwrap

    if columns is None:
        return [f"  - {sentence}" for sentence in sentences]
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(
            sentence,
            max(columns, 40),
            initial_indent="  - ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
    ]
