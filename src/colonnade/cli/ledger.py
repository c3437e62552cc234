"""`colonnade ledger`: what has left an organisation, and what is left of its budget."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from colonnade.cli.screen import FREE, Answer, argument, check_free, flag, option
from colonnade.errors import InputError, NameInUse
from colonnade.report.plain import left_text, merged, table_lines, wrapped
from colonnade.runs.drafts import free_name, write_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colonnade.ledger import Ledger
    from colonnade.ledger.entry_store import Entry
    from colonnade.ledger.export import Exported
    from colonnade.report.record import LedgerRecord


def write_files(
    entries: tuple[Entry, ...],
    ledger: Ledger | None,
    party: str,
    *,
    table: Path | None,
    picture: Path | None,
    export: Path | None,
    key: Path | None,
) -> dict[str, str]:
    """Write what was asked for; returns what each file is and where it lies. No file is written over another."""
    from colonnade.ledger.export import export as exported
    from colonnade.ledger.export import signing_key
    from colonnade.report.charts import check_plot_path, draw
    from colonnade.report.ledgers import history_csv, timeline

    for path in (table, picture, export):
        check_free(path, "", FREE)
    if picture is not None:
        check_plot_path(picture)
    if export is not None and ledger is None:
        raise InputError("--export: PARTY is an export already. Give the party's own file or its ledger.")
    written = {"Table": table, "Picture": picture, "Export": export}
    said = {name: str(path) for name, path in written.items() if path is not None}
    if table is not None:
        write_named(table, history_csv(entries), own=True)
    if picture is not None:
        chart = timeline(entries, party=party)
        draw(picture, chart.lines, chart.axes, title=chart.title)
    if export is not None and ledger is not None:
        signing = None if key is None else signing_key(key)
        write_named(export, exported(ledger, signing), own=True)
        said |= {} if signing is None else {"Signed by": signing.public.hex()}
    return said


def begin_anew(given: Path, reason: str) -> None:
    """Begin the ledger that a party's file names again, on purpose; one that holds charges is never set aside."""
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    if given.suffix != ".toml":
        raise InputError(
            f"--new: {given} is not a party file. Give the party's own file (TOML), which names the ledger."
        )
    if not reason.strip():
        raise InputError("--reason: it is empty. Say why the ledger is begun again, or leave it out.")
    file = PartyFile.load(given)
    if file.ledger.exists():
        before = Ledger.open(file.ledger, patience=file.patience)
        if any(entry.kind == "charge" for entry in before.entries()):
            raise NameInUse(
                f"--new: {file.ledger} is there and holds charges. Go on with it; if it must be given up, move it away "
                "yourself, and keep it."
            )
        file.ledger.rename(free_name(file.ledger.with_name(f"{file.ledger.name}.before")))
    Ledger.create(file.ledger, file.party, patience=file.patience, reason=reason)


ON_PURPOSE = "on purpose"


def ledger(
    party: Path = argument("PARTY", "A party's own file (TOML), its ledger, or an export of it (JSON)."),
    witness: list[Path] = option(
        "--witness -w PEER",
        "A peer's own file, ledger or export, whose receipts show if entries are missing here; repeat.",
        [],
    ),
    table: Path | None = option(
        "--csv FILE", "Write the history as a table: one line for each account and entry."
    ),
    picture: Path | None = option("--picture FILE", "Draw how much of each budget was spent when (.svg)."),
    export: Path | None = option(
        "--export FILE", "Write every entry as JSON that can be checked without the ledger."
    ),
    key: Path | None = option(
        "--key FILE", "Sign the export with the key in this file; made if it is not there."
    ),
    signer: str | None = option("--signer KEY", "Accept an export only if this public key signed it."),
    new: bool = flag(
        "--new", "Begin a ledger again on purpose, for the party's own file; its first entry says so."
    ),
    reason: str = option("--reason TEXT", "Why, for the first entry of a --new ledger.", ON_PURPOSE),
) -> Answer:
    """Verify a party's ledger or its export, and show what was released and what is left of each budget.

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
    from colonnade.report.ledgers import verified, witness_of

    if key is not None and export is None:
        raise typer.BadParameter("--key signs an export. Add --export FILE.")
    if reason != ON_PURPOSE and not new:
        raise typer.BadParameter("--reason is for a ledger that is begun again. Add --new, or leave it out.")
    if new:
        begin_anew(party, reason)
    witnesses = [witness_of(path) for path in witness]
    public = None
    if signer is not None:
        with suppress(ValueError):
            public = bytes.fromhex(signer)
        if public is None or len(public) != 32:
            raise InputError(
                "--signer: a public key is 64 hexadecimal digits, as the export's signature names it."
            )
    if public is not None and party.suffix != ".json":
        raise typer.BadParameter("--signer is for an export; a ledger itself is not signed.")
    record, entries, state = verified(party, witnesses, public)
    written = write_files(entries, state, record.party, table=table, picture=picture, export=export, key=key)
    files = "".join(f"\n\n{name}: {place}" for name, place in written.items())
    return Answer(
        {**record.to_data(), "written": written},
        lambda wide: "\n".join([*_verified_lines(record, witnesses), *_totals_lines(record, wide)]) + files,
    )


def _verified_lines(record: LedgerRecord, witnesses: Sequence[Ledger | Exported]) -> list[str]:
    verified = record.verified
    lines = [
        f"Ledger of {record.party}: {verified['entries']} entries, and the chain of their hashes is in order."
    ]
    if "signer" in record.model_fields_set:
        signed = f"This is an export, signed by {record.signer}."
        lines.append(signed if record.signer else "This export is not signed.")
    names = ", ".join(peer.party for peer in witnesses)
    receipts = "1 receipt" if verified["receipts"] == 1 else f"{verified['receipts']} receipts"
    agrees = f"It agrees with {receipts} kept by {names}."
    return [*lines, agrees if witnesses else "Not compared with any peer's receipts; --witness does."]


def _totals_lines(record: LedgerRecord, wide: int | None) -> list[str]:
    from colonnade.privacy.observers import observers_text, unit_text
    from colonnade.report.text import budget_lines

    lines = ["\nBudgets", *budget_lines([record], wide)]
    if record.totals:
        rows = [
            (
                one.total.dataset,
                observers_text(one.observers),
                unit_text(one.total.unit, owner=record.party),
                f"({one.total.unit})",
                f"ε up to {left_text(one.total.fits)}",
            )
            for one in merged(record.totals, fits=True)
        ]
        lines += ["\nOne further release that would still fit, with normal noise"]
        lines += table_lines([("data set", "who could learn", "about what", "", ""), *rows], wide)
        lines += wrapped(["Costs do not simply add, so this can be more than what is left."], wide)
    entries = [
        (str(entry.number), f"{entry.time[:19]}Z", entry.kind, entry.what, entry.hash[:12])
        for entry in record.entries
    ]
    heads = ("entry", "time", "kind", "what", "hash")
    return [*lines, "\nHistory", *table_lines([heads, *entries], wide)]
