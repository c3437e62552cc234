"""`colonnade party health` and `clean`: whether a member is well, and what of runs that failed is destroyed."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json
from colonnade.errors import InputError


def health(
    kit: Path = typer.Argument(..., metavar="KIT", help="A party's or the server's kit."),
    as_json: bool = AS_JSON,
) -> None:
    """Say how a member is: connected or not, certificate, ledger, disk, jobs. Exit code 0 if all is well, 3 if not.

    Example:

      colonnade party health bank/kit
    """
    from colonnade.federation.health import health as measured
    from colonnade.runtime.kit import Kit

    place = Kit.load(kit)
    if place.kind == "admin":
        raise InputError(
            f"{kit} is an administrator's kit, which runs nothing. Name a party's or the server's."
        )
    facts = measured(place)
    if as_json:
        say_json(facts.to_data())
    else:
        heard = "" if facts.heard_seconds is None else f", heard {facts.heard_seconds:.0f} s ago"
        say(f"{facts.member} is {'connected' if facts.connected else 'not connected'}{heard}")
        say(f"  certificate  {facts.certificate_days} days left")
        say(f"  ledger       {'in order' if facts.ledger_verified is not None else 'none that is in order'}")
        say(f"  disk         {facts.free_disk >> 20} MB free")
        say(f"  jobs         {', '.join(f'{count} {state}' for state, count in facts.jobs.items())}")
        for problem in facts.problems:
            say(f"PROBLEM  {problem}")
    if not facts.fine:
        raise typer.Exit(InputError.exit_code)


def clean(
    kit: Path = typer.Argument(..., metavar="KIT", help="A party's or the server's kit."),
    days: float | None = typer.Option(
        None, "--older-than", metavar="DAYS", help="Instead of `record_days` of the party's file."
    ),
    only_say: bool = typer.Option(
        False, "--dry-run", help="Say what would be destroyed, and destroy nothing."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Destroy the records of runs that failed long ago; they are as private as the data. Ledgers and logs stay.

    What FLARE keeps of jobs that ended by then goes too, at the server with its list of them.

    A record lets a run go on (`colonnade job resume`). It is kept for `record_days` of the party's file, 30 by default.

    Example:

      colonnade party clean bank/kit
    """
    from colonnade.federation.cleaning import clean as cleaned
    from colonnade.runtime.kit import Kit

    destroyed = cleaned(Kit.load(kit), days=days, only_say=only_say)
    if as_json:
        say_json({"destroyed": [str(path) for path in destroyed], "dry_run": only_say})
        return
    for path in destroyed:
        say(f"{'would destroy' if only_say else 'destroyed'} {path}")
    if not destroyed:
        say("There is nothing to destroy.")
