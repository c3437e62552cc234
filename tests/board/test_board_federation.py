"""A board among real processes: a request is approved on the page, runs, is judged and stands in the ledger."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from boards import ADA, BEN, live
from browser import Browser, browser
from live_federation import federation_of
from two_houses import PARTIES, charges, job_text, policy_text, write_party

from colonnade.ledger import Ledger

PEOPLE = 2000
PATIENCE_SECONDS = 240.0


def until(found: Callable[[], Any], text: Callable[[], str]) -> None:
    """Wait until something is there, as long as a busy machine may take; else say what was there instead."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not found():
        assert time.monotonic() < deadline, text()
        time.sleep(0.1)


def write_people(folder: Path) -> None:
    """Enough people to be judged on: whoever spends much at the shop is a risk of the bank's."""
    drawn = np.random.default_rng(3)
    values = {party: drawn.uniform(0, 1, (PEOPLE, 2)).round(3) for party in PARTIES}
    risk = values["bank"][:, 0] + values["shop"][:, 0] > 1
    for party in PARTIES:
        lines = [f"id,{party}_0,{party}_1{',risk' if party == 'bank' else ''}"]
        for row, (first, second) in enumerate(values[party]):
            label = f",{'high' if risk[row] else 'low'}" if party == "bank" else ""
            lines.append(f"p{row},{first},{second}{label}")
        (folder / f"{party}.csv").write_text("\n".join(lines))


def approve(other: Browser, link: str, request: str) -> str:
    """Somebody else at a browser of their own, who reads a request and clicks; what they read."""

    def text() -> str:
        return str(other.run("document.body ? document.body.innerText : ''"))

    other.show(link, width=1280)
    other.show(request, width=1280)
    until(lambda: "left after" in text(), text)
    requested = text()
    other.click(f'form[action="{urlsplit(request).path}"] button')
    until(lambda: "Ben approved" in text(), text)
    return requested


@pytest.mark.slow
def test_a_request_is_approved_on_the_page_runs_is_judged_and_stands_in_the_ledger(
    tmp_path: Path, shown: Browser
) -> None:
    sites = {party: write_party(tmp_path, party) for party in PARTIES}
    write_people(tmp_path)
    (tmp_path / "bank.policy.toml").write_text(f'approval = "ask"\n{policy_text("bank")}')

    def text() -> str:
        return str(shown.run("document.body ? document.body.innerText : ''"))

    def announced(name: str) -> str:
        return str(shown.run(f"document.querySelector('[data-live={name}]')?.textContent ?? ''"))

    with federation_of(tmp_path, {**sites, "server": {}}) as running:
        bank = running.kits["bank"]
        with live(bank.path, ADA, BEN) as (address, access):
            shown.show(f"{address}/enter?token={access.tokens[ADA]}", width=1280)
            job = running.submit(job_text(epsilon=4.0, timeout=600) + "held_out = 0.5\n")
            until(lambda: announced("waiting") == "1", text)
            shown.show(f"{address}/runs/{job}", width=1280)
            assert announced("waits") == "bank" and announced("spent") == "nothing yet"
            shown.run("window.seen = []")
            shown.run(
                "new MutationObserver(() => window.seen.push(document.querySelector('[data-live=step]').textContent))"
                ".observe(document.querySelector('[data-live=step]'), {childList: true})"
            )
            with browser() as other:
                requested = approve(
                    other, f"{address}/enter?token={access.tokens[BEN]}", f"{address}/requests/{job}"
                )
            assert "left after" in requested and "held_out = 0.5" in requested
            until(lambda: shown.run("(window.seen ?? ['ended']).length") > 0, text)
            until(lambda: "Read the report" in text(), text)
            ended = text()
            shown.show(f"{address}/runs/{job}/report", width=1280)
            report = text()
            shown.show(f"{address}/ledger", width=1280)
            ledger = text()
        assert running.wait(job) == "FINISHED:COMPLETED"
    assert "How good it is on people held out" in ended and "bank's own page" in ended
    assert "What each observer can learn at most" in report
    assert f"Ben approved job {job}" in ledger and "held-out part" in ledger and "No receipt" not in ledger
    (decision,) = Ledger.open(tmp_path / "bank.ledger").decisions(job)
    assert decision.by == "Ben" and decision.approved
    assert charges(tmp_path, "bank") > 0
