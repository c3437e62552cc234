"""What people wait for: processor time of verbs on a job of the tutorial's size.

    python benchmarks/comfort.py --json

The tutorial's two tables, schemas and job are made in a folder of their own. Prints one JSON object on its last line:

* ``plan_cpu_s``: ``colonnade plan claims/job.toml --rows 3500``, as the tutorial has it;
* ``plan_all_cpu_s``: the same with ``--methods all``, which rehearses every method;
* ``plan_recommends``: what it recommends, one entry for each start; they must not differ;
* ``ledger_cpu_s``: ``colonnade ledger claims/bank.toml --witness claims/clinic.toml`` after one run.

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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STARTS = 3
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
    told = [colonnade(folder, *words) for _ in range(starts)]
    return round(min(seconds for _, seconds in told), 2), [text for text, _ in told]


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
    recommended = [re.findall(r"^Recommended\n  ([\w-]+)\.", text, re.MULTILINE)[0] for text in said]
    found = {
        "plan_cpu_s": plan,
        "plan_all_cpu_s": every,
        "plan_recommends": recommended,
        "ledger_cpu_s": ledger,
    }
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
