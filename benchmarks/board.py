"""How the board's first page takes to many runs, and what a browser finds on every page.

    python benchmarks/board.py --json

Two folders of runs, one with ten and one with ten thousand, each with two parties' files and ledgers that were charged.
Prints one JSON object on its last line:

* ``overview_ms_10_runs``, ``overview_ms_10000_runs``: the first page through the whole application, the least of many
  looks after the first, in milliseconds of wall time;
* ``overview_ms_10000_runs_over_10_runs``: the ratio of the two;
* ``overview_first_ms_10000_runs``: the first look, which lists every run once;
* ``pages``: how many pages were opened in the machine's Chromium, each at three widths;
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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/oracles"), str(ROOT / "tests/report")]

from boards import ADA, live, visit, write_runs
from browser import BrowserError, browser, executable
from cli_project import write_project
from report_runs import private_run

from colonnade.ledger import Ledger
from colonnade.ledger.release import LedgerLine, Release
from colonnade.privacy.events import Gaussian

MANY, FEW, LOOKS = 10_000, 10, 60
WIDTHS = (390, 800, 1280)
PAGES = (
    "/",
    "/runs",
    "/runs?page=2",
    "/runs/run-00001",
    "/ledger",
    "/ledger/insurer",
    "/data",
    "/log",
    "/nowhere",
)
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


def looks(place: Path) -> tuple[float, float]:
    """The first look at the first page and the least of the others, in milliseconds."""
    ada = visit(place)
    taken = []
    for number in range(LOOKS):
        begun = time.perf_counter()
        page = ada.get("/")
        taken.append(1000 * (time.perf_counter() - begun))
        assert page.status == 200
        if not number:
            # A folder that has just changed is listed again until its time tells it from the look.
            time.sleep(2.5)
    return taken[0], min(taken[2:])


def looked_at(place: Path) -> dict[str, int | None]:
    """Every page in a browser, at every width."""
    try:
        executable()
    except BrowserError:
        return dict.fromkeys(("pages", "axe_serious", "external_requests", "overflowing_elements"))
    serious = overflowing = elsewhere = 0
    with browser() as shown, live(place, ADA) as (address, access):
        shown.show(f"{address}/enter?token={access.tokens[ADA]}", width=WIDTHS[0])
        report = place / "report.html"
        report.write_text(visit(place).get(REPORT).text, encoding="utf-8")
        for path in (*PAGES, REPORT):
            for width in WIDTHS:
                shown.requested.clear()
                shown.show(address + path, width=width)
                shown.unfold()
                overflowing += len(shown.overflowing())
                elsewhere += sum(not url.startswith(address) for url in shown.requested)
                if path == REPORT:
                    # The board lets no script run in it, axe-core's included; the same page as a file does.
                    shown.show(report, width=width)
                    shown.unfold()
                serious += len(shown.serious())
    return {
        "pages": len(PAGES) + 1,
        "axe_serious": serious,
        "external_requests": elsewhere,
        "overflowing_elements": overflowing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        few, many = folder_with(Path(name) / "few", FEW), folder_with(Path(name) / "many", MANY)
        _, ten = looks(few)
        first, thousands = looks(many)
        found = {
            "overview_ms_10_runs": round(ten, 2),
            "overview_ms_10000_runs": round(thousands, 2),
            "overview_ms_10000_runs_over_10_runs": round(thousands / ten, 2),
            "overview_first_ms_10000_runs": round(first, 1),
            **looked_at(few),
        }
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
