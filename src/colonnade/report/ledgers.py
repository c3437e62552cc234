"""A ledger or an export of one, read and checked, and how it came to where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colonnade.data.files import csv_text
from colonnade.errors import LedgerError, LedgerMissing
from colonnade.federation.party_file import PartyFile
from colonnade.ledger import Ledger
from colonnade.ledger.bounds import Account
from colonnade.ledger.entry_store import Entry
from colonnade.ledger.export import Exported, load_export
from colonnade.ledger.ledger import PATIENCE
from colonnade.ledger.state import LedgerState, Total, remaining_epsilon
from colonnade.report.charts import Axes, Chart, Series
from colonnade.report.facts import entries_facts, entry_text
from colonnade.report.record import LedgerRecord


@dataclass(frozen=True)
class Balance:
    entry: Entry
    total: Total

    @property
    def account(self) -> str:
        return f"{self.total.observer}, {self.total.unit} of {self.total.dataset}"


def history(entries: Sequence[Entry]) -> tuple[Balance, ...]:
    """Every account's balance after each charge and each budget that changed it, in order."""
    running_state, balances = LedgerState("the history"), []
    last: dict[tuple[str, str, str], tuple[float, float, float, int]] = {}
    for entry in entries:
        running_state.read(entry)
        if entry.kind not in ("charge", "budget"):
            continue
        for total in running_state.totals():
            account = (total.dataset, total.unit, total.observer)
            state = (total.epsilon, total.delta, total.budget_epsilon, total.entries)
            if last.get(account) != state:
                last[account] = state
                balances.append(Balance(entry, total))
    return tuple(balances)


def history_csv(entries: Sequence[Entry]) -> str:
    heads = "entry time kind what run receiver dataset unit observer epsilon_total delta budget_epsilon left"
    rows: list[Sequence[object]] = [[*heads.split(), "private", "hash"]]
    for item in history(entries):
        entry, total = item.entry, item.total
        release = entry.body["release"] if entry.kind == "charge" else {}
        record = (entry.seq, entry.time, entry.kind, entry_text(entry))
        given = (release.get("run", ""), release.get("receiver", ""))
        account = (total.dataset, total.unit, total.observer)
        spent = (total.epsilon, total.delta, total.budget_epsilon, total.left)
        private = "no" if total.reproducible else "yes"
        rows.append([*record, *given, *account, *spent, private, entry.hash])
    return csv_text(rows)


def timeline(entries: Sequence[Entry], *, party: str) -> Chart:
    """A picture of how much of each budget was spent after each entry; 1 is all of it."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for item in history(entries):
        xs, ys = lines.setdefault(item.account, ([], []))
        share = item.total.epsilon / item.total.budget_epsilon
        if ys:  # a step, not a slope: nothing was spent in between
            xs.append(float(item.entry.seq))
            ys.append(ys[-1])
        xs.append(float(item.entry.seq))
        ys.append(share)
    end = float(entries[-1].seq)
    drawn = [Series(name, (*xs, end), (*ys, ys[-1])) for name, (xs, ys) in lines.items()]
    axes = Axes("entry of the ledger", "share of the budget spent", whole_x=True)
    return Chart(f"What has left {party}", axes, tuple(drawn))


def verified(
    given: Path,
    witnesses: Sequence[Ledger | Exported],
    public: bytes | None = None,
    *,
    patience: float = PATIENCE,
) -> tuple[LedgerRecord, tuple[Entry, ...], Ledger | None]:
    """What a ledger, or an export signed by the key `public`, says once chain and witnesses were checked."""
    if given.suffix == ".json":
        receipts = [receipt for peer in witnesses for receipt in peer.receipts()]
        exported = load_export(given, signer=public)
        mine = [receipt for receipt in receipts if receipt.party == exported.party]
        exported = load_export(given, signer=public, receipts=mine)
        entries, ledger, compared = exported.entries, None, len(set(mine))
        signer = {"signer": exported.signer}
    else:
        ledger = opened(given, patience=patience)
        for peer in witnesses:
            if peer.party == ledger.party:
                raise LedgerError(
                    f"--witness: a ledger of {ledger.party} is not a witness for itself. Name a peer's."
                )
        compared = ledger.verify(
            [receipt for peer in witnesses for receipt in peer.receipts(ledger.party)]
        ).receipts
        entries, signer = ledger.entries(), {}
    record, state = entries_facts(entries)
    totals = []
    for total in record.totals:
        fits = remaining_epsilon(state, Account(total.dataset, total.unit, total.observer))
        totals.append(total.model_copy(update={"fits": fits}))
    checked = {"entries": len(entries), "receipts": compared}
    return record.model_copy(update={"totals": totals, **signer, "verified": checked}), entries, ledger


def witness_of(given: Path, *, patience: float = PATIENCE) -> Ledger | Exported:
    return load_export(given) if given.suffix == ".json" else opened(given, patience=patience)


def opened(given: Path, *, patience: float = PATIENCE) -> Ledger:
    """The ledger that a person means, itself or by a party's own file; `patience` is how many seconds to wait."""
    if given.suffix != ".toml":
        return Ledger.open(given, patience=patience)
    file = PartyFile.load(given)
    if not file.ledger.exists():
        raise LedgerMissing(
            f"{file.path}, ledger: {file.ledger} does not exist. It is made by {file.party}'s first run; if there "
            "was one, correct the path."
        )
    return Ledger.open(file.ledger, patience=patience)
