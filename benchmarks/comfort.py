"""What people wait for and look at: processor time of verbs, what a demonstration installs, and pages in a browser.

    python benchmarks/comfort.py --json

The tutorial's two tables, schemas and job are made in a folder of their own. Prints one JSON object on its last line:

* ``plan_cpu_s``: ``colonnade plan claims/job.toml --rows 3500``, as the tutorial has it;
* ``plan_all_cpu_s``: the same with ``--methods all``, which rehearses every method;
* ``plan_recommends``: what it recommends, one entry for each start; they must not differ;
* ``ledger_cpu_s``: ``colonnade ledger claims/bank.toml --witness claims/clinic.toml`` after one run;
* ``demo_install_packages``: packages that ``make demo`` installs, this one included;
* ``demo_cpu_s``: ``colonnade demo``;
* ``report_pages_printed``: sheets of A4 that the demonstration's report takes, the most of its two runs;
* ``overflowing_elements``: elements of its pages that are cut, reach past the page or stand letter above letter, at
  all widths together, and ``overflowing_by_width``; everything that can be unfolded is.

Pages are looked at in the machine's Chromium; without one both figures are null.

Processor time is that of the process and its children, user and system, the least of several starts.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/oracles"))

from browser import BrowserError, browser, executable

STARTS = 3
WIDTHS = (390, 800, 1280)
PLAN = ("plan", "claims/job.toml", "--rows", "3500")


def written(folder: Path) -> None:
    """The tutorial's folder, up to its first run."""
    subprocess.run([sys.executable, str(ROOT / "examples/messy/make_tables.py"), "."], cwd=folder, check=True)
    parties = ("--party", "bank=bank.csv", "--party", "clinic=clinic.csv")
    colonnade(folder, "new", "claims", *parties, "--label", "bank:Claims")
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"```toml (claims/\S+)\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(text, encoding="utf-8")


def colonnade(folder: Path, *words: str) -> tuple[str, float]:
    """What a verb prints, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from colonnade.cli.app import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def least(folder: Path, *words: str, starts: int = STARTS) -> tuple[float, list[str]]:
    """The least processor time of some starts, and what each printed."""
    announced = [colonnade(folder, *words) for _ in range(starts)]
    return round(min(seconds for _, seconds in announced), 2), [text for text, _ in announced]


def installed() -> int:
    """How many packages the core needs, with all that they need: what ``make demo`` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting, found = list(project["dependencies"]), set()
    while waiting:
        wanted = waiting.pop()
        # Parts of other extras and of other systems are not installed.
        if "extra ==" in wanted or re.search(
            r"(sys_platform|platform_system) == .(win|Win|darwin|Darwin)", wanted
        ):
            continue
        name = re.split(r"[^\w.-]", wanted)[0].lower().replace("_", "-")
        if name in found:
            continue
        try:
            waiting += requires(name) or ()
        except PackageNotFoundError:
            continue
        found.add(name)
    return len(found) + 1


def looked_at(pages: list[Path]) -> tuple[int | None, dict[str, int] | None]:
    """The most sheets that a report takes, and what overflows by width; None where there is no browser."""
    try:
        executable()
    except BrowserError:
        return None, None
    sheets, overflowing = 0, dict.fromkeys(map(str, WIDTHS), 0)
    with browser() as shown:
        for page in pages:
            for width in WIDTHS:
                shown.show(page, width=width)
                shown.unfold()
                overflowing[str(width)] += len(shown.overflowing())
            if page.name == "report.html":
                shown.show(page, width=WIDTHS[1])
                sheets = max(sheets, len(re.findall(rb"/Type\s*/Page\b", shown.printed())))
    return sheets, overflowing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--starts", type=int, default=STARTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder)
        plan, said = least(folder, *PLAN, starts=arguments.starts)
        every, _ = least(folder, *PLAN, "--methods", "all", starts=1)
        colonnade(folder, "train", "claims/job.toml", "--output", "runs/first")
        ledger, _ = least(
            folder, "ledger", "claims/bank.toml", "--witness", "claims/clinic.toml", starts=arguments.starts
        )
        _, demo = colonnade(folder, "demo", "--output", "demo")
        sheets, overflowing = looked_at(sorted(folder.glob("demo/**/*.html")))
    recommended = [re.findall(r"^Recommended\n  ([\w-]+)\.", text, re.MULTILINE)[0] for text in said]
    found = {
        "plan_cpu_s": plan,
        "plan_all_cpu_s": every,
        "plan_recommends": recommended,
        "ledger_cpu_s": ledger,
        "demo_install_packages": installed(),
        "demo_cpu_s": round(demo, 2),
        "report_pages_printed": sheets,
        "overflowing_elements": None if overflowing is None else sum(overflowing.values()),
        "overflowing_by_width": overflowing,
    }
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
