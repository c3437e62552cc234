"""What every request to the board passes first: where it is sent, where it comes from, who sends it.

A page elsewhere can make a browser send requests here, or make a name of its own lead here. So the Host must be the
board's own, whatever acts must come from the board's own pages with the token of its form, and answers tell the
browser to run nothing but the board's own script and to load nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from colonnade.board.access import Access, Proxy, Session

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
        """Answer, or refuse."""
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
