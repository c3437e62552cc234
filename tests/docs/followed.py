"""Which pages only slow tests follow, what each shows, and what that was when its test last passed.

A slow test that has followed its page calls `note`, which writes `followed.json`; `test_followed.py`, which is quick,
says which to run when the page or something that it shows has changed since.
"""

import hashlib
import json
from pathlib import Path

from fences import ROOT

FOLLOWED = Path(__file__).with_name("followed.json")
_VERBS = (
    "src/colonnade/cli/federation.py",
    "src/colonnade/cli/policy.toml",
    "src/colonnade/cli/party.py",
    "src/colonnade/cli/job.py",
    "src/colonnade/cli/doctor.py",
    "src/colonnade/cli/ledger.py",
    "src/colonnade/sites/policy.py",
    "src/colonnade/sites/provision.py",
)
#: By the slow test that follows it: a page, and the files and folders whose words or numbers it shows.
SHOWN = {
    "test_two_organisations_page.py": (
        "docs/two-organisations.md",
        *_VERBS,
        "src/colonnade/cli/runs.py",
        "src/colonnade/runs",
        "src/colonnade/methods/moments",
        "src/colonnade/privacy/observers.py",
        "src/colonnade/protocols/shared_plan.py",
        "src/colonnade/report/text.py",
        "examples/messy/make_tables.py",
    ),
    "test_operate_pages.py": ("docs/operate/runbook.md", "docs/two-organisations.md", *_VERBS),
}


def digest(test: str) -> str:
    announced = hashlib.sha256()
    for name in (f"tests/docs/{test}", *SHOWN[test]):
        place = ROOT / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            announced.update(f"{path.relative_to(ROOT)}\0{path.read_text(encoding='utf-8')}\0".encode())
    return announced.hexdigest()


def known() -> dict[str, str]:
    return dict(json.loads(FOLLOWED.read_text(encoding="utf-8"))) if FOLLOWED.exists() else {}


def note(test: str) -> None:
    """Note that a slow test has followed its page as it is now."""
    recorded = {**known(), test: digest(test)}
    FOLLOWED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
