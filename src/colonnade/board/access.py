"""Who may look at the board and act on it: sessions, what is checked of a request, and the log of actions."""

from __future__ import annotations

import base64
import datetime
import fcntl
import hashlib
import hmac
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from colonnade.data.documents import Document, Form, without_passwords
from colonnade.errors import CannotWrite, ColonnadeError, FileMissing, OutOfRange, WrongType
from colonnade.randomness import SystemRandomness
from colonnade.runs.drafts import only_one

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
        with self._lock:
            digest = self._digest(cookie)
            session = self._sessions.get(digest)
            if session is not None and session.ends <= self._clock():
                del self._sessions[digest]
                return None
            return session

    def proxy_session(self, person: Person) -> Session:
        return Session(person, self._keyed(f"proxy {person.role} {person.name}"), self._clock() + 1.0)

    def leave(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(self._digest(cookie), None)

    def form_token(self, session: Session) -> str:
        """What every form of a session carries, so that no other page can send it."""
        return hmac.new(self._key, b"form" + session.secret, hashlib.sha256).hexdigest()

    def from_its_form(self, session: Session, token: str) -> bool:
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


LOG, LOCK = "board.jsonl", ".board.lock"
SHOWN = 200
_MAX_LENGTH = 2000
_FIELDS = ("time", "by", "role", "act", "of", "found")


class AuditLog:
    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def write(self, person: Person | None, action: str, *, of: str = "", outcome: str = "done") -> None:
        """Append one line, on the disk when this returns."""
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        name, role = ("", "") if person is None else (person.name, person.role)
        values = (time, name, role, action, of[:_MAX_LENGTH], outcome[:_MAX_LENGTH])
        line = json.dumps(dict(zip(_FIELDS, values, strict=True)), ensure_ascii=False)
        try:
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(opened, "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(line.encode("utf-8", "replace") + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from None

    @contextmanager
    def failures(self, person: Person, action: str, *, of: str) -> Iterator[None]:
        """Log what stops an action within the block, and raise it; what else comes of it, the block logs itself."""
        try:
            yield
        except ColonnadeError as error:
            self.write(person, action, of=of, outcome=without_passwords(str(error)))
            raise

    def latest(self) -> list[dict[str, str]]:
        """What was done lately, the last first; a line that is damaged is left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - SHOWN * 4 * _MAX_LENGTH))
                lines = file.read().decode("utf-8", "replace").splitlines()[-SHOWN:]
        except OSError:
            return []
        entries = []
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                entries.append({name: str(entry[name]) for name in _FIELDS})
            except (ValueError, KeyError, TypeError):
                continue
        return entries


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether no other board has this kit or folder open, while the block lasts."""
    try:
        opened = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unwritable(folder, error) from None
    with only_one(opened) as mine:
        yield mine


def _unwritable(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"{path} cannot be written ({error.strerror}), and what is done on the board is noted there. Make it writable "
        "for whoever runs the board."
    )


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_FORM, MOST_FIELDS = 1 << 14, 20
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
PROXIED = (
    "This came through a proxy, and the board was started without one: whom it lets in would be anybody's guess. Open "
    "the board itself, or start it with --proxy FILE.\n"
)
ELSEWHERE = "The board is not known under this name. Open the address that it said when it was started.\n"
FOREIGN = "What acts is sent from the board's own pages. Open the board, and try it there.\n"


class Refused(Exception):
    """A request that is not answered as asked: the code of the answer, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestChecks:
    """The board behind its checks; `request.state.session` is who asks, or None."""

    def __init__(self, app: ASGIApp, *, access: Access, port: int, proxy: Proxy | None = None) -> None:
        self._app, self._access, self._proxy = app, access, proxy
        self._cookie = cookie_name(port)
        self._hosts = {proxy.host} if proxy else {f"{host}:{port}" for host in LOOPBACK}
        self._origins = {proxy.origin} if proxy else {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal:
            await PlainTextResponse(refusal, 403, headers=HEADERS)(scope, receive, send)
            return
        scope.setdefault("state", {})["session"] = self._session(headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answered.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> str:
        origins = headers.getlist("origin")
        if scope.get("method") == "POST" and not (len(origins) == 1 and origins[0] in self._origins):
            return FOREIGN
        if scope.get("method") not in ("GET", "HEAD", "POST"):
            return FOREIGN
        if self._proxy is None and any(name in headers for name in FORWARDED):
            return PROXIED
        # Two hosts in one request: whoever stands in between may have read the other one.
        hosts = headers.getlist("host")
        return "" if len(hosts) == 1 and hosts[0] in self._hosts and scope["type"] == "http" else ELSEWHERE

    def _session(self, headers: Headers) -> Session | None:
        if self._proxy is not None:
            person = self._proxy.person(lambda name: _only(headers.getlist(name)))
            return None if person is None else self._access.proxy_session(person)
        cookie = read_cookie(headers.get("cookie", ""), self._cookie)
        return None if cookie is None else self._access.session(cookie)


def cookie_name(port: int) -> str:
    """What the cookie of a board is called: a browser sends the cookies of a host to all of its ports."""
    return f"colonnade-board-{port}"


def read_cookie(header: str, name: str) -> str | None:
    try:
        cookie = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form as browsers send it, the last of each name; a `Refused` for anything else."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "The board reads forms of its own pages only.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_FORM:
            raise Refused(413, "The form is too long.")
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise Refused(400, "The form cannot be read.") from None
    return dict(fields)


def _only(values: list[str]) -> str | None:
    return values[0] if len(values) == 1 else None
