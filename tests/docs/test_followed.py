"""Which pages only slow tests follow, what each shows, and that it was followed as it is.

A slow test that has followed its page calls `note`, which writes `followed.json`; the quick test here says which to run
when the page or something that it shows has changed since.
"""

import hashlib
import json
from pathlib import Path

import pytest
from fences import ROOT

FOLLOWED = Path(__file__).with_name("followed.json")
_VERBS = (
    *(f"src/colonnade/{room}" for room in ("cli", "ledger", "report", "runs", "sites")),
    *(f"src/colonnade/protocols/{name}.py" for name in ("alignment", "intersection")),
)
#: By the slow test that follows it: a page, and the files and folders whose words or numbers it shows.
SHOWN = {
    "test_two_organisations_page.py": (
        "docs/two-organisations.md",
        *_VERBS,
        "src/colonnade/methods/moments",
        "src/colonnade/privacy/observers.py",
        "src/colonnade/protocols/shared_plan.py",
        "examples/messy/make_tables.py",
    ),
    "test_operate_pages.py": ("docs/operate/runbook.md", "docs/two-organisations.md", *_VERBS),
}


def digest(names: tuple[str, ...], root: Path = ROOT) -> str:
    announced = hashlib.sha256()
    for name in names:
        place = root / name
        for path in sorted([*place.rglob("*.py"), *place.rglob("*.toml")]) if place.is_dir() else [place]:
            announced.update(f"{path.relative_to(root)}\0{path.read_text(encoding='utf-8')}\0".encode())
    return announced.hexdigest()


def known() -> dict[str, str]:
    return dict(json.loads(FOLLOWED.read_text(encoding="utf-8"))) if FOLLOWED.exists() else {}


def note(test: str) -> None:
    recorded = {**known(), test: digest(SHOWN[test])}
    FOLLOWED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@pytest.mark.parametrize("test", SHOWN)
def test_a_page_was_followed_since_it_or_what_it_shows_changed(test: str) -> None:
    assert known().get(test) == digest(SHOWN[test]), (
        f"{SHOWN[test][0]}, or what it shows, changed since it was last followed. Run\n"
        f"    pytest -m slow tests/docs/{test}\n"
        "which follows it and notes that in tests/docs/followed.json."
    )


def test_a_change_to_what_a_page_shows_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "verbs").mkdir()
    (tmp_path / "page.md").write_text("Send it.")
    (tmp_path / "verbs" / "one.py").write_text("SEND")
    before = digest(("page.md", "verbs"), tmp_path)
    assert digest(("page.md", "verbs"), tmp_path) == before
    (tmp_path / "verbs" / "one.py").write_text("BRING")
    assert digest(("page.md", "verbs"), tmp_path) != before
