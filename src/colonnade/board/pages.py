"""The board's pages: overview, requests, two runs side by side, ledger, data and log; and what can be done there."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from colonnade.board import run_page, views
from colonnade.board.access import Access, AuditLog, Refused, Session, TooMany, cookie_name, read_cookie
from colonnade.board.run_page import events
from colonnade.board.workspace import LedgerView, OwnFile, Workspace
from colonnade.crypto.sealing import SigningKey
from colonnade.data.files import csv_text
from colonnade.errors import FileMissing, InputError
from colonnade.ledger import Ledger
from colonnade.ledger.export import export, parse_key, signing_key
from colonnade.models.files.document import PARTIES
from colonnade.privacy.observers import observer_text
from colonnade.report.evaluation import evaluation_section
from colonnade.report.html import charts, environment
from colonnade.report.ledgers import history_csv
from colonnade.report.plain import size_text, spent_text
from colonnade.report.text import worst
from colonnade.runs.reading import RunFolder, page_of, readable, released_model, run_line, with_facts
from colonnade.runs.recovery import recovered
from colonnade.runs.run_index import RUNNING, WAITS, Progress
from colonnade.sites.approval import Request as ApprovalRequest
from colonnade.sites.approval import approve, decline

T = TypeVar("T")
Form = Mapping[str, str]
PAGES = (
    ("/", "Overview"),
    ("/requests", "Requests"),
    ("/runs", "Runs"),
    ("/compare", "Compare"),
    ("/ledger", "Ledger"),
    ("/data", "Data"),
    ("/log", "Log"),
)
MOST_STREAMS = 32
SHOWN_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
"""For a page that lies on the disk: whatever was written into it, it runs nothing and loads nothing."""


class Board:
    def __init__(
        self, workspace: Workspace, access: Access, log: AuditLog, *, port: int, proxied: bool = False
    ) -> None:
        self.workspace, self.access, self.log = workspace, access, log
        self.cookie, self.proxied = cookie_name(port), proxied
        self.ending: Callable[[], bool] = lambda: False
        self._streams = threading.Semaphore(MOST_STREAMS)

    def page(
        self, request: Request, template: str, *, title: str, status: int = 200, **facts: Any
    ) -> HTMLResponse:
        session: Session | None = request.state.session
        kit = self.workspace.kit is not None
        text = environment("colonnade.board").get_template(template)
        return HTMLResponse(
            text.render(
                title=title,
                here=request.url.path,
                board=self.workspace.name,
                kit=kit,
                person=None if session is None else session.person,
                form_token="" if session is None else self.access.form_token(session),
                proxied=self.proxied,
                pages_of_board=[one for one in PAGES if kit or one[0] != "/requests"],
                **facts,
            ),
            status,
        )

    def enter(self, request: Request) -> Response:
        token = request.query_params.get("token", "")
        try:
            cookie = None if self.proxied or request.method != "GET" else self.access.enter(token)
        except TooMany:
            # Those that led to this are in the log; nobody fills a disk by going on.
            raise Refused(429, "Too many wrong links were tried. Wait for a minute.") from None
        session = None if cookie is None else self.access.session(cookie)
        if session is None or cookie is None:
            self.log.write(None, "was not let in", outcome="a wrong or used link")
            raise Refused(
                401,
                "This link is not good any more: it works once. Start the board again, and open the link that it says.",
            )
        self.log.write(session.person, "signed in")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, cookie, httponly=True, samesite="strict", path="/")
        return answer

    def overview(self, request: Request) -> Response:
        return self.page(request, "overview.html", title="Overview", **views.overview(self.workspace))

    def requests(self, request: Request) -> Response:
        requests = [views.request(one) for one in self.workspace.requests(ended=True)]
        waiting = [one for one in requests if one["approval"].state == "waiting"]
        ended = [one for one in reversed(requests) if one["approval"].state != "waiting"]
        return self.page(
            request, "requests.html", title="Requests", waiting=waiting, ended=ended[: views.A_PAGE]
        )

    def request(self, request: Request) -> Response:
        facts = views.request(self.find_request(request))
        return self.page(request, "request.html", title="Request", **facts)

    def find_request(self, request: Request) -> ApprovalRequest:
        job = request.path_params["job"]
        requests = (one for one in self.workspace.requests(ended=True) if one.job == job)
        return _first(requests, f"no job {job!r} has asked here. The page of requests has those that did.")

    def runs(self, request: Request) -> Response:
        facts = views.runs(self.workspace, _number(request), request.query_params.get("name", "")[:200])
        return self.page(request, "runs.html", title="Runs", **facts)

    def run(self, request: Request) -> Response:
        name = request.path_params["run"]
        with readable(self.workspace.runs.read(name)):
            facts = run_page.page_facts(self.workspace, name)
            return self.page(request, "run_page.html", title=facts["name"], facts=facts)

    def report(self, request: Request) -> Response:
        run = with_facts(self.workspace.runs.read(request.path_params["run"]))
        if run.failed or run.facts.get("state"):
            raise FileMissing(f"{run.path.name} has no report: it is {run.state}.")
        with readable(run):
            return _kept_page(page_of(run))

    def own_page(self, request: Request) -> Response:
        run, party = self.workspace.runs.read(request.path_params["run"]), request.path_params["party"]
        path = run.path / PARTIES / f"{party}.html"
        if party not in run_page.own_pages(run) or path.is_symlink() or not path.is_file():
            raise FileMissing("there is no such page. It may have been removed since.")
        return _kept_page(path.read_text(encoding="utf-8", errors="replace"))

    def card(self, request: Request) -> Response:
        from colonnade.report.model_card import model_card

        whole, record = released_model(self.workspace.runs.read(request.path_params["run"]).path)
        return download(model_card(whole, record=record).encode(), "model-card.md")

    def onnx(self, request: Request) -> Response:
        from colonnade.models.files.onnx import onnx_model

        whole, _ = released_model(self.workspace.runs.read(request.path_params["run"]).path)
        return download(onnx_model(whole).SerializeToString(), "model.onnx")

    def file(self, request: Request) -> Response:
        name = request.path_params["file"]
        path = self.workspace.runs.read(request.path_params["run"]).path / name
        if name not in run_page.DOWNLOADS or path.is_symlink() or not path.is_file():
            raise FileMissing(f"the run has no file {name!r} to hand out.")
        return download(path.read_bytes(), name)

    def ledgers(self, request: Request) -> Response:
        ledgers = self.workspace.ledgers()
        key = request.path_params.get("key")
        facts = None
        if ledgers or key is not None:
            shown = _first(
                (one for one in ledgers if key in (None, one.key)), f"there is no ledger {key!r} here."
            )
            facts = views.ledger(shown, _number(request))
        keys = [one.key for one in ledgers]
        return self.page(request, "ledger.html", title="Ledger", keys=keys, ledger=facts)

    def ledger_table(self, request: Request) -> Response:
        view = self.find_ledger(request)
        return download(history_csv(view.entries).encode(), f"{view.key}.csv")

    def ledger_export(self, request: Request) -> Response:
        view = self.find_ledger(request)
        ledger = Ledger.open(view.path, patience=self.workspace.patience)
        return download(export(ledger, None).encode(), f"{view.key}.json")

    def find_ledger(self, request: Request) -> LedgerView:
        key = request.path_params["key"]
        ledgers = (one for one in self.workspace.ledgers() if one.key == key)
        ledger = _first(ledgers, f"there is no ledger {key!r} here.")
        if ledger.error is not None:
            raise ledger.error
        return ledger

    def data(self, request: Request) -> Response:
        files = [views.data(one) for one in self.workspace.own_files()]
        return self.page(request, "data.html", title="Data", files=files)

    def find_own_file(self, request: Request) -> OwnFile:
        key = request.path_params["key"]
        files = (one for one in self.workspace.own_files() if one.path.stem == key)
        return _first(files, f"there is no party file {key!r} here.")

    def log_page(self, request: Request) -> Response:
        entries, path = self.log.latest(), str(self.log.path)
        return self.page(request, "log.html", title="Log", entries=entries, path=path)

    async def run_events(self, request: Request) -> Response:
        name = request.path_params["run"]
        progress = Progress(self.workspace.runs.folder / self.workspace.runs.find(name).name)

        def look() -> dict[str, Any] | None:
            try:
                listed = self.workspace.runs.find(name)
            except FileMissing:
                return None
            if listed.state not in (RUNNING, WAITS):
                return None
            words = progress.read().words()
            spent = run_page.spent_text(run_page.charged_for(self.workspace, progress.run))
            return {**words, "state": listed.state, "spent": spent}

        return self.stream(look)

    async def events(self, request: Request) -> Response:
        def look() -> dict[str, Any]:
            going = sum(1 for _ in takewhile(lambda one: one.open, self.workspace.runs.listed()))
            return {"waiting": str(len(self.workspace.requests())), "going": str(going)}

        return self.stream(look)

    def stream(self, look: Callable[[], dict[str, Any] | None]) -> Response:
        if not self._streams.acquire(blocking=False):
            raise Refused(503, "Too many pages are open. Close some, or reload this one by hand.")

        async def lines() -> AsyncIterator[str]:
            try:
                async for line in events(look, self.ending):
                    yield line
            finally:
                self._streams.release()

        return StreamingResponse(lines(), media_type="text/event-stream")


def _first(matches: Iterable[T], missing: str) -> T:
    for one in matches:
        return one
    raise FileMissing(missing)


def _number(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


def _kept_page(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": SHOWN_POLICY})


def download(content: bytes, name: str) -> Response:
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
    )


MOST, OFFERED, SHOWN_BARS = 6, 50, 8
HEADS = ("run", "job", "task", "method", "ε", "largest ε", "for whom", "people", "quality", "sent", "date")


def compare_page(board: Board, request: Request) -> Response:
    chosen = _chosen(board, request)
    ended = [one for one in board.workspace.runs.listed() if not one.open and one.state != "failed"]
    shown = []
    for run in chosen:
        with readable(run):
            evaluated, bars = evaluation_section(run.run.evaluated), charts(run.run.model_facts, SHOWN_BARS)
            shown.append({"row": _row(run), "name": run.path.name, "evaluated": evaluated, "charts": bars})
    names = [run.path.name for run in chosen]
    return board.page(
        request,
        "compare.html",
        title="Compare",
        offered=[(one.name, one.name in names) for one in ended[:OFFERED]],
        chosen=names,
        heads=HEADS,
        runs=shown,
    )


def compare_table(board: Board, request: Request) -> Response:
    rows: list[Sequence[object]] = [HEADS]
    for run in _chosen(board, request):
        with readable(run):
            rows.append(_row(run))
    return download(csv_text(rows).encode(), "runs.csv")


def _chosen(board: Board, request: Request) -> list[RunFolder]:
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    if len(names) > MOST:
        raise InputError(f"{len(names)} runs are too many to stand side by side. Choose at most {MOST}.")
    chosen = []
    for name in names:
        run = with_facts(board.workspace.runs.read(name))
        if run.failed or run.facts.get("state"):
            raise FileMissing(f"{name} has nothing to compare: it is {run.state}.")
        chosen.append(run)
    return chosen


def _row(run: RunFolder) -> tuple[str, ...]:
    record, line = run.run, run_line(run)
    item = worst(record)
    return (
        run.path.name,
        str(line["name"]),
        str(line["task"]),
        record.method,
        "" if line["epsilon"] is None else f"{line['epsilon']:g}",
        spent_text(item.epsilon) if item else "",
        observer_text(item.observer) if item else "",
        str(line["rows"]),
        str(line["score"] or ""),
        size_text(sum(flow.bytes for flow in record.traffic.flows)),
        str(line["date"]),
    )


EXPORT_KEY = "export.key"
"""The board's own key for exports, in the kit or the folder; only its owner may read it."""


