"""Which ledger of a party this is: peers that hold receipts of another one ask what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from colonnade.errors import InputError, LedgerReplaced
from colonnade.ledger.chain import GENESIS, Entry, now, write
from colonnade.ledger.layout import FORMAT
from colonnade.ledger.release import Receipt


@dataclass(frozen=True)
class Opening:
    """Whose ledger it is, the hash of its first entry, and whether that entry says that it was begun anew."""

    party: str
    origin: str
    anew: bool

    def is_among(self, receipts: Iterable[Receipt]) -> bool:
        """Whether this may be the ledger that a peer knows: one of its receipts is of it, or it has none.

        A party may keep several ledgers, each for data of its own, and a receipt without an origin says nothing.
        """
        origins = {receipt.origin for receipt in receipts if receipt.party == self.party and receipt.origin}
        return not origins or self.origin in origins

    def highest(self, receipts: Iterable[Receipt]) -> Receipt | None:
        """The receipt of this very ledger for its highest entry, of two for one entry the first; None without any."""
        own = [kept for kept in receipts if (kept.party, kept.origin) == (self.party, self.origin)]
        return max(own, key=lambda kept: kept.entry, default=None)

    def check(self, receipts: Iterable[Receipt], *, where: str, holder: str) -> None:
        """Return if the ledger is one that the holder of these receipts knows, or was begun anew on purpose."""
        if self.anew or self.is_among(receipts):
            return
        raise LedgerReplaced(
            f"{where} is not the ledger of {self.party} that {holder} holds receipts of, and does not say that it was "
            f"begun anew: what {self.party} has spent would not be counted. Nothing was charged. Restore that ledger "
            f"from a copy; to begin again on purpose, {self.party} runs `colonnade ledger PARTY --new`."
        )


def first_entry(party: str, reason: str) -> Entry:
    """The entry that a ledger begins with; `reason` says why it is begun although there was one before."""
    if not isinstance(party, str) or not party:
        raise InputError(f"a ledger belongs to a party; found {party!r}. Give the party's name.")
    body = {"party": party, "format": FORMAT, **({"reason": reason} if reason else {})}
    return write(1, GENESIS, kind="opened", time=now(), body=body)
