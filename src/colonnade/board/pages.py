"""The pages of a board that are looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from colonnade.board import run_views, views
from colonnade.board.access import Access, Session, TooMany
from colonnade.board.acts import Acts
from colonnade.board.forecasts import Forecast, Forecasts, question
from colonnade.board.gate import Refused, cookie_name, read_cookie
from colonnade.board.place import LedgerView, OwnFile, Place
from colonnade.board.plans import Plans, forecast_facts
from colonnade.board.progress import Expected, Progress, told
from colonnade.board.run_index import RUNNING, WAITS
from colonnade.cli.export import released
from colonnade.cli.runs.report import page_of
from colonnade.runs.run_folders import readable, with_facts
from colonnade.data.schema import PublicSchema
from colonnade.errors import FileMissing
from colonnade.federation.approval import Request as ApprovalRequest
from colonnade.ledger import Ledger
from colonnade.ledger.export import export
from colonnade.report.html import environment
from colonnade.report.timeline import history_csv

Form = Mapping[str, str]
PAGES = (
    ("/", "Overview"),
    ("/requests", "Requests"),
    ("/runs", "Runs"),
    ("/plan", "Plan"),
    ("/compare", "Compare"),
    ("/ledger", "Ledger"),
    ("/data", "Data"),
)
MOST_STREAMS = 32
SHOWN_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
"""For a page that lies on the disk: whatever was written into it, it runs nothing and loads nothing."""


class Board:
    """One board: what it looks at, who may, and where it is noted what they did."""

    def __init__(self, place: Place, access: Access, acts: Acts, *, port: int, proxied: bool = False) -> None:
        self.place, self.access, self.acts = place, access, acts
        self.cookie, self.proxied = cookie_name(port), proxied
        self.forecasts, self.plans = Forecasts(), Plans()
        self.ending: Callable[[], bool] = lambda: False
        self._streams = threading.Semaphore(MOST_STREAMS)

    def page(
        self, request: Request, template: str, *, title: str, status: int = 200, **facts: Any
    ) -> HTMLResponse:
        session: Session | None = request.state.session
        text = environment("colonnade.board").get_template(template)
        return HTMLResponse(
            text.render(
                title=title,
                here=request.url.path,
                board=self.place.name,
                kit=self.place.kit is not None,
                person=None if session is None else session.person,
                form_token="" if session is None else self.access.form_token(session),
                proxied=self.proxied,
                places=[one for one in PAGES if self.place.kit is not None or one[0] != "/requests"],
                **facts,
            ),
            status,
        )

    def enter(self, request: Request) -> Response:
        """Exchange a link for a cookie, once."""
        token = request.query_params.get("token", "")
        try:
            cookie = None if self.proxied or request.method != "GET" else self.access.enter(token)
        except TooMany:
            # Those that led to this are in the log; nobody fills a disk by going on.
            raise Refused(429, "Too many wrong links were tried. Wait for a minute.") from None
        session = None if cookie is None else self.access.session(cookie)
        if session is None or cookie is None:
            self.acts.note(None, "was not let in", found="a wrong or used link")
            raise Refused(
                401,
                "This link is not good any more: it works once. Start the board again, and open the link that it says.",
            )
        self.acts.note(session.person, "signed in")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, cookie, httponly=True, samesite="strict", path="/")
        return answer

    def leave(self, request: Request) -> Response:
        self.access.leave(read_cookie(request.headers.get("cookie", ""), self.cookie) or "")
        self.acts.note(request.state.session.person, "signed out")
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict")
        return answer

    def overview(self, request: Request) -> Response:
        return self.page(request, "overview.html", title="Overview", **views.overview(self.place))

    def requests(self, request: Request) -> Response:
        """Jobs that wait for somebody here, and those that did."""
        requests = [views.request(one) for one in self.place.requests(ended=True)]
        waiting = [one for one in requests if one["asking"].state == "waiting"]
        ended = [one for one in reversed(requests) if one["asking"].state != "waiting"]
        return self.page(
            request, "requests.html", title="Requests", waiting=waiting, ended=ended[: views.A_PAGE]
        )

    def request(self, request: Request) -> Response:
        """One job that waits, with a forecast, which is begun by the first look while it waits."""
        asked = self.asked(request)
        forecast = forecast_facts(self._forecast(asked))
        return self.page(request, "request.html", title="Request", forecast=forecast, **views.request(asked))

    def _forecast(self, asked: ApprovalRequest) -> Forecast | None:
        key = f"request {asked.job}"
        if asked.state != "waiting" or not asked.schemas or not asked.text:
            return self.forecasts.get(key)
        schemas = {party: PublicSchema.from_data(data) for party, data in asked.schemas.items()}
        return self.forecasts.begin(
            key, question(asked.text, schemas, rows=asked.rows, name=f"job {asked.job}")
        )

    async def request_events(self, request: Request) -> Response:
        """How far the forecast of a job that waits is."""
        forecast = self.forecasts.get(f"request {self.asked(request).job}")
        return self.stream(lambda: None if forecast is None or forecast.ended else forecast.words)

    def asked(self, request: Request) -> ApprovalRequest:
        job = request.path_params["job"]
        asking = next((one for one in self.place.requests(ended=True) if one.job == job), None)
        if asking is None:
            raise FileMissing(f"no job {job!r} has asked here. The page of requests has those that did.")
        return asking

    def runs(self, request: Request) -> Response:
        facts = views.runs(self.place, _number(request), request.query_params.get("name", "")[:200])
        return self.page(request, "runs.html", title="Runs", **facts)

    def run(self, request: Request) -> Response:
        name = request.path_params["run"]
        with readable(self.place.runs.read(name)):
            facts = run_views.run(self.place, name, self._expected(name))
            return self.page(request, "board_run.html", title=facts["name"], facts=facts)

    def report(self, request: Request) -> Response:
        """The report of a run, made from its facts as `colonnade report` makes it."""
        run = with_facts(self.place.runs.read(request.path_params["run"]))
        if run.failed or run.facts.get("state"):
            raise FileMissing(f"{run.path.name} has no report: it is {run.state}.")
        with readable(run):
            return kept_page(page_of(run))

    def own_page(self, request: Request) -> Response:
        """A party's own page of a run, as it was written."""
        names = request.path_params
        path = run_views.own_page(self.place, names["run"], names["party"])
        return kept_page(kept_text(path))

    def card(self, request: Request) -> Response:
        """The model card of a run, as `colonnade export --card` writes it."""
        from colonnade.report.model_card import model_card

        whole, facts = released(self.place.runs.read(request.path_params["run"]).path)
        return download(model_card(whole, facts=facts).encode(), "model-card.md")

    def onnx(self, request: Request) -> Response:
        """The model of a run as a graph in ONNX, as `colonnade export` writes it."""
        from colonnade.models.files.onnx import onnx_model

        whole, _ = released(self.place.runs.read(request.path_params["run"]).path)
        return download(onnx_model(whole).SerializeToString(), "model.onnx")

    def file(self, request: Request) -> Response:
        name = request.path_params["file"]
        path = self.place.runs.read(request.path_params["run"]).path / name
        if name not in run_views.DOWNLOADS or path.is_symlink() or not path.is_file():
            raise FileMissing(f"the run has no file {name!r} to hand out.")
        return download(path.read_bytes(), name)

    def ledgers(self, request: Request) -> Response:
        """Every ledger here; of the one that is named or the first, all of it."""
        ledgers = self.place.ledgers()
        key = request.path_params.get("key")
        shown = next((one for one in ledgers if key in (None, one.key)), None)
        if shown is None and key is not None:
            raise FileMissing(f"there is no ledger {key!r} here.")
        facts = {"ledger": None} if shown is None else {"ledger": views.ledger(shown, _number(request))}
        return self.page(request, "ledger.html", title="Ledger", keys=[one.key for one in ledgers], **facts)

    def ledger_table(self, request: Request) -> Response:
        """The history of a ledger as a table."""
        view = self.named_ledger(request)
        return download(history_csv(view.entries).encode(), f"{view.key}.csv")

    def ledger_export(self, request: Request) -> Response:
        """Every entry of a ledger, to be checked without it."""
        view = self.named_ledger(request)
        return download(
            export(Ledger.open(view.path, patience=self.place.patience), None).encode(), f"{view.key}.json"
        )

    def named_ledger(self, request: Request) -> LedgerView:
        """The ledger that an address names; what is wrong with it is raised."""
        key = request.path_params["key"]
        ledger = next((one for one in self.place.ledgers() if one.key == key), None)
        if ledger is None:
            raise FileMissing(f"there is no ledger {key!r} here.")
        if ledger.error is not None:
            raise ledger.error
        return ledger

    def data(self, request: Request) -> Response:
        files = [views.data(one) for one in self.place.own_files()]
        return self.page(request, "data.html", title="Data", files=files)

    def named_file(self, request: Request) -> OwnFile:
        key = request.path_params["key"]
        file = next((one for one in self.place.own_files() if one.path.stem == key), None)
        if file is None:
            raise FileMissing(f"there is no party file {key!r} here.")
        return file

    def log(self, request: Request) -> Response:
        """What was done on this board and by whom."""
        return self.page(request, "acts.html", title="Log", acts=self.acts.last(), path=str(self.acts.path))

    async def run_events(self, request: Request) -> Response:
        """How far a run is, as it goes on."""
        name = request.path_params["run"]
        progress = Progress(self.place.runs.folder / self.place.runs.find(name).name)

        def look() -> dict[str, Any] | None:
            try:
                listed = self.place.runs.find(name)
            except FileMissing:
                return None
            if listed.state not in (RUNNING, WAITS):
                return None
            words = progress.take_in().words(self._expected(name))
            spent = run_views.spent_text(run_views.charged_for(self.place, progress.run))
            return {**words, "state": listed.state, "spent": spent}

        return self.stream(look)

    def _expected(self, job: str) -> Expected | None:
        """What the forecast of a request foretold, if one was made since the board was started."""
        made = self.forecasts.get(f"request {job}")
        return None if made is None else Expected.of(made.facts, self.place.name)

    async def events(self, request: Request) -> Response:
        """How many requests wait and how many runs go on."""
        return self.stream(self._counts)

    def _counts(self) -> dict[str, Any]:
        going = sum(1 for _ in takewhile(lambda one: one.open, self.place.runs.listed()))
        return {"waiting": str(len(self.place.requests())), "going": str(going)}

    def stream(self, look: Callable[[], dict[str, Any] | None]) -> Response:
        """What `look` finds, as it changes, to a page that is open."""
        if not self._streams.acquire(blocking=False):
            raise Refused(503, "Too many pages are open. Close some, or reload this one by hand.")

        async def lines() -> Any:
            try:
                async for line in told(look, self.ending):
                    yield line
            finally:
                self._streams.release()

        return StreamingResponse(lines(), media_type="text/event-stream")


def _number(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


def kept_text(path: Path) -> str:
    try:
        if path.is_symlink() or not path.is_file():
            raise OSError
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise FileMissing("there is no such page. It may have been removed since.") from None


def kept_page(text: str) -> HTMLResponse:
    """A page that lies on the disk, which runs nothing and loads nothing."""
    return HTMLResponse(text, headers={"Content-Security-Policy": SHOWN_POLICY})


def download(content: bytes, name: str) -> Response:
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
    )
