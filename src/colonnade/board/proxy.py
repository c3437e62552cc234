"""A proxy in front of the board that signs people in, as a file of its own describes it.

::

    address = "https://board.bank.example"
    user_header = "X-Auth-Request-Email"
    secret_header = "X-Board-Secret"
    secret_file = "board.secret"
    officers = ["ada@bank.example", "ben@bank.example"]
    auditors = ["eve@bank.example"]

Whoever reaches the port could claim to be the proxy; the secret, which it adds to every request, shows that it is.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field

from colonnade.board.access import Person
from colonnade.data.documents import Document, Form
from colonnade.errors import FileMissing, OutOfRange, WrongType

LEAST_SECRET = 32
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,60}")


class _ProxyForm(Form):
    address: str
    user_header: str
    secret_header: str
    secret_file: str
    officers: list[str] = Field(default_factory=list)
    auditors: list[str] = Field(default_factory=list)


@dataclass(frozen=True, repr=False)
class Proxy:
    """What a request must have to come from the proxy, and whom the board knows."""

    origin: str
    host: str
    user_header: str
    secret_header: str
    secret: str
    people: tuple[Person, ...]

    @classmethod
    def load(cls, path: Path) -> Proxy:
        """The proxy that a file (TOML) describes; its secret is read from the file that it names."""
        document = Document.load(path)
        form = document.check(_ProxyForm)
        parts = urlsplit(form.address)
        if parts.scheme != "https" or not parts.netloc or parts.path.strip("/") or parts.query:
            raise WrongType(
                f"{document.where(('address',))}: found {form.address!r}; wanted the address that people open, with "
                "https and without a path, such as https://board.bank.example."
            )
        for name in ("user_header", "secret_header"):
            if not _HEADER.fullmatch(getattr(form, name)):
                raise WrongType(
                    f"{document.where((name,))}: wanted the name of a header, such as X-Board-User."
                )
        both = sorted(set(form.officers) & set(form.auditors))
        if both or not (form.officers or form.auditors):
            raise OutOfRange(
                f"{path}: {both[0]!r} is among officers and auditors. Name people once."
                if both
                else f"{path}: nobody is named in officers or auditors, so nobody could look."
            )
        people = [Person(name, "officer") for name in form.officers]
        people += [Person(name, "auditor") for name in form.auditors]
        return cls(
            origin=f"https://{parts.netloc.lower()}",
            host=parts.netloc.lower(),
            user_header=form.user_header.lower(),
            secret_header=form.secret_header.lower(),
            secret=_secret(path.parent / form.secret_file, document.where(("secret_file",))),
            people=tuple(people),
        )

    def person(self, header: Callable[[str], str | None]) -> Person | None:
        """Whom the proxy names in a request; None if it is not the proxy's, or names nobody whom the board knows."""
        given = header(self.secret_header) or ""
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            return None
        return next((one for one in self.people if one.name == header(self.user_header)), None)


def _secret(path: Path, where: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
        shared = path.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError):
        raise FileMissing(f"{where}: {path} cannot be read. Make it with `openssl rand -hex 32`.") from None
    if len(text) < LEAST_SECRET or not text.isascii() or not text.isprintable():
        raise OutOfRange(f"{where}: the secret in {path} is too short. Make it with `openssl rand -hex 32`.")
    if shared:
        raise OutOfRange(f"{where}: {path} can be read by others too. chmod 600 {path}")
    return text
