"""Attacks on every address of a board: without a link, from elsewhere, as an auditor, with names of others."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from boards import ADA, EVE, ORIGIN, application, ask, bank, growing, recorded, visit, write_runs
from cli_project import write_project
from report_runs import HOSTILE, hostile_run
from two_houses import job_text

from colonnade.board.access import LARGEST_FORM, MOST_FIELDS, Access
from colonnade.board.workspace import Workspace
from colonnade.federation.files import sealed_text
from colonnade.ledger import Ledger

HOLDER = "bank"
NAMES = {
    "job": "j1", "run": "j9", "file": "facts.json", "party": "bank", "key": "bank", "name": "board.css",
}  # fmt: skip
ALL_MAY = {"/leave", "/data/{key}"}
WITHOUT_A_LINK = {"/enter", "/static/{name}"}
UP = ("..%2F..%2Fstartup", "%2e%2e%2f%2e%2e%2fbank", "..", "%2Fetc", "..%5C..", "j9%00", "%2E%2E/bank")


def routes(kind: str) -> list[str]:
    _, app = application(Workspace(Path(__file__).parent), Access([]))
    return [route.path for route in app._app.routes if kind in route.methods]


def filled(path: str, **names: str) -> str:
    for name, value in {**NAMES, **names}.items():
        path = path.replace(f"{{{name}}}", value)
    return path


@pytest.fixture
def full(tmp_path: Path) -> Path:
    kit = bank(tmp_path)
    ask(kit)
    facts = {**hostile_run()[0], "time": "2026-05-06T07:08:09+00:00"}
    write_runs(kit.runs, facts, ["j9"])
    return kit.path


def state(folder: Path) -> dict[Path, bytes]:
    """What lies in a folder and beside it, but for the log."""
    files = (path for path in folder.parent.parent.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.name != "board.jsonl"}


def test_every_address_needs_a_link_and_every_act_a_form_token_and_an_officer(full: Path) -> None:
    acts, pages = routes("POST"), routes("GET")
    assert len(acts) >= 5 and len(pages) >= 22
    nobody, ada, eve = visit(full, None), visit(full), visit(full, EVE)
    before = state(full)
    for path in pages:
        if path not in WITHOUT_A_LINK:
            assert nobody.get(filled(path)).status == 401, path
            assert nobody.client.ask("HEAD", filled(path)).status == 401, path
    for path in acts:
        address = filled(path)
        assert nobody.send(address, token="0" * 64).status == 401, path
        for origin in (None, "null", "https://evil.example", "http://127.0.0.1:1"):
            assert ada.send(address, origin=origin).status == 403, path
        assert ada.send(address, token=eve.token()).status == 403, path
        if path not in ALL_MAY:
            answer = eve.send(address, decision="approve", digest="5" * 64)
            assert answer.status == 403 and "auditor" in answer.text, path
    for path in (path for path in pages if path not in acts):
        answer = ada.post(filled(path), {"form_token": ada.token()}, [("origin", ORIGIN)])
        assert answer.status in (404, 405), path
    assert state(full) == before
    refused = [found for by, act, found in recorded(full) if (by, act) == ("Eve", "was refused")]
    assert refused == ["an auditor looks only"] * (len(acts) - len(ALL_MAY))


def test_a_look_at_a_link_without_opening_it_does_not_use_it_up(full: Path) -> None:
    access = Access([ADA])
    nobody = visit(full, None, access=access)
    address = f"/enter?token={access.tokens[ADA]}"
    assert nobody.client.ask("HEAD", address).status == 401
    assert nobody.get(address).status == 303


def test_headers_that_name_a_person_mean_nothing_without_a_proxy_that_was_configured(full: Path) -> None:
    nobody = visit(full, None)
    for name in ("x-auth-request-email", "x-user", "x-forwarded-user", "remote-user", "authorization"):
        assert nobody.get("/", [(name, "Ada")]).status == 401, name


def test_forms_that_no_page_of_the_board_sends_are_refused(full: Path) -> None:
    ada, form = visit(full), "application/x-www-form-urlencoded"
    for kind, body, status in (
        ("application/json", b"{}", 415),
        ("text/plain", b"decision=approve", 415),
        (form, b"a" * (LARGEST_FORM + 1), 413),
        (form, b"&".join([b"a=1"] * (MOST_FIELDS + 1)), 400),
        (form, b"a=%ff", 400),
        (form, b"\xff", 400),
    ):
        answer = ada.client.ask("POST", "/requests/j1", [("content-type", kind), ("origin", ORIGIN)], body)
        assert answer.status == status and "Traceback" not in answer.text, body[:20]


def test_no_name_in_an_address_leads_out_of_the_kit(full: Path) -> None:
    (full.parent.parent / "secret.html").write_text("a secret")
    ada = visit(full)
    before, token = state(full), ada.token()
    for up in UP:
        for path in routes("GET"):
            for name in NAMES:
                if f"{{{name}}}" in path:
                    answer = ada.get(filled(path, **{name: up}))
                    assert answer.status in (401, 404, 409) and "a secret" not in answer.text, (
                        path,
                        name,
                        up,
                    )
        for path in routes("POST"):
            if "{" in path:
                address = filled(path, **dict.fromkeys(NAMES, up))
                assert ada.send(address, token=token, decision="approve").status in (404, 409), (path, up)
    assert state(full) == before


def test_links_of_a_file_system_are_not_followed_to_other_files(full: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("a secret")
    run = full / "runs" / "j9"
    (run / "parties").mkdir()
    (run / "parties" / "bank.html").symlink_to(secret)
    (run / "release.npz").symlink_to(secret)
    ada = visit(full)
    for path in ("/runs/j9/own/bank", "/runs/j9/file/release.npz"):
        answer = ada.get(path)
        assert answer.status == 404 and "a secret" not in answer.text, path


def hostile_folder(folder: Path) -> None:
    """Party files whose columns, categories and classes somebody else named, a job and runs."""
    project = write_project(folder, rows=40)
    for old in ("age", "clerk", "high"):
        text = (
            project.path("bank.csv").read_text().replace(old, '"' + (HOSTILE + old).replace('"', '""') + '"')
        )
        project.path("bank.csv").write_text(text)
    age, clerk, high = (json.dumps(f"{HOSTILE}{name}") for name in ("age", "clerk", "high"))
    project.path("bank.schema.toml").write_text(
        'id = "customer"\n'
        f'columns.{age} = {{kind = "numeric", low = 18, high = 90}}\n'
        f'columns.job = {{kind = "categorical", categories = [{clerk}, "farmer", "nurse"]}}\n'
        f'label = {{column = "risk", kind = "classes", classes = ["low", {high}]}}\n'
    )
    project.edit("job.toml", '"Default risk"', json.dumps(HOSTILE))


def test_columns_and_classes_that_others_named_are_text_on_every_page(tmp_path: Path) -> None:
    hostile_folder(tmp_path)
    ada = visit(tmp_path)
    page, rows = ada.get("/data").text, ada.send(f"/data/{HOLDER}").text
    shown = [page, rows, *(ada.get(path).text for path in (f"/compare?run={HOSTILE}", "/", "/log"))]
    assert all("<script>alert" not in one and "<title><" not in one for one in shown)
    assert "&lt;script&gt;alert" in page and "For bank only" in rows


def test_a_reason_a_step_and_an_error_that_others_wrote_are_text(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit, "j1", name=HOSTILE, what=HOSTILE, text=f"# {HOSTILE}\n{job_text()}")
    growing(kit, "j5", HOSTILE)
    growing(kit, "j6", HOSTILE)
    outcome = dict.fromkeys(("job", "step", "reason", "kind"), HOSTILE)
    outcome |= {"member": "bank", "id": "j6", "state": "failed"}
    (kit.run_folder("j6") / "outcome.json").write_text(sealed_text(outcome))
    (kit.path / "peers").mkdir()
    (kit.path / "peers" / "<img src=x onerror=alert(1)>.json").write_text("{}")
    ada = visit(kit.path)
    assert ada.send("/requests/j1", decision="decline", digest="5" * 64, because=HOSTILE).status == 303
    for path in ("/", "/requests", "/requests/j1", "/runs", "/runs/j5", "/runs/j6", "/ledger", "/log"):
        page = ada.get(path).text
        assert "<script>alert" not in page and "<img" not in page, path
    assert Ledger.open(tmp_path / "bank.ledger").decisions()[0].because == HOSTILE


def test_nothing_else_speaks_to_the_board_than_http(full: Path) -> None:
    _, app = application(Workspace(full), Access([]))
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    scope: dict[str, Any] = {"type": "websocket", "path": "/events", "query_string": b""}
    scope["headers"] = [(b"host", b"127.0.0.1:8765")]
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 403
