"""A board in a real browser: pages at three widths, for people who cannot see or point, and a job that is decided."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from boards import ADA, EVE, HOSTILE_JOB, ask, growing, live, write_runs
from browser import Browser
from certificates import Root
from relayed_jobs import houses, run_job
from report_runs import hostile_run
from two_houses import MEMBERS, charges, job_text, policy_text

from colonnade.board.access import Access
from colonnade.federation.files import write_sealed
from colonnade.ledger import Ledger
from colonnade.sites import approval
from colonnade.sites.kit import Kit

WIDTHS = (390, 800, 1280)
PICTURES = Path(__file__).parents[2] / "docs" / "figures"


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, shown: Browser) -> dict[str, Any]:
    """A job of three members that waits at a bank, is approved on the bank's page by a click, runs and ends."""
    folder = tmp_path_factory.mktemp("houses")
    kits = houses(folder, Root.make(), seeded=False)
    (folder / "bank.policy.toml").write_text(f'approval = "ask"\n{policy_text("bank")}')
    glance, approval._GLANCE_SECONDS = approval._GLANCE_SECONDS, 0.02
    outcomes: dict[str, Any] = {}
    texts = dict.fromkeys(MEMBERS, job_text(timeout=60))
    job = threading.Thread(target=lambda: outcomes.update(run_job(kits, texts=texts)))
    seen: dict[str, Any] = {"kits": kits, "folder": folder, "outcomes": outcomes}
    try:
        with live(kits["bank"].path, ADA) as (address, access):
            shown.show(f"{address}/enter?token={access.tokens[ADA]}", width=1280)
            seen["entered"] = shown.run("location.href")
            job.start()
            until(lambda: approval.list_requests(kits["bank"]))
            until(lambda: shown.run("document.querySelector('[data-live=waiting]').textContent") == "1")
            seen["told"] = shown.run("!document.querySelector('[data-changed]').hidden")
            shown.show(f"{address}/requests/j1", width=1280)
            seen["requested"], seen["before"] = shown.run("document.body.innerText"), charges(folder, "bank")
            keep_picture(shown, "board-request")
            shown.click('form[action="/requests/j1"] button')
            until(lambda: "Ada approved" in shown.run("document.body ? document.body.innerText : ''"))
            job.join()
            pages = {"run": "/runs/j1", "report": "/runs/j1/report", "ledger": "/ledger", "log": "/log"}
            for name, path in pages.items():
                shown.show(address + path, width=1280)
                seen[name] = shown.run("document.body.innerText")
            shown.show(f"{address}/", width=1280)
            keep_picture(shown, "board-overview")
    finally:
        approval._GLANCE_SECONDS = glance
        if job.ident is not None:
            job.join()
    return seen


def until(found: Callable[[], Any]) -> None:
    """Wait until something is there; a test that waits in vain is ended from outside."""
    for _ in range(3000):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


def keep_picture(shown: Browser, name: str) -> None:
    """The pictures of the documents, where somebody asks for them to be made again."""
    if os.environ.get("COLONNADE_PICTURES"):
        (PICTURES / f"{name}.png").write_bytes(shown.picture())


def test_a_job_is_approved_on_the_page_runs_and_stands_in_the_ledger(decided: dict[str, Any]) -> None:
    assert decided["entered"].endswith("/") and "token" not in decided["entered"]
    assert decided["told"], "the page said by itself that something waits"
    assert decided["before"] == 0 and "left after" in decided["requested"]
    assert {outcome["state"] for outcome in decided["outcomes"].values()} == {"finished"}
    assert "Read the report" in decided["run"] and "What each observer can learn at most" in decided["report"]
    assert charges(decided["folder"], "bank") == 1
    (decision,) = Ledger.open(decided["folder"] / "bank.ledger").decisions("j1")
    assert decision.by == "Ada" and decision.approved
    assert "Ada approved job j1" in decided["ledger"] and "second moments" in decided["ledger"]
    assert "approve" in decided["log"]


