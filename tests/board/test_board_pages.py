"""What stands on the pages of a board, and what happens when somebody changes it while they look."""

import asyncio
import csv
import io
import json
import os
import time
from pathlib import Path

import pytest
from boards import ADA, BEN, EVE, Client, application, ask, bank, recorded, visit, write_runs
from cli_project import Project, write_project
from report_runs import hostile_run, private_run

from colonnade.board.access import Access
from colonnade.board.pages import EXPORT_KEY
from colonnade.board.run_page import events
from colonnade.board.workspace import Workspace
from colonnade.cli.app import run
from colonnade.crypto.sealing import SigningKey
from colonnade.errors import LedgerLocked, PeerTimeout
from colonnade.federation.files import LOG, PROGRESS
from colonnade.ledger import Ledger
from colonnade.ledger.export import export, load_export, read_export, signing_key
from colonnade.ledger.release import LedgerLine, Receipt, Release
from colonnade.privacy.events import Gaussian
from colonnade.randomness import SystemRandomness
from colonnade.runs.run_index import Progress
from colonnade.runtime.channel import StepFacts, step_line
from colonnade.sites.approval import list_requests


def charge(ledger: Ledger, dataset: str) -> None:
    event = Gaussian(sensitivity=1.0, sigma=4.0)
    lines = (LedgerLine("server", "record", event), LedgerLine("reader", "record", event))
    ledger.charge(Release("r", "8c11", "plan", "a count", "server", lines, False), dataset)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two parties' files, a ledger, and a run that ended."""
    write_project(tmp_path, rows=40)
    for party in ("bank", "insurer"):
        ledger = Ledger.create(tmp_path / f"{party}.ledger", party)
        ledger.set_budget("customers", "*", "*", epsilon=4.0, delta=1e-5)
        charge(ledger, "customers")
    write_runs(tmp_path / "runs", {**private_run()[0], "time": "2026-05-06T07:08:09+00:00"}, ["first"])
    return tmp_path


def test_the_overview_begins_with_a_verdict_and_says_what_is_left(folder: Path) -> None:
    page = visit(folder).get("/").text
    assert page.index("Within every budget") < page.index("What is left of each budget") < page.index("first")
    assert "of 4 " in page and "the chain of their hashes is in order" in page
    assert "/requests" not in page, "nobody asks without a kit"


def test_a_run_has_its_verdict_its_report_and_its_files(folder: Path) -> None:
    ada = visit(folder)
    page = ada.get("/runs/first").text
    assert "What each observer can learn at most" in page and "/runs/first/report" in page
    report = ada.get("/runs/first/report")
    assert report.status == 200 and "sandbox" in report.headers["content-security-policy"]
    assert "script-src" not in report.headers["content-security-policy"]
    facts = ada.get("/runs/first/file/facts.json")
    assert json.loads(facts.text)["run"] == private_run()[0]["run"]
    assert facts.headers["content-disposition"].startswith("attachment")
    for path in ("/runs/first/file/report.html", "/runs/first/own/bank", "/runs/first/card"):
        assert ada.get(path).status in (404, 409), path


def test_looking_charges_nothing_and_writes_nothing_but_the_log(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ada = visit(folder)
    for path in ("/", "/runs", "/runs/first", "/ledger/insurer", "/data", "/log", "/ledger/bank/table"):
        assert ada.get(path).status == 200, path
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path.name for path in after.keys() - before.keys()} == {"board.jsonl"}
    assert all(after[path] == content for path, content in before.items())


def test_the_ledger_has_entries_what_fits_a_picture_and_an_export(folder: Path) -> None:
    ada = visit(folder)
    page = ada.get("/ledger/bank").text
    assert "What would still fit" in page and "<svg" in page and "ε = 4 at δ = 1e-05" in page
    assert ada.get("/ledger/bank/table").text.startswith("entry,time,kind")
    assert json.loads(ada.get("/ledger/bank/export").text)["entries"]
    assert ada.get("/ledger/nobody").status == 404


