"""`colonnade plan`: what a job would promise, cost and bring, by every method, before anything is run or charged."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from colonnade.cli import screen
from colonnade.cli.screen import Answer, as_json, check_least, flag, option, progress
from colonnade.errors import InputError


def plan(
    job: Path = screen.JOB,
    rows: int | None = option("--rows -n N", "How many people the parties will have in common."),
    count: bool = flag("--count", "Read the numbers of rows from the data instead."),
    held: list[str] = option(
        "--held PARTY=N", "How many people a party holds, if more than those in common; repeat.", []
    ),
    party: list[Path] = screen.PARTY_FILES,
    methods: str | None = option(
        "--methods LIST", "Only these methods beside the job's own, such as slr,local; or none, or all."
    ),
    simulation: bool = option(
        "--simulation/--no-simulation", "Whether to estimate each model's error.", True
    ),
    effort: float = option("--effort SECONDS", "How long a trial of a method may take.", 2.0),
    bandwidth: float | None = option(
        "--bandwidth MBIT", "What each party's connection carries, in Mbit a second."
    ),
    latency: float = option(
        "--latency MS", "How long a message takes from party to party, in milliseconds.", 0.0
    ),
    verbose: bool = screen.VERBOSE,
) -> Answer:
    """Say what a job would promise, cost and bring by each method, whether budgets admit it, and which to take.

    It reads schemas, not rows: say with --rows how many people the parties are expected to have in common. --count
    takes the least number of rows of any party instead, and reads these numbers, and nothing else, from the data.

    Every method that can do the task is rehearsed on synthetic people with the declared columns: bytes, rounds, seconds
    and memory by short runs, and the error of the model by trials on some thousand people. Schemas are those that the
    parties' own files name; of a party whose file is not here, NAME.schema.toml beside the job. Ledgers are asked and
    not written.

    Examples (`colonnade demo` writes such files):
      colonnade plan demo-run/job.toml --rows 455
      colonnade plan demo-run/job.toml --rows 455 --bandwidth 100 --latency 20 --held clinic=600
    """
    from colonnade.cli import plan_answer as answers
    from colonnade.federation.job import Job

    if (rows is None) != count:
        raise typer.BadParameter("give --rows N, or --count to read the numbers of rows, and not both.")
    check_least("--rows", rows, 1)
    line = answers.network_line(bandwidth, latency)
    if not (math.isfinite(effort) and effort >= 0):
        raise InputError(f"--effort: found {effort:g}; it must be a number of seconds from 0.")
    agreed = Job.load(job)
    files, schemas = answers.declared(agreed, party)
    counts = answers.counted_rows(agreed, files) if rows is None else {}
    common = min(counts.values()) if rows is None else rows
    people = answers.party_sizes(agreed, held, common) | ({} if held else counts)
    with progress(piped=True) as advance:
        facts = answers.plan_facts(
            agreed,
            schemas,
            files=files,
            rows=common,
            sizes=people,
            named=answers.named_methods(agreed, methods),
            simulated=simulation,
            effort=effort,
            line=line,
            measured=as_json(),
            advance=advance,
        )
    return Answer(facts, lambda wide: answers.plan_text(facts, wide, verbose=verbose))
