"""Imports go downward only; rooms on one level do not know each other."""

import ast
from pathlib import Path

import colonnade

ROOT = Path(colonnade.__file__).parent
LEVELS = (
    ("errors", "randomness", "markup"),
    ("numbers",),
    ("privacy", "crypto"),
    ("noise",),
    ("data", "runtime", "ledger"),
    ("protocols",),
    ("learn",),
    ("report",),
    ("runs",),
    ("sites",),
    ("lab", "testing", "board"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MODULES = sorted(ROOT.rglob("*.py"))
# A method is one folder, and a file's name says on which level it is: what is agreed, sent and computed between
# parties with the protocols, the rest with the learners.
BETWEEN_PARTIES = {"plan", "losses", "rows", "protocol", "blocks", "curve"}
# Rooms of one level that know each other: a federation trains models, a model is fitted by a federation, a plan
# runs methods, and methods say what a pilot of theirs is. No module of them may be in a circle.
WITH_LEARN = {"models", "federation", "evaluation", "planning"}
METHOD_FOLDERS = sorted(path.parent for path in (ROOT / "methods").glob("*/__init__.py"))
SHARED_BY_METHODS = {"glm"}


def room_of(path: Path) -> str:
    within = path.relative_to(ROOT)
    if within.parts[0] == "methods" and len(within.parts) == 3:
        return "protocols" if path.stem in BETWEEN_PARTIES else "learn"
    return "learn" if within.parts[0] in {"methods", *WITH_LEARN} else within.parts[0].removesuffix(".py")


def module_file(name: str) -> Path | None:
    """The file of a module of ours, by its dotted name."""
    place = ROOT.parent.joinpath(*name.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()), None)


def imported_rooms(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if module_file(whole) else node.module or "")
    ours = {name: module_file(name) for name in names if name.startswith("colonnade.")}
    return {room_of(path) for path in ours.values() if path}


def breaches(room: str, imported: set[str]) -> list[str]:
    return [
        other
        for other in imported
        if other in LEVEL and other != room and room != "__init__" and LEVEL[other] >= LEVEL[room]
    ]


def test_imports_go_downward_only() -> None:
    assert len(MODULES) > 100
    for path in MODULES:
        room = room_of(path)
        assert room == "__init__" or room in LEVEL, f"{room} is no room of the architecture"
        assert not breaches(room, imported_rooms(ast.parse(path.read_text()))), path


def test_the_layer_test_would_notice_an_upward_import() -> None:
    tree = ast.parse("from colonnade.models.linear import LinearRegression\nimport colonnade.noise.skellam")
    assert breaches("privacy", imported_rooms(tree)) != []
    assert breaches("data", {"ledger"}) == ["ledger"], "rooms of one level do not know each other"
    tree = ast.parse("from colonnade.methods.slr import method\nfrom colonnade.lab import targets")
    assert sorted(breaches("protocols", imported_rooms(tree))) == ["lab", "learn"]
    assert breaches("report", imported_rooms(tree)) == ["lab"]


def test_a_method_is_a_folder_with_a_method_in_it() -> None:
    assert METHOD_FOLDERS
    for folder in METHOD_FOLDERS:
        assert (folder / "method.py").exists() != (folder.name in SHARED_BY_METHODS), folder


def test_no_module_grows_past_seven_hundred_lines() -> None:
    assert not [path for path in MODULES if len(path.read_text().splitlines()) > 700]


def test_nobody_imports_an_entry() -> None:
    for path in MODULES:
        assert "colonnade.sites.remote import" not in path.read_text(), path
