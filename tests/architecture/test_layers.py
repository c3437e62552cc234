"""Imports go downward only; rooms on one level do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import colonnade

ROOT = Path(colonnade.__file__).parent
LEVELS = (
    ("errors", "randomness"),
    ("numbers",),
    ("privacy", "crypto"),
    ("noise",),
    ("data", "runtime", "ledger"),
    ("protocols",),
    ("learn", "attacks"),
    ("report", "audits", "conformance"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MODULES = sorted(ROOT.rglob("*.py"))
# Where a process of a job begins, as the command line is where others do. Kits name it, so it stays where it is.
ENTRIES = {"learn/remote.py": "cli"}


def room_of(path: Path) -> str:
    within = path.relative_to(ROOT)
    return ENTRIES.get(within.as_posix(), within.parts[0].removesuffix(".py"))


def imported_rooms(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
            if node.module == "colonnade":
                names |= {f"colonnade.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("colonnade.")}


def breaches(room: str, imported: set[str]) -> list[str]:
    return [
        other
        for other in imported
        if other in LEVEL and other != room and room != "__init__" and LEVEL[other] >= LEVEL[room]
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downward_only(path: Path) -> None:
    room = room_of(path)
    assert room == "__init__" or room in LEVEL, f"{room} is no room of the architecture"
    assert not breaches(room, imported_rooms(ast.parse(path.read_text()))), path


def test_the_layer_test_would_notice_an_upward_import() -> None:
    tree = ast.parse("from colonnade.learn.linear import LinearRegression\nimport colonnade.noise.skellam")
    assert breaches("privacy", imported_rooms(tree)) != []
    assert breaches("data", {"ledger"}) == ["ledger"], "rooms of one level do not know each other"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_grows_past_four_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_nobody_imports_an_entry() -> None:
    for path in MODULES:
        assert "colonnade.learn.remote import" not in path.read_text(), path