def test_an_export_is_signed_by_a_button_as_the_command_line_signs_it(folder: Path) -> None:
    ada, eve = visit(folder), visit(folder, EVE)
    assert eve.send("/ledger/bank/export").status == 403 and "Signed export" not in eve.get("/ledger").text
    made = ada.send("/ledger/bank/export")
    (folder / "bank.json").write_text(made.text)
    key = signing_key(folder / EXPORT_KEY)
    assert (folder / EXPORT_KEY).stat().st_mode & 0o077 == 0 and key.secret.hex() not in made.text
    found = load_export(folder / "bank.json", signer=key.public)
    assert found.head == Ledger.open(folder / "bank.ledger").receipt().head
    assert any(act == "exported a ledger" for _, act, _ in recorded(folder))
    own = SigningKey.generate(SystemRandomness())
    text = ada.send("/ledger/bank/export", key=f"colonnade signing key 1 {own.secret.hex()}").text
    assert read_export(text, where="bank.json", signer=own.public).party == "bank"
    for wrong in ("nonsense", f"colonnade signing key 2 {own.secret.hex()}"):
        assert ada.send("/ledger/bank/export", key=wrong).status == 409


def test_receipts_are_compared_with_peers_ledgers_and_with_exports_of_them(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    own, shop = Ledger.open(tmp_path / "bank.ledger"), Ledger.create(tmp_path / "shop.ledger", "shop")
    shop.keep_receipt(own.receipt())
    own.keep_receipt(shop.receipt())
    ada = visit(kit.path)
    assert "No peer's ledger lies here" in ada.get("/ledger").text
    (kit.path / "peers").mkdir()
    peer = kit.path / "peers" / "shop.json"
    peer.write_text(export(shop))
    page = ada.get("/ledger").text
    assert "it holds 1 receipts of this ledger" in page and "of shop's own 1 are kept here" in page
    assert run(["ledger", str(tmp_path / "bank.ledger"), "--witness", str(peer)]) == 0
    shop.keep_receipt(Receipt("bank", entry=9, head="0" * 64))
    peer.write_text(export(shop))
    assert "The ledger of bank cannot be relied on" in ada.get("/").text
    peer.write_text("{}")
    assert "is not an export of a ledger" in ada.get("/ledger").text


def test_data_shows_the_schema_beside_what_the_file_has(folder: Path) -> None:
    schema = folder / "bank.schema.toml"
    schema.write_text(schema.read_text().replace("high = 90", "high = 50"))
    ada = visit(folder)
    page = ada.get("/data").text
    assert "numeric, low 18.0, high 50.0" in page and "the id" in page and "the label: classes" in page
    rows = ada.send(f"/data/{schema.stem.removesuffix('.schema')}")
    assert rows.status == 200 and '<th scope="row">age</th>' in rows.text
    assert ("Ada", "checked rows", "done") in recorded(folder)
    (folder / "bank.csv").write_text("customer,job,risk\nC1,clerk,low\n")
    broken = ada.get("/data").text
    assert "column &#39;age&#39; is declared but not in the file" in broken and "not there" in broken


def test_a_decision_on_the_page_is_the_one_of_the_command_line(tmp_path: Path) -> None:
    kit = bank(tmp_path, asks='approval = "two"')
    ask(kit, people=2)
    access = Access([ADA, BEN])
    ada, ben = visit(kit.path, access=access), visit(kit.path, BEN, access=access)
    assert "2 more must approve it" in ada.get("/requests/j1").text
    assert ada.send("/requests/j1", decision="approve", digest="5" * 64).status == 303
    assert "1 more must approve it" in ben.get("/requests/j1").text
    again = ada.send("/requests/j1", decision="approve", digest="5" * 64)
    assert again.status == 409 and "has decided about job j1 already" in again.text
    other = ben.send("/requests/j1", decision="approve", digest="6" * 64)
    assert other.status == 409 and "something else than when the page was made" in other.text
    assert ben.send("/requests/j1", decision="decline", digest="5" * 64, because=" ").status == 409
    assert ben.send("/requests/j1", decision="approve", digest="5" * 64).status == 303
    (request,) = list_requests(kit)
    assert request.approvals == ("Ada", "Ben")
    assert [by for by, act, found in recorded(kit.path) if (act, found) == ("approve", "done")] == [
        "Ada",
        "Ben",
    ]
    assert "Ada approved job j1" in ada.get("/ledger").text


def test_where_approvers_have_keys_their_own_key_signs_and_is_not_kept(tmp_path: Path) -> None:
    key = SigningKey.generate(SystemRandomness())
    kit = bank(tmp_path, asks=f'approval = "ask"\napprovers = {{Ada = "{key.public.hex()}"}}')
    ask(kit)
    ada = visit(kit.path)
    for wrong, found in (("", "another key"), ("nonsense", "not a signing key")):
        refused = ada.send("/requests/j1", decision="approve", digest="5" * 64, key=wrong)
        assert refused.status == 409 and found in refused.text
    text = f"colonnade signing key 1 {key.secret.hex()}"
    assert ada.send("/requests/j1", decision="approve", digest="5" * 64, key=text).status == 303
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert key.secret.hex().encode() not in kept


def test_thousands_of_runs_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"name": "risk", "task": "pca", "rows": 3, "learnt": {"a": 1}, "plan": {"epsilon": 1.0}}
    write_runs(tmp_path / "runs", facts, [f"run-{number:05}" for number in range(2000)])
    os.utime(tmp_path / "runs", (1.0, 1.0))
    ada = visit(tmp_path)
    assert "2 000" in ada.get("/").text
    page = ada.get("/runs?page=40").text
    assert "page 40 of 40" in page and page.count("/runs/run-") == 50
    assert ada.get("/runs?name=run-00042").text.count('href="/runs/run-') == 1

    def never(*_: object) -> None:
        raise AssertionError("what has not changed is not listed again")

    monkeypatch.setattr("colonnade.runs.run_index.scandir", never)
    assert "2 000" in ada.get("/").text


