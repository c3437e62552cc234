"""The board as a process: its addresses, what each does before and after its page, a socket, and links for people."""

from __future__ import annotations

import ipaddress
import socket
import traceback
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from colonnade.board import pages
from colonnade.board.access import Access, AuditLog, Person, Proxy, Refused, RequestChecks, alone, read_form
from colonnade.board.pages import Board, Form
from colonnade.board.workspace import Workspace
from colonnade.data.documents import without_passwords
from colonnade.errors import ColonnadeError, FileMissing, InputError, explanations

Page = Callable[[Request], Response] | Callable[[Request], Awaitable[Response]]
Action = Callable[[Board, Request, Form], Response]
HERE = Path(__file__).parent
STATIC = {
    "page.css": (HERE.parent / "report" / "page.css", "text/css"),
    "board.css": (HERE / "board.css", "text/css"),
    "board.js": (HERE / "board.js", "text/javascript"),
}


def application(board: Board, *, port: int, proxy: Proxy | None = None) -> RequestChecks:
    def look(path: str, page: Page) -> Route:
        return Route(path, _answered(board, partial(_shown, page)), methods=["GET"])

    def act(path: str, action: Action, *, all_may: bool = False) -> Route:
        return Route(path, _answered(board, partial(_done, board, action, all_may)), methods=["POST"])

    routes = [
        Route("/enter", _answered(board, board.enter), methods=["GET"]),
        Route("/static/{name}", _answered(board, _static), methods=["GET"]),
        look("/", board.overview),
        look("/events", board.events),
        look("/requests", board.requests),
        look("/requests/{job}", board.request),
        look("/runs", board.runs),
        look("/runs/{run}", board.run),
        look("/runs/{run}/events", board.run_events),
        look("/runs/{run}/report", board.report),
        look("/runs/{run}/card", board.card),
        look("/runs/{run}/model.onnx", board.onnx),
        look("/runs/{run}/own/{party}", board.own_page),
        look("/runs/{run}/file/{file}", board.file),
        look("/compare", partial(pages.compare_page, board)),
        look("/compare/table", partial(pages.compare_table, board)),
        look("/ledger", board.ledgers),
        look("/ledger/{key}", board.ledgers),
        look("/ledger/{key}/table", board.ledger_table),
        look("/ledger/{key}/export", board.ledger_export),
        look("/data", board.data),
        look("/log", board.log_page),
        act("/requests/{job}", pages.decide),
        act("/runs/{run}/recover", pages.recover),
        act("/ledger/{key}/export", pages.sign_export),
        act("/data/{key}", pages.check_rows, all_may=True),
        act("/leave", pages.leave, all_may=True),
    ]
    missing = _answered(board, _nothing)
    app = Starlette(routes=routes, exception_handlers={404: missing, 405: missing})
    return RequestChecks(app, access=board.access, port=port, proxy=proxy)


async def _shown(page: Page, request: Request) -> Response:
    _session(request)
    return await _run(page, request)


async def _done(board: Board, action: Action, all_may: bool, request: Request) -> Response:
    session = _session(request)
    form = await read_form(request)
    if not board.access.from_its_form(session, form.get("form_token", "")):
        board.log.write(session.person, "was refused", of=request.url.path, outcome="a form of another page")
        raise Refused(403, "This form is not of this session. Load the page again, and send it from there.")
    if not (session.person.may_act or all_may):
        board.log.write(session.person, "was refused", of=request.url.path, outcome="an auditor looks only")
        raise Refused(403, "You are here as an auditor, who looks and decides nothing.")
    return await run_in_threadpool(action, board, request, form)


def _session(request: Request) -> Any:
    if request.state.session is None:
        raise Refused(401, "Nobody is signed in here. Open the link that the board said when it was started.")
    return request.state.session


async def _run(page: Page, request: Request) -> Response:
    if iscoroutinefunction(page):
        answer: Response = await page(request)
    else:
        answer = await run_in_threadpool(page, request)  # type: ignore[arg-type]
    return answer


