"""A board on what others use: ledgers that are held or altered, runs that are removed, two boards on one kit."""

import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from boards import ADA, Visit, ask, bank, cookie_of, growing, live, recorded, visit, write_runs
from report_runs import private_run
from typed import there

from colonnade.board.access import alone
from colonnade.board.pages import MOST_STREAMS
from colonnade.ledger import Ledger

APPROVE = {"decision": "approve", "digest": "5" * 64}
# Within a transaction others may read; with the file to itself nobody may.
WRITES, TO_ITSELF = "BEGIN IMMEDIATE", "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE"
HELD = "another process holds this ledger"


@contextmanager
def held(ledger: Path, how: str) -> Iterator[None]:
    """Hold a ledger as another process would: SQLite locks connections of one process against each other too."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for statement in how.split(";"):
            connection.execute(statement)
        connection.execute("SELECT count(*) FROM entries").fetchone()
        yield


def hasty(folder: Path) -> Visit:
    ada = visit(folder)
    ada.board.workspace.patience = 0.05
    return ada


def decisions(folder: Path) -> list[str]:
    return [one.by for one in Ledger.open(folder / "bank.ledger").decisions()]


def test_a_ledger_that_another_process_holds_is_named_and_nothing_is_decided(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit)
    growing(kit, "j5", run="8c11")
    ada = hasty(kit.path)
    assert "Nothing has been charged yet" in ada.get("/").text
    before = Ledger.open(tmp_path / "bank.ledger").receipt()
    with held(tmp_path / "bank.ledger", TO_ITSELF):
        # Whoever has read the file before knows what is in it as long as it does not change.
        page = ada.get("/")
        assert page.status == 200 and HELD in page.text and "Nothing has been charged yet" in page.text
        ada = hasty(kit.path)
        page = ada.get("/")
        assert page.status == 200 and "The ledger of bank is held by another process" in page.text
        assert HELD in page.text and "cannot be said" in page.text and "no ledger yet" not in page.text
        run = ada.get("/runs/j5")
        assert run.status == 200 and "not known of bank" in run.text and "nothing yet" not in run.text
        assert HELD in ada.get("/ledger").text
        for path in ("/requests", "/requests/j1", "/ledger/bank/export", "/ledger/bank/table"):
            answer = ada.get(path)
            assert answer.status == 409 and "E602" in answer.text, path
        answer = ada.send("/requests/j1", **APPROVE)
        assert answer.status == 409 and HELD in answer.text
    assert Ledger.open(tmp_path / "bank.ledger").receipt() == before
    assert ada.send("/requests/j1", **APPROVE).status == 303 and decisions(tmp_path) == ["Ada"]


def test_while_a_run_writes_a_ledger_is_read_and_a_hasty_decision_is_refused(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit)
    ada = hasty(kit.path)
    with held(tmp_path / "bank.ledger", WRITES):
        assert "Nothing has been charged yet" in hasty(kit.path).get("/").text
        assert ada.get("/requests/j1").status == ada.get("/ledger/bank/export").status == 200
        assert ada.send("/requests/j1", **APPROVE).status == 409
    assert decisions(tmp_path) == []
    ((by, _, found),) = [line for line in recorded(kit.path) if line[1] == "approve"]
    assert by == "Ada" and HELD in found


def test_a_ledger_that_is_altered_while_somebody_looks_is_told_at_the_next_look(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit)
    ada = visit(kit.path)
    assert "Nothing has been charged yet" in ada.get("/").text
    path = tmp_path / "bank.ledger"
    times = path.stat()
    connection = sqlite3.connect(path)
    with connection:
        triggers = connection.execute("select name from sqlite_master where type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"drop trigger {name}")
        connection.execute("update entries set body = replace(body, '4.0', '9.0')")
    connection.close()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    altered = path.read_bytes()
    page = ada.get("/")
    assert page.status == 200 and "The ledger of bank cannot be relied on" in page.text
    assert "was altered" in page.text or "changed" in page.text
    assert ada.get("/ledger/bank").status == 200 and ada.get("/ledger/bank/export").status == 409
    # Whoever looks goes on looking, and whoever decides is told.
    assert ada.send("/requests/j1", **APPROVE).status == 409
    assert ada.send("/ledger/bank/export").status == 409
    assert path.read_bytes() == altered


def test_a_run_that_is_removed_or_damaged_under_a_page_is_named(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs", {**private_run()[0], "time": "2026-05-06T07:08:09+00:00"}, ["first"])
    ada = visit(tmp_path)
    assert ada.get("/runs/first").status == 200
    facts = tmp_path / "runs" / "first" / "facts.json"
    facts.write_text(facts.read_text()[:-40])
    assert "cannot be read" in ada.get("/runs/first").text and "unreadable" in ada.get("/runs").text
    shutil.rmtree(tmp_path / "runs" / "first")
    for path in ("", "/report", "/file/facts.json", "/events", "/card", "/model.onnx", "/own/bank"):
        answer = ada.get(f"/runs/first{path}")
        assert answer.status == 404 and "removed" in answer.text, path
    assert ada.send("/runs/first/recover").status == 404
    assert "removed" in ada.get("/compare?run=first").text
    assert ada.get("/").status == ada.get("/runs").status == ada.get("/compare").status == 200
    shutil.rmtree(tmp_path / "runs")
    assert ada.get("/").status == ada.get("/runs").status == ada.get("/compare").status == 200


def test_two_boards_on_one_kit_show_the_same_and_a_decision_counts_once(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ask(kit)
    with alone(kit.path) as first, alone(kit.path) as second:
        assert (first, second) == (True, False)
    boards = [visit(kit.path), visit(kit.path)]
    tokens = [board.token() for board in boards]
    with ThreadPoolExecutor(2) as both:
        answers = both.map(
            lambda board, token: board.send("/requests/j1", token=token, **APPROVE), boards, tokens
        )
        codes = sorted(answer.status for answer in answers)
    # The second is told that Ada has decided, or says the very same at the same time.
    assert codes in ([303, 303], [303, 409])
    assert boards[1].send("/requests/j1", **APPROVE).status == 409
    assert decisions(tmp_path) == ["Ada"]
    assert all("Ada approved" in board.get("/ledger").text for board in boards)


def test_a_second_process_on_a_kit_says_so_and_ends_politely_under_a_page(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    code = "import sys; from colonnade.cli.app import run; sys.exit(run(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "board", str(kit.path), "--port", "0", "--person", "Ada", "--json"]
    with (
        alone(kit.path),
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            announced = json.loads(there(process.stdout).readline())
            assert announced["alone"] is False
            cookie = cookie_of(announced["address"], announced["links"][0]["link"].partition("=")[2])
            following = http.client.HTTPConnection(announced["address"].removeprefix("http://"), timeout=20)
            with closing(following):
                following.request("GET", "/events", headers={"Cookie": cookie})
                assert following.getresponse().read(6) == b"data: "
                process.send_signal(signal.SIGTERM)
                assert (*process.communicate(timeout=30), process.returncode) == ("", "", 0)
        finally:
            process.kill()


def test_browsers_that_go_away_free_their_places(tmp_path: Path) -> None:
    """Connections that are cut in the middle of what they are told, more than may be open at a time."""
    with live(tmp_path, ADA) as (address, access):
        host, port = address.removeprefix("http://").split(":")
        cookie = cookie_of(address, access.tokens[ADA])
        requested = f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n\r\n".encode()
        for _ in range(MOST_STREAMS + 8):
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                connection.sendall(requested)
                announced = b""
                while b"data: " not in announced and b" 503 " not in announced:
                    announced += connection.recv(4096)
            assert announced.startswith(b"HTTP/1.1 200")
