"""`colonnade plan`: what a job would promise, cost and bring, by every method, before anything is run or charged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from colonnade.cli.completing import complete_methods
from colonnade.cli.options import AS_JSON, PARTY_FILES, VERBOSE
from colonnade.cli.screen import progress, say, say_json, width
from colonnade.errors import InputError, JobError

if TYPE_CHECKING:
    from colonnade.data.schema import PublicSchema
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import PartyFile
    from colonnade.forecast.machine import Machine, NetworkLink

EXAMPLE = """
It reads schemas, not rows: say with --rows how many people the parties are expected to have in common. --count
takes the least number of rows of any party instead, and reads these numbers, and nothing else, from the data.

Every method that can do the task is rehearsed on invented people with the declared columns: bytes, rounds, seconds,
memory, and the error of the model on other invented people. What is too long to rehearse is rehearsed in part. Schemas
are those that the parties' own files name; of a party whose file is not here, NAME.schema.toml beside the job. Ledgers
are asked and not written.

Examples (`colonnade demo` writes such files):

  colonnade plan demo-run/job.toml --rows 455

  colonnade plan demo-run/job.toml --rows 455 --bandwidth 100 --latency 20 --held clinic=600
"""


def plan(
    job: Path = typer.Argument(..., metavar="JOB", help="The job file (TOML)."),
    rows: int | None = typer.Option(
        None, "--rows", "-n", metavar="N", help="How many people the parties will have in common."
    ),
    count: bool = typer.Option(False, "--count", help="Read the numbers of rows from the data instead."),
    held: list[str] = typer.Option(
        [],
        "--held",
        metavar="PARTY=N",
        help="How many people a party holds, if more than those in common; repeat.",
    ),
    party: list[Path] = PARTY_FILES,
    methods: str | None = typer.Option(
        None,
        "--methods",
        metavar="LIST",
        help="Only these methods beside the job's own, such as slr,local; or none, or all.",
        autocompletion=complete_methods,
    ),
    simulation: bool = typer.Option(
        True, "--simulation/--no-simulation", help="Whether to foretell the error of each model."
    ),
    effort: float = typer.Option(
        2.0, "--effort", metavar="SECONDS", help="How long a rehearsal of a whole run may take."
    ),
    bandwidth: float | None = typer.Option(
        None, "--bandwidth", metavar="MBIT", help="What each party's connection carries, in Mbit a second."
    ),
    latency: float = typer.Option(
        0.0, "--latency", metavar="MS", help="How long a message takes from party to party, in milliseconds."
    ),
    machine: Path | None = typer.Option(
        None, "--machine", metavar="FILE", help="Another machine: what --json printed there. Else this one."
    ),
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Say what a job would promise, cost and bring by each method, whether budgets admit it, and which to take."""
    from colonnade.cli.plan.facts import plan_facts
    from colonnade.cli.plan.text import plan_text
    from colonnade.federation.job import Job

    if (rows is None) != count:
        raise typer.BadParameter("give --rows N, or --count to read the numbers of rows, and not both.")
    if rows is not None and rows < 1:
        raise InputError(f"--rows: found {rows}; it must be at least 1.")
    line = _line(bandwidth, latency)
    if not (math.isfinite(effort) and effort >= 0):
        raise InputError(f"--effort: found {effort:g}; it must be a number of seconds from 0.")
    agreed = Job.load(job)
    files, schemas = _declared(agreed, party)
    counts = _counted(agreed, files) if rows is None else {}
    common = min(counts.values()) if rows is None else rows
    people = _held(agreed, held, common) | ({} if held else counts)
    with progress(not as_json, piped=True) as advance:
        facts = plan_facts(
            agreed,
            schemas,
            files=files,
            rows=common,
            held=people,
            named=_named(agreed, methods),
            simulated=simulation,
            effort=effort,
            line=line,
            there=None if machine is None else _loaded(machine),
            measured=as_json,
            advance=advance,
        )
    if as_json:
        say_json(facts)
        return
    say(plan_text(facts, width(), verbose=verbose))


plan.__doc__ = f"{plan.__doc__}\n{EXAMPLE}"


def _line(bandwidth: float | None, latency: float) -> NetworkLink:
    from colonnade.forecast.machine import NetworkLink

    if bandwidth is not None and not (math.isfinite(bandwidth) and bandwidth > 0):
        raise InputError(f"--bandwidth: found {bandwidth:g}; it must be a number of Mbit a second above 0.")
    if not (math.isfinite(latency) and latency >= 0):
        raise InputError(f"--latency: found {latency:g}; it must be a number of milliseconds from 0.")
    return NetworkLink(math.inf if bandwidth is None else bandwidth * 1e6, latency / 1e3)


def _loaded(path: Path) -> Machine:
    from colonnade.forecast.machine import Machine

    return Machine.load(path)


def _declared(job: Job, given: list[Path]) -> tuple[dict[str, PartyFile], dict[str, PublicSchema]]:
    """The parties' own files, as far as they are here, and every party's schema."""
    from colonnade.data.schema import Schema
    from colonnade.federation.party_file import party_files

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


def _counted(job: Job, files: Mapping[str, PartyFile]) -> dict[str, int]:
    missing = [party for party in job.parties if party not in files]
    if missing:
        raise JobError(
            f"--count needs the own file of {', '.join(missing)}. Give it with --party, or use --rows."
        )
    return {party: files[party].table().rows for party in job.parties}


def _held(job: Job, given: list[str], common: int) -> dict[str, int]:
    """How many people each party holds: those in common, unless --held says more."""
    from colonnade.data.declaring import nearest_name

    held = dict.fromkeys(job.parties, common)
    for text in given:
        party, _, number = text.partition("=")
        if party not in held:
            raise InputError(
                f"--held {text}: {party!r} is not among the parties ({', '.join(job.parties)})."
                + nearest_name(party, job.parties)
            )
        if not number.isdecimal() or int(number) < common:
            raise InputError(
                f"--held {text}: wanted {party}= and a number from {common}, which all parties have in common."
            )
        held[party] = int(number)
    return held


def _named(job: Job, listed: str | None) -> frozenset[str] | None:
    """The methods that were asked for beside the job's own; None for those that may be recommended."""
    from colonnade.methods.table import method_named, methods_for

    if listed is None:
        return None
    if listed.strip() == "all":
        return frozenset(method.name for method in methods_for(job.task))
    names = [name.strip() for name in listed.split(",") if name.strip() and name.strip() != "none"]
    return frozenset(method_named(name, job.task, place="--methods").name for name in names)
