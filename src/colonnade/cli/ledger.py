"""`colonnade ledger`: what has left a house, and what is left of its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from colonnade.cli.screen import say, say_json

EXAMPLE = """
Examples:

  colonnade ledger bank.toml

  colonnade ledger bank.ledger --witness insurer.ledger
"""


def ledger(
    party: Path = typer.Argument(..., help="A party's file (TOML), or its ledger."),
    witness: list[Path] = typer.Option(
        [],
        "--witness",
        "-w",
        help="A peer's ledger, whose receipts show if entries are missing here; repeat.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print totals and entries as JSON."),
) -> None:
    """Show and verify a party's ledger."""
    from colonnade.learn.jobs import PartyFile
    from colonnade.ledger import Ledger
    from colonnade.report.facts import ledger_facts
    from colonnade.report.text import totals_lines

    book = Ledger.open(PartyFile.load(party).ledger if party.suffix == ".toml" else party)
    receipts = [receipt for path in witness for receipt in Ledger.open(path).receipts(book.party)]
    verified = book.verify(receipts)
    facts: dict[str, Any] = ledger_facts(book)
    if as_json:
        say_json({**facts, "verified": {"entries": verified.entries, "receipts": verified.receipts}})
        return
    say(
        f"Ledger of {book.party}: {verified.entries} entries, chain in order, {verified.receipts} receipts agree."
    )
    for line in totals_lines(facts):
        say(f"  {line}")
    say("")
    for entry in facts["entries"]:
        say(f"  {entry['number']:>4}  {entry['time'][:19]}Z  {entry['kind']:<8} {entry['hash'][:16]}")


ledger.__doc__ = f"{ledger.__doc__}\n{EXAMPLE}"
