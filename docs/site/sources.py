"""Pages of the site for files that documents link to and that are no documents: programs, tests, notebooks, folders."""

from __future__ import annotations

import json
from pathlib import Path

from reading import ROOT, leaves, links, target

LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".json": "json",
    ".yml": "yaml",
    ".html": "html",
    ".csv": "text",
}
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"


def linked(page: str, text: str) -> set[str]:
    """Files and folders outside the documents that a page links to."""
    targets = {target(page, link) for link in links(text) if not leaves(link)}
    return {path for path in targets if path.endswith(".py") or not path.startswith("docs")}


def page_of(path: str) -> str:
    """A page that shows a file, or lists a folder."""
    file = ROOT / path
    if file.is_dir():
        return listing(path)
    if file.suffix == ".ipynb":
        return notebook(file)
    if file.suffix == ".md":
        return file.read_text(encoding="utf-8")
    language = LANGUAGES.get(file.suffix, "text")
    return f"{HIDDEN}# {path}\n\n````{language}\n{file.read_text(encoding='utf-8')}\n````\n"


def listing(folder: str) -> str:
    """A folder's own README, or the names of what is in it."""
    front = ROOT / folder / "README.md"
    if front.is_file():
        return front.read_text(encoding="utf-8")
    names = sorted(entry.name for entry in (ROOT / folder).iterdir() if not entry.name.startswith(("_", ".")))
    return f"{HIDDEN}# {folder}\n\n" + "".join(f"- `{name}`\n" for name in names)


def notebook(file: Path) -> str:
    """A notebook as a page: its text, its code, and what the code printed or drew when it was last run."""
    parts = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
        elif cell["cell_type"] == "code" and text.strip():
            parts.append(f"````python\n{text}\n````")
            parts += [shown for output in cell.get("outputs", ()) if (shown := outcome(output))]
    return "\n\n".join(parts) + "\n"


def outcome(output: dict[str, object]) -> str:
    """What one cell put out: a picture or a text."""
    data = output.get("data", {})
    if not isinstance(data, dict):
        return ""
    for kind in ("image/svg+xml", "image/png"):
        if kind in data:
            inside = "".join(data[kind]).replace("\n", "")
            coding = ";base64" if kind == "image/png" else ";utf8"
            if kind == "image/svg+xml":
                inside = inside.replace("#", "%23").replace('"', "'")
            return f'<img alt="picture made by the cell above" src="data:{kind}{coding},{inside}">'
    text = output.get("text", data.get("text/plain", ""))
    said = "".join(text) if isinstance(text, list) else str(text)
    return f'````text title="output"\n{said.rstrip()}\n````' if said.strip() else ""
