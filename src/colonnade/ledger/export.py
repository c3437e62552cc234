"""A ledger as one JSON file for somebody without the ledger: every entry, chained as it was, and signed if wanted.

Whoever has the file can check the chain, what it adds up to and who signed it, offline. That entries are missing at its
end shows only against peers' receipts, as with the ledger itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.crypto.sealing import SigningKey, signed_by
from colonnade.errors import CannotWrite, InputError, LedgerAltered, LedgerError
from colonnade.ledger.admission import Opening, check_witnesses
from colonnade.ledger.entry_store import GENESIS, Entry, Row, canonical, follow
from colonnade.ledger.ledger import Ledger
from colonnade.ledger.release import Receipt
from colonnade.ledger.state import LedgerState, Total
from colonnade.randomness import SystemRandomness

FORMAT = "colonnade ledger 4"
_READ = frozenset({*(f"colonnade ledger {number}" for number in (1, 2, 3)), FORMAT})
_PURPOSE = "colonnade ledger export"
_KEY_HEADER = "colonnade signing key 1"


@dataclass(frozen=True, eq=False)
class Exported:
    """What an export holds, checked; `signer` is the public key that signed it, in hexadecimal digits, or None."""

    party: str
    entries: tuple[Entry, ...]
    totals: tuple[Total, ...]
    signer: str | None

    @property
    def head(self) -> str:
        return self.entries[-1].hash

    def receipts(self, party: str | None = None) -> tuple[Receipt, ...]:
        kept = [Receipt.from_data(entry.body) for entry in self.entries if entry.kind == "receipt"]
        return tuple(dict.fromkeys(receipt for receipt in kept if party in (None, receipt.party)))


def export(ledger: Ledger, key: SigningKey | None = None) -> str:
    entries = ledger.entries()
    data: dict[str, Any] = {
        "format": FORMAT,
        "party": ledger.party,
        "head": entries[-1].hash,
        "entries": [{"seq": entry.seq, "text": entry.text, "hash": entry.hash} for entry in entries],
    }
    if key is not None:
        signature = key.sign(canonical(data).encode(), purpose=_PURPOSE)
        data["signature"] = {"scheme": "ed25519", "public": key.public.hex(), "value": signature.hex()}
    return json.dumps(data, ensure_ascii=False, indent=1)


def read_export(
    text: str, *, where: str, signer: bytes | None = None, receipts: Iterable[Receipt] = ()
) -> Exported:
    """The ledger in an export, or a `LedgerAltered` that names what does not fit, such as another key's signature."""
    data = _parsed(text, where)
    try:
        party, stated = str(data["party"]), str(data["head"])
        rows = [
            Row(item["seq"], str(item["text"]).encode(), str(item["hash"]).encode())
            for item in data["entries"]
        ]
    except (KeyError, TypeError):
        raise LedgerAltered(f"{where} lacks what an export has: party, head and entries.") from None
    signed_by = _signer(data, where, signer)
    state, heads, entries = LedgerState(where), [GENESIS], []
    for entry in follow(rows, seq=0, head=GENESIS, where=where):
        state.read(entry)
        heads.append(entry.hash)
        entries.append(entry)
    if not entries or entries[-1].hash != stated or state.party != party:
        raise LedgerAltered(
            f"{where}: its head or its party is not that of its entries. Ask {party} for it anew."
        )
    opening = Opening(party, state.origin, anew=bool(state.reason))
    check_witnesses(opening, tuple(receipts), heads, where=where)
    return Exported(party, tuple(entries), state.totals(), signed_by)


def load_export(path: Path, *, signer: bytes | None = None, receipts: Iterable[Receipt] = ()) -> Exported:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LedgerError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise LedgerError(f"{path} is not an export of a ledger: it is not text.") from None
    return read_export(text, where=str(path), signer=signer, receipts=receipts)


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        raise LedgerAltered(f"{where} is not JSON: it was cut off or changed on its way.") from None
    if not isinstance(data, dict) or data.get("format") not in _READ:
        named = data.get("format") if isinstance(data, dict) else None
        why = "its format says otherwise"
        if isinstance(named, str) and named.startswith("colonnade ledger "):
            why = f"its format is {named!r}, and this version reads up to {FORMAT!r}"
        raise LedgerError(f"{where} is not an export of a ledger that can be read here: {why}.")
    return data


def _signer(data: dict[str, Any], where: str, key: bytes | None) -> str | None:
    signature = data.pop("signature", None)
    if signature is None:
        if key is not None:
            raise LedgerAltered(f"{where} is not signed, and a signature was asked for.")
        return None
    try:
        public, value = bytes.fromhex(signature["public"]), bytes.fromhex(signature["value"])
    except (KeyError, TypeError, ValueError):
        raise LedgerAltered(f"{where}: its signature cannot be read.") from None
    if key is not None and public != key:
        raise LedgerAltered(f"{where} is signed by another key than the one given.")
    if not signed_by(public, value, canonical(data).encode(), purpose=_PURPOSE):
        raise LedgerAltered(f"{where} does not match its signature, so it was changed after it was signed.")
    return public.hex()


def signing_key(path: Path) -> SigningKey:
    """The key in a file; a new one, readable by its owner alone, if there is no such file."""
    if not path.exists():
        key = SigningKey.generate(SystemRandomness())
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise CannotWrite(f"--key: {path} cannot be made ({error.strerror}).") from None
        with os.fdopen(opened, "w", encoding="ascii") as file:
            file.write(f"{_KEY_HEADER}\n{key.secret.hex()}\n")
        return key
    try:
        return parse_key(path.read_text(encoding="ascii"))
    except OSError as error:
        raise InputError(f"--key: {path} cannot be read ({error.strerror}).") from None
    except ValueError:
        raise InputError(
            f"--key: {path} holds no signing key. Name another file; a new one is made."
        ) from None


def parse_key(text: str) -> SigningKey:
    """The key that a file of it holds, on two lines or on one; else a `ValueError`."""
    words = text.split()
    if " ".join(words[:-1]) != _KEY_HEADER:
        raise ValueError("no key")
    return SigningKey(bytes.fromhex(words[-1]))
