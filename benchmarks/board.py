"""How the board's first page takes to many runs, and what a browser finds on every page.

    python benchmarks/board.py --json

Two folders of runs, one with ten and one with ten thousand, each with two parties' files and ledgers that were charged.
Prints one JSON object on its last line:

* ``overview_ms_10_runs``, ``overview_ms_10000_runs``: the first page through the whole application, the least of many
  looks after the first, in milliseconds of wall time;
* ``overview_ms_10000_runs_over_10_runs``: the ratio of the two;
* ``overview_first_ms_10000_runs``: the first look, which lists every run once;
* ``pages``: how many pages were opened in the machine's Chromium, each at three widths: every kind that a folder and a
  kit have, with a comparison, a request, runs that go on, failed or ended, and refusals;
* ``axe_serious``: what axe-core finds serious or critical on them;
* ``external_requests``: requests that went to any address but the board's own;
* ``overflowing_elements``: elements that are cut or reach past the page.

Without a browser the last four are null.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/oracles"), str(ROOT / "tests/report")]

from boards import ADA, Visit, ask, bank, growing, live, visit, write_runs
from browser import Browser, BrowserError, browser, executable
from cli_project import write_project
from report_runs import private_run
from two_houses import job_text

from colonnade.ledger import Ledger
from colonnade.ledger.release import LedgerLine, Release
from colonnade.privacy.events import Gaussian
from colonnade.sites.approval import decline

MANY, FEW, LOOKS = 10_000, 10, 60
PATIENCE_SECONDS = 300.0
WIDTHS = (390, 800, 1280)
OF_A_FOLDER = (
    *("/", "/runs", "/runs?name=nothing", "/runs/run-00001", "/ledger", "/ledger/insurer", "/data", "/log"),
    *("/compare", "/compare?run=run-00001&run=run-00002"),
    *("/nowhere", "/enter?token=wrong"),
)
OF_A_KIT = (
    *("/", "/requests", "/requests/j1", "/requests/j2", "/runs", "/runs/going", "/runs/failed", "/ledger"),
    *("/data", "/compare", "/log"),
)
OWNER = "bank"
REPORT = "/runs/run-00001/report"


def folder_with(place: Path, runs: int) -> Path:
    """Two parties' files, two ledgers that were charged, and so many runs that ended."""
    place.mkdir()
    write_project(place)
    event = Gaussian(sensitivity=1.0, sigma=4.0)
    for party in ("bank", "insurer"):
        ledger = Ledger.create(place / f"{party}.ledger", party)
        ledger.set_budget("customers", "*", "*", epsilon=4.0, delta=1e-5)
        lines = (LedgerLine("server", "record", event), LedgerLine("reader", "record", event))
        ledger.charge(Release("r", "8c11", "plan", "second moments", "server", lines, False), "customers")
    facts = {**private_run()[0], "time": "2026-05-06T07:08:09+00:00"}
    write_runs(place / "runs", facts, [f"run-{number:05}" for number in range(runs)])
    return place


def looks(places: Sequence[Path]) -> list[tuple[float, float]]:
    """Of each place the first look at its first page and the least of the others, in milliseconds.

    They are looked at in turns, so that whatever else the machine does slows down all of them.
    """
    people = [visit(place) for place in places]
    first = [look(somebody) for somebody in people]
    # A folder that has just changed is listed again until its time tells it from the look.
    time.sleep(2.5)
    again = [[look(somebody) for somebody in people] for _ in range(LOOKS)]
    return [(begun, min(used)) for begun, used in zip(first, zip(*again[1:], strict=True), strict=True)]


def look(somebody: Visit) -> float:
    """How long the first page takes, in milliseconds."""
    begun = time.perf_counter()
    page = somebody.get("/")
    used = 1000 * (time.perf_counter() - begun)
    if page.status != 200:
        raise RuntimeError(f"the first page answered {page.status}")
    return used


def kit_with(place: Path) -> Path:
    """A bank's kit: a job that waits with its text, one that was declined, a run that goes on and one that failed."""
    place.mkdir()
    kit = bank(place)
    ask(kit, "j1", text=job_text('method = "local"'))
    ask(kit, "j2")
    decline(kit, "j2", by="Ada", because="not before the audit")
    growing(kit, "going")
    failed = {"member": "bank", "job": "risk", "id": "failed", "state": "failed", "step": "columns"}
    growing(kit, "failed")
    outcome = {**failed, "kind": "PeerTimeout", "reason": "shop did not answer"}
    (kit.run_folder("failed") / "outcome.json").write_text(json.dumps(outcome))
    return kit.path


@dataclass
class Findings:
    """What was found on all pages so far."""

    pages: int = 0
    axe_serious: int = 0
    external_requests: int = 0
    overflowing_elements: int = 0

    def take(self, shown: Browser, address: str) -> None:
        """What a browser finds on the page that it shows."""
        shown.unfold()
        self.overflowing_elements += len(shown.overflowing())
        self.external_requests += sum(not url.startswith(address) for url in shown.requested)
        shown.requested.clear()
        self.axe_serious += len(shown.serious())


def looked_at(folder: Path, kit: Path) -> dict[str, int | None]:
    """Every page of both in a browser, at every width."""
    try:
        executable()
    except BrowserError:
        return dict.fromkeys(Findings.__dataclass_fields__)
    found = Findings()
    with browser() as shown:
        for place, paths in ((folder, OF_A_FOLDER), (kit, OF_A_KIT)):
            with live(place, ADA) as (address, access):
                shown.show(f"{address}/enter?token={access.tokens[ADA]}", width=WIDTHS[0])
                shown.requested.clear()
                for path in paths:
                    found.pages += 1
                    for width in WIDTHS:
                        shown.show(address + path, width=width)
                        found.take(shown, address)
                look_at_rows(shown, address, found)
                if place == folder:
                    look_at_report(shown, address, folder, found)
    return asdict(found)


def look_at_rows(shown: Browser, address: str, found: Findings) -> None:
    """The page that reading every row leads to."""
    found.pages += 1
    for width in WIDTHS:
        shown.show(f"{address}/data", width=width)
        shown.click(f'form[action="/data/{OWNER}"] button')
        wait_for(shown, "For bank only")
        found.take(shown, address)


def look_at_report(shown: Browser, address: str, folder: Path, found: Findings) -> None:
    """A report in the board, which lets no script run in it, axe-core's included; so that looks at it as a file."""
    found.pages += 1
    report = folder / "report.html"
    report.write_text(visit(folder).get(REPORT).text, encoding="utf-8")
    for width in WIDTHS:
        shown.show(address + REPORT, width=width)
        shown.unfold()
        found.overflowing_elements += len(shown.overflowing())
        found.external_requests += sum(not url.startswith(address) for url in shown.requested)
        shown.show(report, width=width)
        shown.requested.clear()
        found.take(shown, address)


def wait_for(shown: Browser, text: str) -> None:
    """Return when a page says this."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in shown.run("document.body ? document.body.innerText : ''"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no page said {text!r}")
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        few, many = folder_with(Path(name) / "few", FEW), folder_with(Path(name) / "many", MANY)
        (_, ten), (first, thousands) = looks((few, many))
        found = {
            "overview_ms_10_runs": round(ten, 2),
            "overview_ms_10000_runs": round(thousands, 2),
            "overview_ms_10000_runs_over_10_runs": round(thousands / ten, 2),
            "overview_first_ms_10000_runs": round(first, 1),
            **looked_at(few, kit_with(Path(name) / "kit")),
        }
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
