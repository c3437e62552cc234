"""Who is no longer of a federation: a list that the holder of the root signs, and that every member checks.

A certificate lasts until it ends. A list of exclusions ends it at once, at whoever has the list: parties and the server
refuse an excluded name or key when a job begins, and the server refuses an excluded name at its door. The list is
public; a member takes one that its root signed, and none that is older than the one it has.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from colonnade.errors import KitError
from colonnade.runtime.identity import Identity, NotTrusted, Trust

EXCLUDED = "excluded.json"
_FORMAT = 1
_PURPOSE = b"colonnade exclusions"
_EVERY_KEY = ""


def key_of(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate's public key: it stays the same if the certificate is made out anew for that key."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


@dataclass(frozen=True)
class Exclusions:
    """The names and keys that are excluded, since when; `number` grows with every list."""

    number: int = 0
    entries: tuple[tuple[str, str, str], ...] = ()

    def since(self, name: str, key: str = _EVERY_KEY) -> str | None:
        """Since when a name, with whatever key or with this one, is excluded; None if it is not."""
        for excluded, which, when in self.entries:
            if excluded == name and which in (_EVERY_KEY, key):
                return when
        return None

    def check(self, certificate: x509.Certificate, name: str) -> None:
        """Return unless the holder of this certificate is excluded; otherwise raise `NotTrusted`."""
        when = self.since(name, key_of(certificate))
        if when is not None:
            raise NotTrusted(f"{name!r} was excluded from this federation on {when[:10]}")

    def with_one_more(self, name: str, key: str = _EVERY_KEY) -> Exclusions:
        """The next list, with one more name or key in it."""
        today = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return Exclusions(self.number + 1, (*self.entries, (name, key, today)))

    @property
    def statement(self) -> bytes:
        return _PURPOSE + json.dumps(self._said(), sort_keys=True, separators=(",", ":")).encode()

    def _said(self) -> dict[str, Any]:
        entries = [{"name": name, "key": key, "since": since} for name, key, since in self.entries]
        return {"format": _FORMAT, "number": self.number, "excluded": entries}

    def save(self, path: Path, root: Identity) -> None:
        _replace(path, {**self._said(), "signature": root.sign(self.statement).hex()})

    @classmethod
    def load(cls, path: Path, root: x509.Certificate) -> Exclusions:
        """The list in a file, if this root signed it; an empty one if there is no file."""
        if not path.exists():
            return cls()
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            exclusions = cls._of(data)
            Trust(root).check_signature(root, exclusions.statement, bytes.fromhex(data["signature"]))
        except (ValueError, KeyError, TypeError, NotTrusted):
            raise KitError(
                f"{path} is no list of exclusions that this federation's root signed. Ask whoever made the federation "
                "for it; until then nobody is trusted here."
            ) from None
        return exclusions

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Exclusions:
        if data["format"] != _FORMAT or type(data["number"]) is not int:
            raise ValueError("not a list of exclusions")
        entries = tuple((str(one["name"]), str(one["key"]), str(one["since"])) for one in data["excluded"])
        return cls(data["number"], entries)


def install(kit: Path, given: Path, root: x509.Certificate) -> Exclusions:
    """Take a list into a kit, if its root signed it and it is not older than the one that is there."""
    if not given.exists():
        raise KitError(f"{given} does not exist. Name the list of exclusions that you were sent.")
    newer, known = Exclusions.load(given, root), Exclusions.load(kit / "local" / EXCLUDED, root)
    if newer.number < known.number:
        raise KitError(
            f"{given} is list {newer.number}, and {kit} has list {known.number}: an older one would let somebody in "
            "again. Ask for the newest."
        )
    _replace(kit / "local" / EXCLUDED, json.loads(given.read_text(encoding="utf-8")))
    return newer


def _replace(path: Path, data: Mapping[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