def test_a_run_that_ends_or_begins_is_seen(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    ada = visit(kit.path)
    job = kit.run_folder("j5")
    job.mkdir(parents=True)
    (job / LOG).write_text(
        step_line("bank", "j5", StepFacts("columns 0", sent=1500, received=9, seconds=0.5)) + "\n"
    )
    page = ada.get("/runs/j5").text
    assert "running" in page and "columns 0" in page and "1.5 kB" in page and "/runs/j5/events" in page
    now = time.time()
    standing = {"waits": [], "run": "8c11", "step": "steps", "done": 25, "total": 100, "time": now}
    (job / PROGRESS).write_text(json.dumps({**standing, "began": now - 100}))
    assert "nothing yet" in ada.get("/runs/j5").text
    charge(Ledger.open(tmp_path / "bank.ledger"), "d")
    page = ada.get("/runs/j5").text
    assert "of steps, 25 of 100" in page and "about 5 min" in page
    assert "1 charge to bank" in page and "a count of &#39;d&#39; to server, run 8c11" in page
    (job / "paid.json").write_text("{}")
    assert "running" in ada.get("/runs/j5").text, "its release is opened, and it is being judged"
    os.utime(job / LOG, (1.0, 1.0))
    assert "unfinished" in ada.get("/runs/j5").text, "nothing was heard of it for long"
    os.utime(job / LOG)
    (job / PROGRESS).write_text('{"waits": ["shop"]}')
    assert "waits for approval" in ada.get("/runs").text and "shop" in ada.get("/runs/j5").text
    outcome = {"member": "bank", "job": "risk", "id": "j5", "state": "failed", "step": "columns 0"}
    outcome |= {"kind": "PeerTimeout", "reason": "it <b>"}
    (job / "outcome.json").write_text(json.dumps(outcome))
    page = ada.get("/runs/j5").text
    assert "it &lt;b&gt;" in page and "colonnade job submit" in page and "no record to go on from" in page
    assert f"{PeerTimeout.number}: " in page, "what the error means and what to do"
    (job / "journal").write_text("")
    assert "colonnade job resume j5" in ada.get("/runs/j5").text
    # What the ledger was charged for goes on; a job that somebody declined was never begun, and stays declined.
    (job / "outcome.json").write_text(json.dumps({**outcome, "run": "8c11"}))
    assert "colonnade job resume j5" in ada.get("/runs/j5").text
    for kind in ("NotApproved", "RemoteProtocolError"):
        (job / "outcome.json").write_text(json.dumps({**outcome, "run": "77aa", "kind": kind}))
        page = ada.get("/runs/j5").text
        assert "job resume" not in page and "gone on with" not in page and "colonnade job submit" in page
    assert "failed" in ada.get("/runs").text


def test_progress_is_told_as_it_grows_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.board.run_page.GLANCE_SECONDS", 0.001)
    log = tmp_path / LOG
    progress, looks = Progress(tmp_path), iter(range(4))

    def look() -> dict[str, str] | None:
        number = next(looks)
        with log.open("a") as file:
            file.write(
                step_line("bank", "j", StepFacts(f"step {number}", sent=1, received=1, seconds=1)) + "\n{cut"
            )
            file.write("\n" if number < 1 else "")
        if number == 1:
            raise LedgerLocked("another process holds it for a moment")
        return progress.read().words() if number < 3 else None

    async def read() -> list[str]:
        return [line async for line in events(look)]

    lines = asyncio.run(read())
    assert (
        lines[-1].startswith("event: ended")
        and json.loads(lines[0].removeprefix("data: "))["step"] == "step 0"
    )


def test_what_is_wrong_is_said_without_a_traceback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = visit(folder)

    def fail(_workspace: Workspace) -> None:
        raise RuntimeError("a value of somebody's")

    monkeypatch.setattr("colonnade.board.views.overview", fail)
    page = ada.get("/")
    assert page.status == 500 and "an internal error" in page.text and "somebody" not in page.text
    board, app = application(Workspace(folder), Access([]))
    assert Client(app).ask("GET", "/").status == 401 and board.workspace.name == folder.name


def test_a_run_that_was_stopped_is_recovered_on_its_page_and_its_model_leaves(killed: Project) -> None:
    ada, eve = visit(killed.folder), visit(killed.folder, EVE)
    assert "Recover the run" in ada.get("/runs/first").text
    assert "Recover the run" not in eve.get("/runs/first").text
    assert eve.send("/runs/first/recover").status == 403
    assert ada.send("/runs/first/recover").headers["location"] == "/runs/first"
    assert killed.charges("bank") == 1 and ("Ada", "recovered a run", "done") in recorded(killed.folder)
    page = ada.get("/runs/first").text
    assert "What each observer can learn at most" in page and "/runs/first/model.onnx" in page
    assert ada.get("/runs/first/report").status == 200
    assert "license:" in ada.get("/runs/first/card").text
    graph = ada.get("/runs/first/model.onnx")
    assert graph.status == 200 and "colonnade.privacy" in graph.text
    again = ada.send("/runs/first/recover")
    assert again.status == 409 and "there is nothing to recover" in again.text
    assert sorted(path.name for path in (killed.folder / "runs").iterdir()) == ["first"]


def test_runs_stand_side_by_side_with_a_table_to_keep(tmp_path: Path) -> None:
    for name, facts in (("first", private_run()[0]), ("second", hostile_run()[0])):
        write_runs(tmp_path / "runs", {**facts, "time": "2026-05-06T07:08:09+00:00"}, [name])
    ada = visit(tmp_path)
    page = ada.get("/compare?run=first&run=second").text
    assert page.count('class="coefficient"') >= 2 and "<script>alert" not in page
    table = list(csv.reader(io.StringIO(ada.get("/compare/table?run=first&run=second").text)))
    assert [row[0] for row in table] == ["run", "first", "second"] and table[1][3]
    assert ada.get("/compare?run=nowhere").status == 404
    many = "&".join(f"run=r{number}" for number in range(9))
    assert ada.get(f"/compare?{many}").status == 409