@pytest.fixture(scope="module")
def full(decided: dict[str, Any], shown: Browser) -> Iterator[tuple[str, Access, Kit]]:
    """The same bank with more to show: names that somebody else chose, a job that waits, one that goes on."""
    kit: Kit = decided["kits"]["bank"]
    facts = {**hostile_run()[0], "time": "2026-05-06T07:08:09+00:00"}
    write_runs(
        kit.runs,
        facts,
        ["hostile", "a-folder-with-a-name-that-somebody-generated-and-nobody-typed-" + "x" * 60],
    )
    ask(kit, "j7", name=HOSTILE_JOB, what=f"moments of {HOSTILE_JOB}")
    ask(kit, "j9", name="text", text=HOSTILE_JOB)
    growing(kit, "j8", "columns 1")
    with live(kit.path, ADA, EVE) as (address, access):
        shown.show(f"{address}/enter?token={access.tokens[ADA]}", width=1280)
        yield address, access, kit


PAGES = (
    *("/", "/requests", "/requests/j1", "/requests/j7", "/requests/j9", "/runs", "/runs/j1", "/runs/hostile"),
    *("/runs/j8", "/ledger", "/data", "/log", "/nowhere", "/runs/hostile/report"),
    "/compare?run=hostile&run=j1",
)


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_every_width_are_accessible_and_ask_for_nothing_elsewhere(
    shown: Browser, full: tuple[str, Access, Kit], path: str
) -> None:
    address = full[0]
    shown.requested.clear()
    for width in WIDTHS:
        shown.show(address + path, width=width, dark=width == WIDTHS[1])
        shown.unfold()
        assert shown.overflowing() == [], width
        assert shown.overlapping() == [], width
        # A page that does not exist is told as an error by the browser too.
        assert [text for text in shown.logged if "404" not in text] == []
        # A light page and a dark one; what is accessible does not depend on the width.
        if path != "/runs/hostile/report" and width != WIDTHS[0]:
            assert shown.serious() == [], width
    assert [url for url in shown.requested if not url.startswith(address)] == []


def test_progress_is_live_and_the_page_shows_the_end(shown: Browser, full: tuple[str, Access, Kit]) -> None:
    address, _, kit = full
    growing(kit, "j8b", "columns 1")
    shown.show(f"{address}/runs/j8b", width=800)
    growing(kit, "j8b", "columns 2")
    until(lambda: shown.run("document.querySelector('[data-live=step]').textContent") == "columns 2")
    assert shown.run("document.querySelector('[data-live=sent]').textContent") == "2.0 kB"
    outcome = {"member": "bank", "job": "risk", "id": "j8b", "state": "failed", "step": "columns 2"}
    write_sealed(kit.run_folder("j8b") / "outcome.json", outcome | {"reason": "it stopped"})
    until(lambda: "it stopped" in shown.run("document.body ? document.body.innerText : ''"))


def test_all_but_live_figures_works_without_script(shown: Browser, full: tuple[str, Access, Kit]) -> None:
    address = full[0]
    shown.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        shown.call("Page.navigate", url=f"{address}/requests/j7")
        until(lambda: shown.run("document.readyState") == "complete")
        assert shown.run("document.forms.length") == 3
        shown.run("document.getElementById('because').value = 'after the audit'")
        shown.click("button.no")
        until(
            lambda: "declined: after the audit" in shown.run("document.body ? document.body.innerText : ''")
        )
    finally:
        shown.call("Emulation.setScriptExecutionDisabled", value=False)


def test_axe_would_find_a_picture_without_words(shown: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<!doctype html><html><title>a</title><body><img src='x.png'><input></body></html>")
    shown.show(page, width=800)
    assert {line.partition(":")[0] for line in shown.serious()} >= {"image-alt", "label", "html-has-lang"}
