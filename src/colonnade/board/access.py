"""Who may look at the board and who may act: links that are good for one use, then a cookie.

A start of the board makes one link for each person. Its token is exchanged once for a session, whose secret lies in a
cookie that no script can read and no other site can send. Of tokens and sessions only digests are kept. Behind a proxy
that signs people in there are no links: the proxy names them (`colonnade.board.proxy`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from colonnade.randomness import SystemRandomness

Role = Literal["officer", "auditor"]
MOST_WRONG, WITHIN_SECONDS = 10, 60.0
"""So many wrong tokens in so many seconds, and none is looked at until they have passed."""
SESSION_SECONDS = 12 * 3600.0
_BYTES = 32


@dataclass(frozen=True)
class Person:
    """Somebody at the board: an officer may decide, an auditor may look."""

    name: str
    role: Role

    @property
    def acts(self) -> bool:
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
        self._links: dict[bytes, Person] = {}
        self.tokens: dict[Person, str] = {}
        for person in people:
            self.tokens[person] = token = _drawn()
            self._links[self._digest(token)] = person

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
            cookie = _drawn()
            self._sessions[self._digest(cookie)] = self._begun(person, now)
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

    def named(self, person: Person) -> Session:
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

    def _begun(self, person: Person, now: float) -> Session:
        return Session(person, SystemRandomness().bytes(_BYTES), now + SESSION_SECONDS)

    def _digest(self, text: str) -> bytes:
        return self._keyed(f"token {text}")

    def _keyed(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _drawn() -> str:
    return base64.urlsafe_b64encode(SystemRandomness().bytes(_BYTES)).rstrip(b"=").decode("ascii")
