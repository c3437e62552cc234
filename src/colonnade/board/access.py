"""Who may look at the board and who may act: links that work once, then a cookie; or a proxy that signs people in.

A start of the board makes one link for each person. Its token is exchanged once for a session, whose secret lies in a
cookie that no script can read and no other site can send. Of tokens and sessions only digests are kept. Behind a proxy
there are no links: the proxy names people, as a file of its own describes.

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

import base64
import hashlib
import hmac
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from colonnade.data.documents import Document, Form
from colonnade.errors import FileMissing, OutOfRange, WrongType
from colonnade.randomness import SystemRandomness

Role = Literal["officer", "auditor"]
MOST_WRONG, WITHIN_SECONDS = 10, 60.0
"""So many wrong tokens in so many seconds, and none is looked at until they have passed."""
SESSION_SECONDS = 12 * 3600.0
LEAST_SECRET = 32
_BYTES = 32
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,60}")


@dataclass(frozen=True)
class Person:
    """Somebody at the board: an officer may decide, an auditor may look."""

    name: str
    role: Role

    @property
    def may_act(self) -> bool:
        return self.role == "officer"


@dataclass(frozen=True)
class Session:
    """A person who has signed in; `secret` is what its forms are bound to, and is in no page and no cookie."""

    person: Person
    secret: bytes
    ends: float


class TooMany(Exception):
    """Too many wrong tokens: nobody is let in for a while."""


class Access:
    """The tokens and the sessions of one start of the board."""

    def __init__(self, people: Iterable[Person], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = SystemRandomness().bytes(_BYTES)
        self._lock = threading.Lock()
        self._sessions: dict[bytes, Session] = {}
        self._wrong: deque[float] = deque()
        self.tokens = {person: _new_token() for person in people}
        self._links = {self._digest(token): person for person, token in self.tokens.items()}

    def enter(self, token: str) -> str | None:
        """The cookie of a new session for a token that was not used before; None for any other token."""
        with self._lock:
            now = self._clock()
            while self._wrong and self._wrong[0] <= now - WITHIN_SECONDS:
                self._wrong.popleft()
            if len(self._wrong) >= MOST_WRONG:
                raise TooMany
            # Looked up by a keyed digest: how long it takes tells nothing about any token.
            person = self._links.pop(self._digest(token), None)
            if person is None:
                self._wrong.append(now)
                return None
            cookie = _new_token()
            session = Session(person, SystemRandomness().bytes(_BYTES), now + SESSION_SECONDS)
            self._sessions[self._digest(cookie)] = session
            return cookie

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie; None if there is none, or it has ended."""
        with self._lock:
            digest = self._digest(cookie)
            session = self._sessions.get(digest)
            if session is not None and session.ends <= self._clock():
                del self._sessions[digest]
                return None
            return session

    def proxy_session(self, person: Person) -> Session:
        """The session of somebody whom a proxy names with every request."""
        return Session(person, self._keyed(f"proxy {person.role} {person.name}"), self._clock() + 1.0)

    def leave(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(self._digest(cookie), None)

    def form_token(self, session: Session) -> str:
        """What every form of a session carries, so that no other page can send it."""
        return hmac.new(self._key, b"form" + session.secret, hashlib.sha256).hexdigest()

    def from_its_form(self, session: Session, token: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.form_token(session).encode(), token.encode())

    def _digest(self, text: str) -> bytes:
        return self._keyed(f"token {text}")

    def _keyed(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _new_token() -> str:
    return base64.urlsafe_b64encode(SystemRandomness().bytes(_BYTES)).rstrip(b"=").decode("ascii")


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
        if both:
            raise OutOfRange(f"{path}: {both[0]!r} is among officers and auditors. Name people once.")
        people = [Person(name, "officer") for name in form.officers]
        people += [Person(name, "auditor") for name in form.auditors]
        if not people:
            raise OutOfRange(f"{path}: nobody is named in officers or auditors, so nobody could look.")
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
