"""A ledger or an export of one, read and checked: what the verb prints and the board shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import LedgerError, LedgerMissing
from colonnade.federation.party_file import PartyFile
from colonnade.ledger import Ledger
from colonnade.ledger.budget import Account
from colonnade.ledger.chain import Entry
from colonnade.ledger.export import Exported, load_export
from colonnade.ledger.ledger import PATIENCE
from colonnade.ledger.remaining import remaining_epsilon
from colonnade.report.facts import entries_facts


def verified(
    given: Path,
    witnesses: Sequence[Ledger | Exported],
    public: bytes | None = None,
    *,
    patience: float = PATIENCE,
) -> tuple[dict[str, Any], tuple[Entry, ...], Ledger | None]:
    """What a ledger or an export says, once it was checked against its chain and the witnesses.

    An export must be signed by the key that is `public`, if one is given.
    """
    if given.suffix == ".json":
        receipts = [receipt for peer in witnesses for receipt in peer.receipts()]
        exported = load_export(given, signer=public)
        mine = [receipt for receipt in receipts if receipt.party == exported.party]
        exported = load_export(given, signer=public, receipts=mine)
        entries, ledger, compared = exported.entries, None, len(set(mine))
        extra = {"signer": exported.signer}
    else:
        ledger = opened(given, patience=patience)
        for peer in witnesses:
            if peer.party == ledger.party:
                raise LedgerError(
                    f"--witness: a ledger of {ledger.party} is no witness for itself. Name a peer's."
                )
        compared = ledger.verify(
            [receipt for peer in witnesses for receipt in peer.receipts(ledger.party)]
        ).receipts
        entries, extra = ledger.entries(), {}
    facts, state = entries_facts(entries)
    for total in facts["totals"]:
        total["fits"] = remaining_epsilon(state, Account(total["dataset"], total["unit"], total["observer"]))
    return {**facts, **extra, "verified": {"entries": len(entries), "receipts": compared}}, entries, ledger


def witness_of(given: Path, *, patience: float = PATIENCE) -> Ledger | Exported:
    """A peer's ledger, or an export of it, whose own chain was checked."""
    return load_export(given) if given.suffix == ".json" else opened(given, patience=patience)


def opened(given: Path, *, patience: float = PATIENCE) -> Ledger:
    """The ledger that a person means: the file itself, or the one that a party's own file names.

    `patience` is how many seconds to wait while another process holds it.
    """
    if given.suffix != ".toml":
        return Ledger.open(given, patience=patience)
    file = PartyFile.load(given)
    if not file.ledger.exists():
        raise LedgerMissing(
            f"{file.path}, ledger: {file.ledger} does not exist. It is made by {file.party}'s first run; if there "
            "was one, correct the path."
        )
    return Ledger.open(file.ledger, patience=patience)
