"""Each party's own record of what has left its organisation: refuse before, record, never forget."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from colonnade.errors import LedgerAltered, LedgerError, path_of
from colonnade.ledger import admission, entry_store
from colonnade.ledger.admission import Claim, Opening, Verified
from colonnade.ledger.bounds import Budget, named_account, named_pattern
from colonnade.ledger.entry_store import GENESIS, Entry, EntryStore, Page
from colonnade.ledger.release import Receipt, Release
from colonnade.ledger.state import Comparison, Decision, LedgerState, Total, budget_to_data, totals_table

PATIENCE = 60.0
IN_MEMORY = "it ends with its process"


class Ledger:
    """One party's ledger: budgets, charges, comparisons of ids and peers' receipts, in one hash-chained history.

    Guarantee: when `charge` returns, the release is on the disk and within every budget that governs it; when it
    raises, nothing was charged. A process that dies inside `charge` has either charged the release or not, so a
    release that leaves only after `charge` returned is always counted (docs/proofs/ledger.md).

    Any number of threads and processes may hold the same ledger.

    >>> from colonnade.ledger.release import LedgerLine
    >>> from colonnade.privacy.events import Gaussian
    >>> ledger = Ledger.in_memory("bank")
    >>> ledger.set_budget("adult", "record", "server", epsilon=1.0, delta=1e-5)
    >>> line = LedgerLine("server", "record", Gaussian(sensitivity=1.0, sigma=8.0))
    >>> named = {"id": "run-1/moments", "run": "run-1", "plan": "5f0c", "what": "second moments", "receiver": "server"}
    >>> release = Release(**named, lines=(line,), reproducible=False)
    >>> receipt = ledger.charge(release, "adult")
    >>> receipt.party, receipt.entry
    ('bank', 3)
    >>> (total,) = ledger.totals()
    >>> 0 < total.epsilon < 1 and total.left > 0
    True
    >>> ledger.verify([receipt]).entries
    3
    """

    def __init__(self, journal: EntryStore) -> None:
        """For `create`, `open` and `in_memory`, which make the journal."""
        self._journal = journal
        self._lock = threading.Lock()
        self._state = LedgerState(journal.where)
        with journal.reading() as page:
            self._catch_up(page)
        entry_store.check_format(self._state.format, journal.where)

    @classmethod
    def create(cls, path: str | Path, party: str, *, patience: float = PATIENCE, reason: str = "") -> Ledger:
        """A new ledger file for a party; raises `LedgerError` if the file exists.

        `patience` is how many seconds an operation waits for other processes. `reason` says in the first entry why it
        is begun although there was one before: without it peers refuse a ledger that they hold no receipts of.
        """
        first = admission.first_entry(party, reason)
        return cls(entry_store.FileEntryStore.create(path_of(path), first, patience=patience))

    @classmethod
    def open(cls, path: str | Path, *, patience: float = PATIENCE) -> Ledger:
        """The ledger in a file, its whole chain checked."""
        return cls(entry_store.FileEntryStore.open(path_of(path), patience=patience))

    @classmethod
    def in_memory(cls, party: str) -> Ledger:
        """A ledger that ends with the process, for simulation and tests."""
        return cls(entry_store.MemoryEntryStore(admission.first_entry(party, IN_MEMORY), name=party))

    @property
    def party(self) -> str:
        return self._state.party

    @property
    def path(self) -> Path | None:
        """The file it is in; None for one that ends with the process."""
        return self._journal.path

    def set_budget(self, dataset: str, unit: str, observer: str, epsilon: float, delta: float) -> None:
        """From here on, the account may lose at most ε at this δ.

        "*" as unit or observer means each one that no closer budget names, each with a total of its own;
        two equally close budgets both hold. The history keeps every budget that was ever set. Setting
        the budget that is in force already changes nothing and writes nothing.
        """
        budget = Budget(named_pattern(dataset, unit, observer), epsilon=epsilon, delta=delta)
        with self._lock, self._journal.writing() as page:
            state = self._catch_up(page)
            if state.budgets.get(budget.account) != budget:
                self._append(page, "budget", budget_to_data(budget))

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> Receipt:
        """Charge a release to a data set before it leaves; the receipt goes to peers.

        All events ever charged to an account are composed and converted at its budget's δ. If any account that the
        release adds to would pass its budget, or one that it names has none, this raises `BudgetExceeded` and
        writes nothing. A release id is charged once: the same release again returns the first receipt, another
        release under the same id raises `LedgerError`. With `fresh` an id that was charged before is refused:
        whoever draws noise asks so, because a second draw is a second release.
        """
        body = {"dataset": dataset, "release": release.to_data()}
        # An entry that could not be read back would lock the party out of its own ledger.
        if Release.from_data(json.loads(entry_store.canonical(body["release"]))) != release:
            raise ValueError(f"release {release.id!r} does not survive being written and read")
        with self._lock, self._journal.writing() as page:
            state = self._catch_up(page)
            text = entry_store.canonical(body)
            if (earlier := admission.charged_before(state, release, text, fresh=fresh)) is not None:
                return earlier
            admission.admit(state, release, dataset)
            entry = self._append(page, "charge", body)
        return Receipt(self.party, entry.seq, entry.hash, state.origin)

    def keep_receipt(self, receipt: Receipt, *, after: int | None = None) -> None:
        """Keep a peer's receipt, as a witness that its entry was written. A receipt is kept once.

        Raises `LedgerAltered` if the peer gave another head for the same entry of the same ledger before, or if the
        entry is not above `after`, which is the highest that is kept unless the peer proved another one before it
        charged: what followed was cut off. Both receipts are kept, because together they are the evidence.
        """
        if receipt.party == self.party:
            raise LedgerError(
                f"{self._journal.where}: a receipt of {self.party} is of no use in {self.party}'s own ledger. "
                "Give it to a peer."
            )
        with self._lock, self._journal.writing() as page:
            kept = tuple(self._catch_up(page).receipts)
            if receipt not in kept:
                self._append(page, "receipt", receipt.to_data())
        admission.check_announced(receipt, kept, after=after, where=self._journal.where)

    def opening(self) -> Opening:
        """Which ledger this is, for peers to recognise."""
        return Opening(self._state.party, self._state.origin, anew=bool(self._state.reason))

    def recognise(self, opening: Opening) -> Receipt | None:
        """The receipt for the highest entry known of a peer's ledger, or None; `LedgerReplaced` if it is another."""
        kept = self.receipts(opening.party)
        opening.check(kept, where=f"{opening.party}'s ledger", holder=self.party)
        return opening.highest(kept)

    def prove(self, claim: Claim) -> bytes:
        """The proof that this ledger has the entry that a peer knows, or `LedgerAltered`."""
        origin = self._state.origin
        own = {entry.seq: Receipt(self.party, entry.seq, entry.hash, origin) for entry in self.entries()}
        return claim.answer(own.get(claim.entry), where=self._journal.where)

    def note_comparison(
        self,
        dataset: str,
        partners: Sequence[str],
        *,
        run: str,
        through: str = "",
        allowed: Callable[[Sequence[Comparison]], None] = lambda _earlier: None,
    ) -> None:
        """Write down with whom ids of a data set are compared, before anything made of them leaves; a run once.

        `through` is the server that matches them, if any. `allowed` sees those so far, and raises if this may not be.
        """
        with self._lock, self._journal.writing() as page:
            state = self._catch_up(page)
            entry = Comparison(dataset, tuple(partners), run, "", through)
            if any(replace(earlier, time="") == entry for earlier in state.comparisons):
                return
            allowed(tuple(state.comparisons))
            self._append(page, "compared", entry.to_data())

    def comparisons(self) -> tuple[Comparison, ...]:
        """When and with whom ids were compared, in order."""
        return tuple(self._current().comparisons)

    def note_decision(self, decision: Decision) -> bool:
        """Write down what somebody decided about a job, once; False if it stands there already."""
        with self._lock, self._journal.writing() as page:
            known = {earlier.statement for earlier in self._catch_up(page).decisions}
            if decision.statement not in known:
                self._append(page, "decision", decision.to_data())
            return decision.statement not in known

    def decisions(self, job: str | None = None) -> tuple[Decision, ...]:
        """What people decided about jobs, or about one of them, in order."""
        return tuple(decision for decision in self._current().decisions if job in (None, decision.job))

    def receipts(self, party: str | None = None) -> tuple[Receipt, ...]:
        """The peers' receipts kept here, or those of one peer: what it needs for its `verify`."""
        state = self._current()
        return tuple(receipt for receipt in state.receipts if party in (None, receipt.party))

    def contradictions(self) -> tuple[tuple[Receipt, Receipt], ...]:
        """Pairs of kept receipts in which one peer gives two heads for one entry: it has told two histories.

        A ledger that was begun anew, as one in memory is with every process, has another origin and contradicts
        nothing.
        """
        kept = tuple(self._current().receipts)
        return tuple((one, other) for one, other in combinations(kept, 2) if other.contradicts(one))

    def receipt(self) -> Receipt:
        """A receipt for the last entry, for peers to keep."""
        state = self._current()
        return Receipt(state.party, state.seq, state.head, state.origin)

    def _repr_html_(self) -> str:
        return totals_table(self.party, self.totals())

    def totals(self) -> tuple[Total, ...]:
        """What every account has lost, and what is left of its budget."""
        return self._current().totals()

    def budgets(self) -> tuple[Budget, ...]:
        """The budgets in force; `entries` has those that were."""
        return tuple(self._current().budgets.values())

    def what_fits(self, dataset: str, unit: str, observer: str) -> float:
        """ε left for one account at its budget's δ; 0 without a budget.

        Costs do not simply add: a release of this ε may take less from what is left, and `charge` decides.
        """
        total = self._current().total(named_account(dataset, unit, observer))
        return 0.0 if total is None else total.left

    def entries(self) -> tuple[Entry, ...]:
        """The whole history, read from the store and checked against the chain."""
        with self._journal.reading() as page:
            return tuple(entry_store.follow(page.rows(1), seq=0, head=GENESIS, where=self._journal.where))

    def verify(self, receipts: Iterable[Receipt] = ()) -> Verified:
        """Check the whole history against its chain, against its totals, and against peers' receipts.

        Raises `LedgerAltered` that names the first bad entry. The chain alone shows any change within the
        history; that its end was cut off, or that all of it was written anew, only peers' receipts show. Receipts of
        another ledger of the party raise `LedgerReplaced`, unless this one says that it was begun anew.
        """
        witnesses = sorted(set(receipts), key=lambda receipt: receipt.entry)
        with self._lock, self._journal.reading() as page:
            known = self._catch_up(page)
            replayed, heads = LedgerState(self._journal.where), [GENESIS]
            for entry in entry_store.follow(page.rows(1), seq=0, head=GENESIS, where=self._journal.where):
                replayed.read(entry)
                heads.append(entry.hash)
        if replayed != known:
            raise LedgerAltered(
                f"{self._journal.where}: its history was exchanged while this process held it."
            )
        agreed = admission.check_witnesses(self.opening(), witnesses, heads, where=self._journal.where)
        return Verified(party=self.party, entries=known.seq, head=known.head, receipts=agreed)

    def _current(self) -> LedgerState:
        with self._lock, self._journal.reading() as page:
            return self._catch_up(page)

    def _catch_up(self, page: Page) -> LedgerState:
        state = self._state
        rows = page.rows(max(state.seq, 1))
        if state.seq > 0:
            # Our own last entry must still be there: the chain goes on from it, or it was tampered with.
            tip = next(rows, None)
            if tip is None or tip.hash != state.head.encode():
                raise LedgerAltered(
                    f"{state.where}: entry {state.seq} has changed or gone since this process read it. Restore the "
                    "file from a copy, and ask peers for their receipts."
                )
        for entry in entry_store.follow(rows, seq=state.seq, head=state.head, where=state.where):
            state.read(entry)
        if state.seq == 0:
            raise LedgerAltered(f"{state.where}: all of its entries are gone. Restore the file from a copy.")
        return state

    def _append(self, page: Page, kind: str, body: Mapping[str, Any]) -> Entry:
        # The state is not told: it reads the entry back at its next turn, once the transaction has ended.
        seq, head = self._state.seq + 1, self._state.head
        entry = entry_store.write(seq, head, kind=kind, time=entry_store.now(), body=body)
        page.append(entry)
        return entry