def decide(board: Board, request: Request, form: Form) -> Response:
    kit, job, person = board.workspace.kit, board.find_request(request), request.state.session.person
    decision, patience = form.get("decision"), board.workspace.patience
    if kit is None or decision not in ("approve", "decline"):
        raise Refused(400, "A job is approved or declined.")
    if form.get("digest") != job.digest:
        raise InputError(
            f"job {job.job} asks for something else than when the page was made. Nothing was decided. Read it again."
        )
    with board.log.failures(person, decision, of=job.job):
        key = _key(form.get("key", ""))
        if decision == "approve":
            approve(kit, job.job, by=person.name, key=key, patience=patience)
        else:
            because = form.get("because", "")
            decline(kit, job.job, by=person.name, because=because, key=key, patience=patience)
    board.log.write(person, decision, of=job.job)
    return RedirectResponse(f"/requests/{job.job}", 303)


def check_rows(board: Board, request: Request, _form: Form) -> Response:
    own = board.find_own_file(request)
    facts = views.checked_rows(own)
    board.log.write(request.state.session.person, "checked rows", of=own.path.name)
    return board.page(request, "rows.html", title="Rows", **facts)


def recover(board: Board, request: Request, _form: Form) -> Response:
    name, person = request.path_params["run"], request.state.session.person
    path = board.workspace.runs.folder / board.workspace.runs.find(name).name
    with board.log.failures(person, "recovered a run", of=name):
        folder, _ = recovered(path)
    board.log.write(person, "recovered a run", of=name)
    return RedirectResponse(f"/runs/{quote(folder.name)}", 303)


def sign_export(board: Board, request: Request, form: Form) -> Response:
    """Every entry of a ledger, signed, as `colonnade ledger --export --key` writes it.

    Without a key of the person's own it is the board's, which is made when it is first needed.
    """
    person = request.state.session.person
    with board.log.failures(person, "exported a ledger", of=request.path_params["key"]):
        view = board.find_ledger(request)
        key = _key(form.get("key", "")) or signing_key(board.workspace.folder / EXPORT_KEY)
        text = export(Ledger.open(view.path, patience=board.workspace.patience), key)
    board.log.write(person, "exported a ledger", of=f"{view.key}, signed by {key.public.hex()}")
    return download(text.encode(), f"{view.key}.json")


def leave(board: Board, request: Request, _form: Form) -> Response:
    board.access.leave(read_cookie(request.headers.get("cookie", ""), board.cookie) or "")
    board.log.write(request.state.session.person, "signed out")
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(board.cookie, path="/", httponly=True, samesite="strict")
    return answer


def _key(text: str) -> SigningKey | None:
    if not text.strip():
        return None
    try:
        return parse_key(text)
    except ValueError:
        raise InputError("that is not a signing key: paste what is in the file of your key.") from None
