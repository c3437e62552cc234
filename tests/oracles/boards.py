"""Boards to look at: a kit with a job that waits, a folder with runs, and people who are signed in."""

import asyncio
import datetime
import http.client
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from certificates import Root
from relayed_jobs import houses
from two_houses import policy_text

from colonnade.board import server
from colonnade.board.access import Access, AuditLog, Person, Proxy
from colonnade.board.pages import Board
from colonnade.board.workspace import Workspace
from colonnade.federation.files import LOG, PROGRESS, sealed_text
from colonnade.ledger import Ledger
from colonnade.ledger.state import Prospect
from colonnade.runtime.channel import StepFacts, step_line
from colonnade.sites import approval
from colonnade.sites.approval import Request
from colonnade.sites.kit import Kit

PORT = 8765
Headers = Iterable[tuple[str, str]]
ORIGIN = f"http://127.0.0.1:{PORT}"
ADA, BEN, EVE = Person("Ada", "officer"), Person("Ben", "officer"), Person("Eve", "auditor")
HOSTILE_JOB = "<script>alert(1)</script> & \"quoted\" 'name' " + "x" * 90
WHAT = "second moments of 10 columns of 'd' to server, by moments with shop"


def bank(folder: Path, *, asks: str = 'approval = "ask"') -> Kit:
    """The kit of a bank whose policy asks people, with a ledger that has a budget."""
    kit = houses(folder, Root.make())["bank"]
    (folder / "bank.policy.toml").write_text(f"{asks}\n{policy_text('bank')}")
    ledger = Ledger.create(folder / "bank.ledger", "bank")
    ledger.set_budget("d", "*", "*", epsilon=4.0, delta=1e-5)
    return kit


def ask(
    kit: Kit, job: str = "j1", *, name: str = "risk", what: str = WHAT, people: int = 1, **more: Any
) -> Request:
    """A job that waits for people at the bank, as its process writes it."""
    now = datetime.datetime.now(datetime.UTC)
    requested, until = (
        moment.isoformat(timespec="seconds") for moment in (now, now + datetime.timedelta(hours=1))
    )
    cost = Prospect("d", "record", "server", delta=1e-5, epsilon=0.5, budget=4.0, before=4.0, left=3.5)
    costs = (cost, replace(cost, observer="party:shop", unit="others-part"))
    said: dict[str, Any] = {"job": job, "name": name, "party": "bank", "what": what, "people": people, **more}
    said |= {"digest": "5" * 64, "requested": requested, "until": until, "state": "waiting"}
    ledger = Path(kit.site()["party"]).parent / "bank.ledger"
    request = Request(costs=costs, ledger=str(ledger), **said)
    (kit.path / approval.REQUESTS).mkdir(exist_ok=True)
    approval._write(kit.path / approval.REQUESTS / f"{job}.json", request)
    return request


def write_runs(folder: Path, facts: dict[str, Any], names: list[str]) -> None:
    text = sealed_text(facts)
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        if number:
            (folder / name / "facts.json").hardlink_to(folder / names[0] / "facts.json")
        else:
            (folder / name / "facts.json").write_text(text)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Client:
    """Requests to an application as they would come from the wire, and the cookies that it sets."""

    def __init__(self, app: Any, host: str = f"127.0.0.1:{PORT}") -> None:
        self._app, self._host = app, host
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, headers: Headers = (), body: bytes = b"") -> Answer:
        """One request; a header that is given takes the place of the usual one, and may be given twice."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        usual = [("host", self._host), *([("cookie", cookie)] if cookie else [])]
        given = list(headers)
        sent = [*(one for one in usual if one[0] not in dict(given)), *given]
        address, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(address), "raw_path": address.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent],
            "client": ("127.0.0.1", 5), "server": ("127.0.0.1", PORT),
        }  # fmt: skip
        got: list[dict[str, Any]] = []
        requested = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            return next(requested, {"type": "http.disconnect"})

        async def send(message: dict[str, Any]) -> None:
            got.append(message)

        asyncio.run(self._app(scope, receive, send))
        announced = {name.decode(): value.decode() for name, value in got[0]["headers"]}
        cookies = SimpleCookie(announced.get("set-cookie", ""))
        self.cookies |= {name: found.value for name, found in cookies.items()}
        text = b"".join(message.get("body", b"") for message in got).decode("utf-8", "replace")
        return Answer(got[0]["status"], announced, text)


@dataclass
class Visit:
    board: Board
    client: Client

    def get(self, path: str, headers: Headers = ()) -> Answer:
        return self.client.ask("GET", path, headers)

    def token(self) -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]+)"', self.get("/").text)
        return "" if found is None else found[1]

    def send(
        self, path: str, *, origin: str | None = ORIGIN, token: str | None = None, **fields: str
    ) -> Answer:
        """Send a form as the page would, or not quite."""
        form = {"form_token": self.token() if token is None else token, **fields}
        return self.post(path, form, [] if origin is None else [("origin", origin)])

    def post(self, path: str, form: dict[str, str], headers: Headers = ()) -> Answer:
        kind = ("content-type", "application/x-www-form-urlencoded")
        return self.client.ask("POST", path, [kind, *headers], urlencode(form).encode())


def application(
    workspace: Workspace, access: Access, *, proxy: Proxy | None = None, port: int = PORT
) -> tuple[Board, Any]:
    board = Board(workspace, access, AuditLog(workspace.folder), port=port, proxied=proxy is not None)
    return board, server.application(board, port=port, proxy=proxy)


def visit(folder: Path, person: Person | None = ADA, *, access: Access | None = None) -> Visit:
    """Somebody who has opened their link; None is somebody who has none."""
    access = access or Access([] if person is None else [person])
    board, app = application(Workspace(folder), access)
    found = Visit(board, Client(app))
    if person is not None:
        assert found.get(f"/enter?token={access.tokens[person]}").status == 303
    return found


def recorded(folder: Path) -> list[tuple[str, str, str]]:
    lines = (folder / "board.jsonl").read_text().splitlines()
    return [(act["by"], act["act"], act["found"]) for act in map(json.loads, lines)]


@contextmanager
def live(folder: Path, *people: Person) -> Iterator[tuple[str, Access]]:
    """A board that answers on a port of its own; yields its address and its links."""
    access = Access(people)
    with server.bound("127.0.0.1", 0, proxied=False) as opened:
        port = opened.getsockname()[1]
        board, app = application(Workspace(folder), access, port=port)
        running = server.server(app, board)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            while not running.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{port}", access
        finally:
            running.should_exit = True
            thread.join()


def growing(kit: Kit, job: str, step: str = "columns", *, run: str = "") -> Path:
    folder = kit.run_folder(job)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("a") as log:
        log.write(step_line("bank", job, StepFacts(step, sent=1000, received=9, seconds=0.5)) + "\n")
    if run:
        (folder / PROGRESS).write_text(json.dumps({"run": run}))
    return folder


def cookie_of(address: str, token: str) -> str:
    """What a browser sends to a board that answers, once it has opened its link."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
    with closing(connection):
        connection.request("GET", f"/enter?token={token}")
        return str(connection.getresponse().getheader("set-cookie", "")).partition(";")[0]
