"""What a peer knows of a ledger, named without telling, and the ledger's proof that it goes on from there.

A holder of a receipt for entry n names n with a tag under hₙ, and the ledger answers with another tag under its own
hₙ. A ledger without that entry, or with another one in its place, has no way to answer: tags do not tell hₙ, and equal
heads are equal histories (docs/proofs/ledger.md). Neither tag shows anything to somebody who does not know hₙ.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.errors import LedgerAltered
from colonnade.ledger.chain import canonical
from colonnade.ledger.release import Receipt

TAG_BYTES = 32
NOTHING = bytes(TAG_BYTES)
"""The tag of whoever knows no entry, or cannot prove the one that was named."""


@dataclass(frozen=True)
class Claim:
    """In a run, `holder` knows the entry with this number, 0 for none; the tag shows that it knows the head there."""

    holder: str
    run: str
    entry: int = 0
    tag: bytes = NOTHING

    @classmethod
    def of(cls, receipt: Receipt | None, *, holder: str, run: str) -> Claim:
        """What the holder of this receipt says; None: it has none."""
        if receipt is None:
            return cls(holder, run)
        return cls(holder, run, receipt.entry, _tag(receipt, "knows", holder, run))

    def answer(self, own: Receipt | None, *, where: str) -> bytes:
        """The proof by a ledger whose own receipt for this entry is `own`, None if it has no such entry.

        Whoever does not know the head at the entry that it names gets no tag under it, but `LedgerAltered`.
        """
        if own is not None and hmac.compare_digest(self.tag, _tag(own, "knows", self.holder, self.run)):
            return _tag(own, "proves", self.holder, self.run)
        found = "this ledger ends before it" if own is None else "this ledger has another one in its place"
        raise LedgerAltered(
            f"{where}: {self.holder} says that it holds a receipt for entry {self.entry}, and {found}: an old copy was "
            "put back, or entries were cut off or written anew, and what they counted is not counted here. Nothing was "
            "charged. "
            f"Restore the newest copy, and compare it with `colonnade ledger PARTY --witness` and an export of "
            f"{self.holder}'s ledger; where no copy has the entry, what is missing is counted as lost: `colonnade "
            "explain E601`."
        )

    def is_proved_by(self, answer: bytes, receipt: Receipt) -> bool:
        """Whether the answer is that of a ledger with the entry that this receipt is for."""
        return hmac.compare_digest(answer, _tag(receipt, "proves", self.holder, self.run))


def check_told(receipt: Receipt, kept: Sequence[Receipt], *, after: int | None, where: str) -> None:
    """Return if a peer's receipt may follow those that are kept of the same ledger; else `LedgerAltered`.

    `after` is the entry that the peer proved before it wrote this one; None: the highest that is kept.
    """
    same = [earlier for earlier in kept if receipt.origin and receipt.same_ledger(earlier)]
    remedy = (
        f"so entries of that ledger were cut off. Both receipts are kept here as evidence; ask {receipt.party} to "
        "restore its ledger from a copy."
    )
    if any(receipt.contradicts(earlier) for earlier in same):
        raise LedgerAltered(
            f"{where}: {receipt.party} gives another head for entry {receipt.entry} of its ledger than it gave "
            f"before, {remedy}"
        )
    highest = max((earlier.entry for earlier in same), default=0) if after is None else after
    if receipt not in same and receipt.entry <= highest:
        raise LedgerAltered(
            f"{where}: {receipt.party} gives a receipt for entry {receipt.entry} of its ledger after one for entry "
            f"{highest}, {remedy}"
        )


def _tag(receipt: Receipt, *said: str) -> bytes:
    text = canonical([receipt.party, receipt.origin, receipt.entry, *said])
    return hmac.digest(bytes.fromhex(receipt.head), text.encode(), "sha256")
