"""`colonnade party health`: whether a member is well, with an exit code for whoever watches it."""

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
    from colonnade.learn.health import health as measured
    from colonnade.runtime.kit import Kit

    found = Kit.load(kit)
    if found.kind == "admin":
        raise InputError(
            f"{kit} is an administrator's kit, which runs nothing. Name a party's or the server's."
        )
    facts = measured(found)
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
