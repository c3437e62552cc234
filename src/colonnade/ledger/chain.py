"""The hash chain: each entry carries a digest of everything before it.

Entry n has hash hₙ = SHA-256(hₙ₋₁ ‖ textₙ), with h₀ = 32 zero bytes and textₙ the canonical JSON of the
entry. hₙ₋₁ has a fixed length, so the input of the digest splits in one way only, and one head hash
commits to the whole history (docs/proofs/ledger.md).
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.errors import LedgerAltered

GENESIS = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One line of a ledger: its place, its kind, when it was written (UTC), what it says, its hash."""

    seq: int
    kind: str
    time: str
    body: Mapping[str, Any]
    hash: str

    @property
    def text(self) -> str:
        return canonical({"kind": self.kind, "time": self.time, "body": self.body})

    def to_data(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "kind": self.kind,
            "time": self.time,
            "body": dict(self.body),
            "hash": self.hash,
        }


@dataclass(frozen=True)
class Row:
    """An entry as it lies in the store, before anyone has vouched for it: bytes, or what an edit left."""

    seq: object
    text: object
    hash: object


def canonical(data: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def link(previous: str, text: bytes) -> str:
    """The hash of an entry that follows the hash `previous`."""
    return hashlib.sha256(bytes.fromhex(previous) + text).hexdigest()


def write(seq: int, previous: str, *, kind: str, time: str, body: Mapping[str, Any]) -> Entry:
    """The entry number `seq`, chained to the hash of the one before it."""
    text = canonical({"kind": kind, "time": time, "body": body})
    # Through the text and back, so that a written entry equals the entry that a reader will find.
    return _parse(seq, text, link(previous, text.encode()))


def now() -> str:
    """The time of an entry that is written now: UTC, to the microsecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def follow(rows: Iterable[Row], *, seq: int, head: str, where: str) -> Iterator[Entry]:
    """The entries after number `seq` with hash `head`, each checked against the chain before it is given.

    Raises `LedgerAltered` at the first row whose number does not follow, or whose hash is not that of
    its text after its predecessor. `where` names the ledger in the message.
    """
    for row in rows:
        if row.seq != seq + 1:
            raise LedgerAltered(
                f"{where}: entry {seq + 1} is missing (entry {row.seq} is in its place), so entries were "
                "removed. Restore the file from a copy, and ask peers for their receipts."
            )
        seq += 1
        text, digest = row.text, row.hash
        if not isinstance(text, bytes) or digest != (head := link(head, text)).encode():
            raise LedgerAltered(
                f"{where}: entry {seq} does not match its hash, so it or an entry before it was altered. "
                "Restore the file from a copy, and ask peers for their receipts."
            )
        try:
            entry = _parse(seq, text.decode(), head)
        except (ValueError, KeyError, TypeError) as error:
            # The hash is right, so whoever wrote this knew the chain but not the format.
            raise LedgerAltered(f"{where}: entry {seq} is not written as ledger entries are.") from error
        yield entry


def _parse(seq: int, text: str, digest: str) -> Entry:
    data = json.loads(text)
    kind, time, body = data["kind"], data["time"], data["body"]
    if not (isinstance(kind, str) and isinstance(time, str) and isinstance(body, dict)):
        raise TypeError("an entry has a kind, a time and a body")
    return Entry(seq=seq, kind=kind, time=time, body=body, hash=digest)
