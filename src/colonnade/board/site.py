"""The addresses of a board, and what every one of them does before and after its page."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from colonnade.board.beside import Beside, synthesize
from colonnade.board.deeds import check_rows, decide, leave, recover, sign_export
from colonnade.board.gate import Gate, Refused, read_form
from colonnade.board.pages import Board, Form
from colonnade.board.plan_pages import PlanPages, act_on_plan, make_plan
from colonnade.board.proxy import Proxy
from colonnade.cli.explain import sections
from colonnade.data.documents import without_passwords
from colonnade.errors import ColonnadeError, FileMissing, InputError

Page = Callable[[Request], Response] | Callable[[Request], Awaitable[Response]]
Deed = Callable[[Board, Request, Form], Response]
HERE = Path(__file__).parent
STATIC = {
    "page.css": (HERE.parent / "report" / "page.css", "text/css"),
    "board.css": (HERE / "board.css", "text/css"),
    "board.js": (HERE / "board.js", "text/javascript"),
}


def site(board: Board, *, port: int, proxy: Proxy | None = None) -> Gate:
    """The whole board as one application, behind its gate."""

    def look(path: str, page: Page) -> Route:
        return Route(path, _answered(board, _signed_in(page)), methods=["GET"])

    def act(path: str, deed: Deed, *, all_may: bool = False) -> Route:
        return Route(path, _answered(board, _acting(board, deed, all_may)), methods=["POST"])

    planning, beside = PlanPages(board), Beside(board)
    routes = [
        Route("/enter", _answered(board, board.enter), methods=["GET"]),
        Route("/static/{name}", _answered(board, _static), methods=["GET"]),
        look("/", board.overview),
        look("/events", board.events),
        look("/requests", board.requests),
        look("/requests/{job}", board.request),
        look("/requests/{job}/events", board.request_events),
        look("/runs", board.runs),
        look("/runs/{run}", board.run),
        look("/runs/{run}/events", board.run_events),
        look("/runs/{run}/report", board.report),
        look("/runs/{run}/card", board.card),
        look("/runs/{run}/model.onnx", board.onnx),
        look("/runs/{run}/own/{party}", board.own_page),
        look("/runs/{run}/file/{file}", board.file),
        look("/compare", beside.page),
        look("/compare/table", beside.table),
        look("/beside/{folder}/{file}", beside.file),
        look("/ledger", board.ledgers),
        look("/ledger/{key}", board.ledgers),
        look("/ledger/{key}/table", board.ledger_table),
        look("/ledger/{key}/export", board.ledger_export),
        look("/plan", planning.form),
        look("/plan/{plan}", planning.show),
        look("/plan/{plan}/events", planning.events),
        look("/plan/{plan}/job.toml", planning.job_file),
        look("/data", board.data),
        look("/log", board.log),
        act("/requests/{job}", decide),
        act("/plan", make_plan),
        act("/plan/{plan}", act_on_plan),
        act("/runs/{run}/recover", recover),
        act("/runs/{run}/synthesize", synthesize),
        act("/ledger/{key}/export", sign_export),
        act("/data/{key}", check_rows, all_may=True),
        act("/leave", leave, all_may=True),
    ]
    app = Starlette(
        routes=routes, exception_handlers={404: _answered(board, _nothing), 405: _answered(board, _nothing)}
    )
    return Gate(app, access=board.access, port=port, proxy=proxy)


def _signed_in(page: Page) -> Page:
    async def checked(request: Request) -> Response:
        if request.state.session is None:
            raise Refused(
                401, "Nobody is signed in here. Open the link that the board said when it was started."
            )
        return await _run(page, request)

    return checked


def _acting(board: Board, deed: Deed, all_may: bool) -> Page:
    async def checked(request: Request) -> Response:
        session = request.state.session
        if session is None:
            raise Refused(
                401, "Nobody is signed in here. Open the link that the board said when it was started."
            )
        form = await read_form(request)
        if not board.access.from_its_form(session, form.get("form_token", "")):
            board.acts.note(
                session.person, "was refused", of=request.url.path, found="a form of another page"
            )
            raise Refused(
                403, "This form is not of this session. Load the page again, and send it from there."
            )
        if not (session.person.acts or all_may):
            board.acts.note(session.person, "was refused", of=request.url.path, found="an auditor looks only")
            raise Refused(403, "You are here as an auditor, who looks and decides nothing.")
        return await run_in_threadpool(deed, board, request, form)

    return checked


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
                f"a mistake in Colonnade, not in what you did: {type(error).__name__} at {Path(step.filename).name}, "
                f"line {step.lineno}."
            )
        return board.page(
            request,
            "wrong.html",
            title="Not done",
            status=status,
            message=message,
            number=number,
            explained=sections().get(number),
        )

    return answer


def _static(request: Request) -> Response:
    known = STATIC.get(request.path_params["name"])
    if known is None:
        raise Refused(404, "There is no such file.")
    path, kind = known
    return Response(path.read_bytes(), media_type=kind, headers={"Cache-Control": "max-age=300"})


def _nothing(_request: Request) -> Response:
    raise Refused(404, "There is no such page.")
