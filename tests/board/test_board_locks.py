"""A board is locked: attacks that a page elsewhere, a neighbour on the machine or a reader could try."""

import json
import socket
import sys
from pathlib import Path

import pytest
from boards import ADA, BEN, PORT, Client, Visit, application, ask, bank, recorded, visit

from colonnade.board.access import MOST_WRONG, SESSION_SECONDS, WITHIN_SECONDS, Access, Person, Proxy, TooMany
from colonnade.board.workspace import Workspace
from colonnade.cli.app import run
from colonnade.errors import ColonnadeError
from colonnade.ledger import Ledger

PAGES = ("/", "/requests", "/runs", "/ledger", "/data", "/log", "/ledger/bank/export")
SECRET = "5f" * 32


def decided(folder: Path) -> list[str]:
    return [one.by for one in Ledger.open(folder / "bank.ledger").decisions()]


def test_a_link_works_once_and_leaves_no_secret_in_an_address_a_log_or_a_page(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    access = Access([ADA])
    token = access.tokens[ADA]
    first = visit(kit.path, access=access)
    cookie = first.client.cookies[f"colonnade-board-{PORT}"]
    again = visit(kit.path, None, access=access)
    assert again.get(f"/enter?token={token}").status == 401
    other = Access([ADA])
    entered = visit(kit.path, None, access=other).get(f"/enter?token={other.tokens[ADA]}")
    assert entered.headers["location"] == "/"
    flags = entered.headers["set-cookie"].lower()
    assert "httponly" in flags and "samesite=strict" in flags and "domain" not in flags
    seen = "".join(first.get(page).text for page in PAGES)
    log = (kit.path / "board.jsonl").read_text()
    assert (kit.path / "board.jsonl").stat().st_mode & 0o077 == 0
    for secret in (token, cookie, other.tokens[ADA]):
        assert secret not in seen and secret not in log
    assert ("", "was not let in", "a wrong or used link") in recorded(kit.path)


def test_guessing_links_is_stopped_and_does_not_end_sessions() -> None:
    clock = [0.0]
    access = Access([ADA, BEN], clock=lambda: clock[0])
    cookie = access.enter(access.tokens[ADA]) or ""
    for number in range(MOST_WRONG):
        assert access.enter(f"guess {number}") is None
    with pytest.raises(TooMany):
        access.enter("one more")
    with pytest.raises(TooMany):
        access.enter(access.tokens[BEN])
    assert access.session(cookie) is not None
    clock[0] = WITHIN_SECONDS + 1
    assert access.enter(access.tokens[BEN]) is not None
    clock[0] = SESSION_SECONDS + 1
    assert access.session(cookie) is None


def test_too_many_wrong_links_are_answered_with_429(tmp_path: Path) -> None:
    nobody = visit(bank(tmp_path).path, None)
    codes = [nobody.get(f"/enter?token={number}").status for number in range(MOST_WRONG + 1)]
    assert codes == [401] * MOST_WRONG + [429]
    assert len(recorded(nobody.board.workspace.folder)) == MOST_WRONG, "nobody fills a disk by guessing"


HOSTS = ("evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", "")


def test_names_of_others_and_proxies_are_refused_and_whoever_signs_out_is_out(tmp_path: Path) -> None:
    ada = visit(bank(tmp_path).path)
    assert ada.get("/", [("host", f"localhost:{PORT}")]).status == 200
    # What a page does that makes its own name point to this machine.
    for host in (*HOSTS, f"127.0.0.1.evil.example:{PORT}"):
        assert ada.get("/", [("host", host)]).status == 403, host
    for header in ("x-forwarded-for", "forwarded", "x-forwarded-host", "via"):
        answer = ada.get("/", [(header, "10.0.0.1")])
        assert answer.status == 403 and "--proxy" in answer.text
    cookie = ada.client.cookies[f"colonnade-board-{PORT}"]
    assert ada.send("/leave").status == 303
    assert ada.get("/", [("cookie", f"colonnade-board-{PORT}={cookie}")]).status == 401


def test_answers_forbid_what_the_board_does_not_need(tmp_path: Path) -> None:
    ada = visit(bank(tmp_path).path)
    for page in (*PAGES[:2], "/nowhere", "/static/board.js", "/enter?token=x"):
        headers = ada.get(page).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self'" in policy
        assert headers["x-content-type-options"] == "nosniff" and "frame-ancestors 'none'" in policy
    assert ada.get("/").headers["cache-control"] == "no-store"


def write_proxy(folder: Path, more: str = "", *, secret: str = SECRET) -> Path:
    (folder / "secret").write_text(secret)
    (folder / "secret").chmod(0o600)
    path = folder / "board.toml"
    path.write_text(
        'address = "https://board.bank.example"\nuser_header = "X-User"\nsecret_header = "X-Secret"\n'
        f'secret_file = "secret"\nofficers = ["ada@bank.example"]\nauditors = ["eve@bank.example"]\n{more}'
    )
    return path


def test_a_proxy_that_was_named_signs_people_in_and_nobody_else_can(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit)
    proxy = Proxy.load(write_proxy(tmp_path))
    origin = "https://board.bank.example"
    board, app = application(Workspace(kit.path), Access([]), proxy=proxy)
    client = Visit(board, Client(app, host="board.bank.example"))
    good = {"x-user": "ada@bank.example", "x-secret": SECRET, "x-forwarded-for": "10.0.0.1"}
    page = client.get("/requests/j1", good.items())
    assert page.status == 200 and "ada@bank.example" in page.text and SECRET not in page.text
    for wrong in ({"x-secret": "0" * 64}, {"x-user": "eve@evil.example"}, {"x-secret": ""}, {"x-user": ""}):
        assert client.get("/", {**good, **wrong}.items()).status == 401
    assert client.get("/", [("x-user", "eve@bank.example"), *good.items()]).status == 401
    assert client.get("/", [*good.items(), ("host", f"127.0.0.1:{PORT}")]).status == 403
    token = page.text.split('name="form_token" value="')[1].split('"')[0]
    form = {"form_token": token, "decision": "approve", "digest": "5" * 64}
    eve = {**good, "x-user": "eve@bank.example", "origin": origin}
    assert client.post("/requests/j1", form, eve.items()).status == 403
    assert client.post("/requests/j1", form, good.items()).status == 403
    assert client.post("/requests/j1", form, [*good.items(), ("origin", origin)]).status == 303
    assert decided(tmp_path) == ["ada@bank.example"]


def test_a_proxy_that_is_described_wrongly_or_has_a_weak_secret_is_refused(tmp_path: Path) -> None:
    for old, new, found in (
        ("https://board", "http://board", "with https"),
        ('"X-User"', '"X User"', "the name of a header"),
        ('"eve@bank.example"', '"ada@bank.example"', "among officers and auditors"),
        ('secret_file = "secret"', 'secret_file = "nowhere"', "openssl rand"),
    ):
        path = write_proxy(tmp_path)
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(ColonnadeError, match=found):
            Proxy.load(path)
    with pytest.raises(ColonnadeError, match="too short"):
        Proxy.load(write_proxy(tmp_path, secret="abc"))
    path = write_proxy(tmp_path)
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(ColonnadeError, match="read by others"):
        Proxy.load(path)


def test_the_verb_refuses_what_would_open_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        for words, found in (
            (("--listen", "0.0.0.0"), "no TLS of its own"),
            (("--listen", "127.0.0.2"), "leave --listen out"),
            (("--listen", "example.org"), "not an address of this machine"),
            (("--port", str(used.getsockname()[1])), "cannot be had"),
            (("--person", "Ada", "--auditor", "ada"), "named twice"),
            (("--person", "\x1b[2J"), "not a valid name of a person"),
            (("--runs", str(tmp_path / "nowhere")), "is not a folder"),
        ):
            assert run(["board", str(tmp_path), *words, "--json"]) == 3
            assert found in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(["board", str(tmp_path / "nowhere")]) == 3
    assert run(["board", str(bank(tmp_path).path.parent / "server")]) == 3
    assert "a board is a party's" in capsys.readouterr().err


def test_names_are_bound_to_links_and_not_typed(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit)
    ben = visit(kit.path, BEN)
    assert ben.send("/requests/j1", decision="approve", digest="5" * 64, by="Ada").status == 303
    assert decided(tmp_path) == ["Ben"]
    assert Person("Ben", "officer").may_act


def test_without_its_extra_the_verb_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("colonnade.board.", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert run(["board", str(tmp_path)]) == 3
    assert "pip install 'colonnade[board]'" in capsys.readouterr().err