def _answered(board: Board, page: Page) -> Callable[..., Awaitable[Response]]:
    """The page, or one that says what was wrong: never a traceback."""

    async def answer(request: Request, *_: Any) -> Response:
        if not hasattr(request.state, "session"):
            request.state.session = None
        try:
            return await _run(page, request)
        except Refused as refused:
            status, message, number = refused.status, str(refused), ""
        except ColonnadeError as error:
            status = 404 if isinstance(error, FileMissing) else 409
            message, number = without_passwords(str(error)), error.number
        except OSError as error:
            status, number = 409, InputError.number
            message = f"{error.filename or 'a file'}: {error.strerror or 'it cannot be read'}."
        except Exception as error:
            step = traceback.extract_tb(error.__traceback__)[-1]
            status, number = 500, ColonnadeError.number
            message = (
                f"an internal error, not a mistake of yours: {type(error).__name__} at {Path(step.filename).name}, "
                f"line {step.lineno}."
            )
        wrong = {"message": message, "number": number, "explained": explanations().get(number)}
        return board.page(request, "wrong.html", title="Not done", status=status, **wrong)

    return answer


def _static(request: Request) -> Response:
    known = STATIC.get(request.path_params["name"])
    if known is None:
        raise Refused(404, "There is no such file.")
    path, kind = known
    return Response(path.read_bytes(), media_type=kind, headers={"Cache-Control": "max-age=300"})


def _nothing(_request: Request) -> Response:
    raise Refused(404, "There is no such page.")


def serve(
    workspace: Workspace,
    people: Iterable[Person],
    *,
    listen: str,
    port: int,
    proxy: Proxy | None,
    started: Callable[[dict[str, Any]], None],
) -> None:
    """Answer until the process is ended; `started` gets the address and the link of each person once it answers."""
    with alone(workspace.folder) as first, bound(listen, port, proxied=proxy is not None) as opened:
        chosen = int(opened.getsockname()[1])
        access, log = Access(() if proxy else people), AuditLog(workspace.folder)
        log.write(None, "started the board", of=str(workspace.folder))
        board = Board(workspace, access, log, port=chosen, proxied=proxy is not None)
        host = f"[{listen}]" if ":" in listen else listen
        address = proxy.origin if proxy else f"http://{host}:{chosen}"
        links = [
            {"name": person.name, "role": person.role, "link": f"{address}/enter?token={token}"}
            for person, token in access.tokens.items()
        ]
        started({"board": str(workspace.folder), "address": address, "links": links, "alone": first})
        server(application(board, port=chosen, proxy=proxy), board).run(sockets=[opened])


def server(app: Any, board: Board) -> uvicorn.Server:
    """What answers for a board's application until it is told to exit, and then lets go of pages that follow something.

    It writes no log: addresses hold tokens until they are exchanged, and what goes wrong is said on the page.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="critical",
        server_header=False,
        # Who asks is read by the board's own checks, and by nothing else.
        proxy_headers=False,
        forwarded_allow_ips="",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=1 << 15,
        limit_concurrency=200,
    )
    running = uvicorn.Server(config)
    board.ending = lambda: running.should_exit
    return running


def bound(listen: str, port: int, *, proxied: bool) -> socket.socket:
    """A socket at this address; one that others could reach only where a proxy stands before it."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if listen == "localhost" else listen)
    except ValueError:
        raise InputError(
            f"--listen: {listen!r} is not an address of this machine, such as 127.0.0.1."
        ) from None
    if str(address) not in ("127.0.0.1", "::1") and not proxied:
        # Names by which the checks of requests let people in are those of these two.
        raise InputError(
            f"--listen {listen}: others on the network could reach it, and the board has no TLS of its own. Put a "
            "proxy before it that has, and name it with --proxy FILE; or leave --listen out."
        )
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port: {port} does not exist; ports are 1 to 65535.")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((str(address), port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise InputError(
            f"--port: {port} cannot be had at {listen} ({error.strerror}). Another board may be there; name a "
            "free one, or 0 for any."
        ) from None
    return opened
