"""`colonnade ledger`: what has left a house, and what is left of its budget."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.screen import say, say_json
from colonnade.errors import LedgerError

EXAMPLE = """
The ledger's hash chain shows any change within its history. That its end was cut off shows only against the
receipts that peers keep: name their ledgers with --witness.

Examples (`colonnade demo` writes such files):

  colonnade ledger demo-run/clinic.toml

  colonnade ledger demo-run/clinic.ledger --witness demo-run/laboratory.ledger
"""


def ledger(
    party: Path = typer.Argument(..., metavar="PARTY", help="A party's own file (TOML), or its ledger."),
    witness: list[Path] = typer.Option(
        [],
        "--witness",
        "-w",
        metavar="PEER",
        help="A peer's own file or ledger, whose receipts show if entries are missing here; repeat.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
) -> None:
    """Verify a party's ledger, and show what has left the house and what is left of each budget."""
    from colonnade.ledger import Ledger
    from colonnade.report.facts import ledger_facts
    from colonnade.report.text import budget_lines, table_lines

    book = Ledger.open(_path(party))
    witnesses = [Ledger.open(_path(path)) for path in witness]
    for peer in witnesses:
        if peer.party == book.party:
            raise LedgerError(f"--witness: a ledger of {book.party} is no witness for itself. Name a peer's.")
    verified = book.verify([receipt for peer in witnesses for receipt in peer.receipts(book.party)])
    facts = ledger_facts(book)
    if as_json:
        say_json({**facts, "verified": {"entries": verified.entries, "receipts": verified.receipts}})
        return
    say(f"Ledger of {book.party}: {verified.entries} entries, and the chain of their hashes is in order.")
    if witnesses:
        names = ", ".join(peer.party for peer in witnesses)
        receipts = "1 receipt" if verified.receipts == 1 else f"{verified.receipts} receipts"
        say(f"It agrees with {receipts} kept by {names}.")
    else:
        say("Not compared with any peer's receipts; --witness does.")
    say("\nBudgets")
    for line in budget_lines([facts]):
        say(line)
    say("\nHistory")
    rows = [
        (str(entry["number"]), f"{entry['time'][:19]}Z", entry["kind"], entry["what"], entry["hash"][:12])
        for entry in facts["entries"]
    ]
    for line in table_lines([("entry", "time", "kind", "what", "hash"), *rows]):
        say(line)


ledger.__doc__ = f"{ledger.__doc__}\n{EXAMPLE}"


def _path(given: Path) -> Path:
    """The ledger that a person means: the file itself, or the one that a party's own file names."""
    from colonnade.learn.party_files import PartyFile

    if given.suffix != ".toml":
        return given
    file = PartyFile.load(given)
    if not file.ledger.exists():
        raise LedgerError(
            f"{file.path}, ledger: {file.ledger} does not exist. It is made by {file.party}'s first run; if there "
            "was one, correct the path."
        )
    return file.ledger
