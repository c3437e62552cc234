"""The pages of the API reference: the public names, a page for each room, a page for each module of a room.

They are made of the modules that there are, so none can be forgotten.
"""

from __future__ import annotations

import ast
from pathlib import Path

from reading import ROOT

PACKAGE = ROOT / "src" / "colonnade"
# From what a user meets first to what lies deepest.
ROOMS = (
    "federation", "models", "evaluation", "forecast", "comparison", "methods", "data", "ledger", "privacy", "noise",
    "protocols", "crypto", "runtime", "attacks", "audits", "conformance", "report", "numbers", "cli",
)  # fmt: skip
NAMES = {
    "Federate and train": ("Federation", "LogisticRegression", "LinearRegression", "PCA", "MomentRelease"),
    "Other losses and networks": (
        "SupportVectorClassifier", "PoissonRegression", "GammaRegression", "NeuralClassifier", "NeuralRegressor",
        "GradientBoostedTrees",
    ),
    "Tables": ("Table", "Schema"),
    "Privacy": ("Guarantee", "Ledger"),
}  # fmt: skip
SHOWN = (
    "    options: {heading_level: 3, show_root_heading: true, show_root_toc_entry: true, "
    "show_root_full_path: false}\n"
)


def exported() -> list[str]:
    """What `colonnade.__all__` lists, read without importing it."""
    for statement in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return [name for name in ast.literal_eval(statement.value) if not name.startswith("_")]
    raise ValueError("colonnade has no __all__")


def rooms() -> list[str]:
    """Every room, those that `ROOMS` does not name last."""
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return [room for room in (*ROOMS, *sorted(found - set(ROOMS))) if room in found]


def modules(room: str) -> list[str]:
    """Dotted names of a room's public modules."""
    names = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not any(part.startswith("_") for part in parts):
            names.append(".".join(("colonnade", *parts)))
    return names


def summary(module: str) -> str:
    """The first line of a module's docstring."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


def uri(module: str) -> str:
    """The page of a module, two folders deep.

    >>> uri("colonnade.privacy.sensitivity.matrix"), uri("colonnade.errors")
    ('api/privacy/sensitivity.matrix.md', 'api/colonnade/errors.md')
    """
    room, _, rest = module.removeprefix("colonnade.").partition(".")
    return f"api/{room}/{rest}.md" if rest else f"api/colonnade/{room}.md"


def front_page() -> str:
    """The page of the names that the package exports."""
    return "api/colonnade/index.md"


def pages() -> dict[str, str]:
    """Every page of the reference by its place."""
    made = {front_page(): front()}
    for module in ("colonnade.errors", "colonnade.randomness"):
        made[uri(module)] = f"# {module}\n\n::: {module}\n"
    for room in rooms():
        rows = "".join(row(room, module) for module in modules(room))
        title = f"# colonnade.{room}\n\n{summary(f'colonnade.{room}')}\n\n"
        made[f"api/{room}/index.md"] = f"{title}| module | |\n|---|---|\n{rows}"
        for module in modules(room):
            made[uri(module)] = f"# {module.removeprefix('colonnade.')}\n\n::: {module}\n"
    return made


def row(room: str, module: str) -> str:
    """A module's line in the table of its room."""
    page = uri(module).removeprefix(f"api/{room}/")
    said = summary(module).replace("|", "\\|")
    return f"| [`{module.removeprefix('colonnade.')}`]({page}) | {said} |\n"


def front() -> str:
    grouped = [name for names in NAMES.values() for name in names]
    groups = {**NAMES, "More": tuple(name for name in exported() if name not in grouped)}
    body = "".join(
        f"## {title}\n\n" + "".join(f"::: colonnade.{name}\n{SHOWN}\n" for name in names)
        for title, names in groups.items()
        if names
    )
    return (
        "# Python API\n\nThe names that `import colonnade` gives, with examples that the tests run. Everything else "
        "has a page under the room that it lives in; [the architecture](../../project/architecture.md) says which "
        f"room that is. What can go wrong is in [`colonnade.errors`](errors.md).\n\n{body}"
    )


def navigation() -> list[object]:
    """The reference's part of the navigation."""
    entries: list[object] = [front_page()]
    for room in rooms():
        entries.append(
            {
                room: [
                    f"api/{room}/index.md",
                    *({module.removeprefix(f"colonnade.{room}."): uri(module)} for module in modules(room)),
                ]
            }
        )
    return [*entries, {"errors": "api/colonnade/errors.md"}, {"randomness": "api/colonnade/randomness.md"}]
