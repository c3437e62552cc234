"""`colonnade ledger`: what has left a house, and what is left of its budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colonnade.ledger import Ledger
    from colonnade.ledger.export import Exported

ON_PURPOSE = "on purpose"


def ledger(
    party: Path = typer.Argument(
        ..., metavar="PARTY", help="A party's own file (TOML), its ledger, or an export of it (JSON)."
    ),
    witness: list[Path] = typer.Option(
        [],
        "--witness",
        "-w",
        metavar="PEER",
        help="A peer's own file, ledger or export, whose receipts show if entries are missing here; repeat.",
    ),
    table: Path | None = typer.Option(
        None,
        "--csv",
        metavar="FILE",
        help="Write the history as a table: one line for each account and entry.",
    ),
    picture: Path | None = typer.Option(
        None, "--picture", metavar="FILE", help="Draw how much of each budget was spent when (.svg)."
    ),
    export: Path | None = typer.Option(
        None,
        "--export",
        metavar="FILE",
        help="Write every entry as JSON that can be checked without the ledger.",
    ),
    key: Path | None = typer.Option(
        None,
        "--key",
        metavar="FILE",
        help="Sign the export with the key in this file; made if it is not there.",
    ),
    signer: str | None = typer.Option(
        None, "--signer", metavar="KEY", help="Accept an export only if this public key signed it."
    ),
    new: bool = typer.Option(
        False,
        "--new",
        help="Begin a ledger again on purpose, for the party's own file; its first entry says so.",
    ),
    reason: str = typer.Option(
        ON_PURPOSE, "--reason", metavar="TEXT", help="Why, for the first entry of a --new ledger."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Verify a party's ledger or its export, and show what has left the house and what is left of each budget.

    The ledger's hash chain shows any change within its history. That its end was cut off shows only against the
    receipts that peers keep: name their ledgers, or exports of them, with --witness.

    An export has every entry and can be checked by whoever has the file, without the ledger: give it as PARTY.

    Examples (`colonnade demo` writes such files):

      colonnade ledger demo-run/clinic.toml

      colonnade ledger demo-run/clinic.ledger --witness demo-run/laboratory.ledger

      colonnade ledger demo-run/clinic.toml --csv clinic.csv --picture clinic.svg

      colonnade ledger demo-run/clinic.toml --export clinic.json --key officer.key

      colonnade ledger clinic.json --signer 5f0c…

    A ledger that is lost is restored from a copy. Where there is none, --new begins again, and what was spent before is
    no longer counted: the first entry says so to whoever reads it, and peers that hold receipts accept it.

      colonnade ledger clinic.toml --new --reason "the disk of 3 May is lost"
    """
    from colonnade.cli.ledger.files import write_files
    from colonnade.report.ledgers import verified, witness_of

    if key is not None and export is None:
        raise typer.BadParameter("--key signs an export. Add --export FILE.")
    if reason != ON_PURPOSE and not new:
        raise typer.BadParameter("--reason is for a ledger that is begun again. Add --new, or leave it out.")
    if new:
        from colonnade.cli.ledger.files import begin_anew

        begin_anew(party, reason)
    witnesses = [witness_of(path) for path in witness]
    public = _public(signer)
    if public is not None and party.suffix != ".json":
        raise typer.BadParameter("--signer is for an export; a ledger itself is not signed.")
    facts, entries, state = verified(party, witnesses, public)
    written = write_files(
        entries, state, facts["party"], table=table, picture=picture, export=export, key=key
    )
    if as_json:
        say_json({**facts, "written": written})
        return
    _say_verified(facts, witnesses)
    _say_totals(facts)
    for name, place in written.items():
        say(f"\n{name}: {place}")


def _public(signer: str | None) -> bytes | None:
    if signer is None:
        return None
    try:
        public = bytes.fromhex(signer)
    except ValueError:
        public = b""
    if len(public) != 32:
        raise InputError(
            "--signer: a public key is 64 hexadecimal digits, as the export's signature names it."
        )
    return public


def _say_verified(facts: dict[str, Any], witnesses: Sequence[Ledger | Exported]) -> None:
    verified = facts["verified"]
    say(
        f"Ledger of {facts['party']}: {verified['entries']} entries, and the chain of their hashes is in order."
    )
    if "signer" in facts:
        say(
            f"This is an export, signed by {facts['signer']}."
            if facts["signer"]
            else "This export is not signed."
        )
    if witnesses:
        names = ", ".join(peer.party for peer in witnesses)
        receipts = "1 receipt" if verified["receipts"] == 1 else f"{verified['receipts']} receipts"
        say(f"It agrees with {receipts} kept by {names}.")
    else:
        say("Not compared with any peer's receipts; --witness does.")


def _say_totals(facts: dict[str, Any]) -> None:
    from colonnade.privacy.words import observers_text, unit_text
    from colonnade.report.accounts import merged
    from colonnade.report.numbers import left_text
    from colonnade.report.plain import table_lines, wrapped
    from colonnade.report.text import budget_lines

    say("\nBudgets")
    for line in budget_lines([facts], width()):
        say(line)
    if facts["totals"]:
        say("\nOne further release that would still fit, with normal noise")
        rows = [
            (
                total["dataset"],
                observers_text(total["observers"]),
                unit_text(total["unit"], owner=facts["party"]),
                f"({total['unit']})",
                f"ε up to {left_text(total['fits'])}",
            )
            for total in merged(facts["totals"], apart=("fits",))
        ]
        rows.insert(0, ("data set", "who could learn", "about what", "", ""))
        for line in (
            *table_lines(rows, width()),
            *wrapped(["Costs do not simply add, so this can be more than what is left."], width()),
        ):
            say(line)
    say("\nHistory")
    lines = [
        (str(entry["number"]), f"{entry['time'][:19]}Z", entry["kind"], entry["what"], entry["hash"][:12])
        for entry in facts["entries"]
    ]
    for line in table_lines([("entry", "time", "kind", "what", "hash"), *lines], width()):
        say(line)
