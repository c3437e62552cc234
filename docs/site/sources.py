"""Pages of the site for files that documents link to and that are no documents: programs, tests, notebooks, folders."""

from __future__ import annotations

import json
import re
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
FORMULA = re.compile(r"\$([^$\n]+)\$")
# What notebooks write in TeX, as the characters that the rest of the documents use: the site loads no typesetter.
SYMBOLS = {
    r"^\top": "ᵀ", r"\tilde x": "x̃", r"\|": "‖", r"\sum": "Σ", r"\sqrt": "√", r"\leftarrow": "←", r"\langle": "⟨",
    r"\rangle": "⟩", r"\ln": "ln", r"\le": "≤", r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\delta": "δ",
    r"\Delta": "Δ", r"\varepsilon": "ε", r"\eta": "η", r"\theta": "θ", r"\sigma": "σ", r"\,": "\u2009",
}  # fmt: skip
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
            parts.append(FORMULA.sub(formula, text))
        elif cell["cell_type"] == "code" and text.strip():
            parts.append(f"````python\n{text}\n````")
            parts += [shown for output in cell.get("outputs", ()) if (shown := outcome(output))]
    return "\n\n".join(parts) + "\n"


def formula(found: re.Match[str]) -> str:
    """A formula in plain characters, or as it is written where it has something that `SYMBOLS` does not know.

    >>> FORMULA.sub(formula, r"$\\Delta_f^k \\le \\|x_{ia}\\|^2$")
    'Δ<sub>f</sub><sup>k</sup> ≤ ‖x<sub>ia</sub>‖<sup>2</sup>'
    """
    made = found[1]
    for written, symbol in SYMBOLS.items():
        made = made.replace(written, symbol)
    if "\\" in made:
        return f"`{found[1]}`"
    for mark, tag in (("_", "sub"), ("^", "sup")):
        made = re.sub(
            rf"\{mark}(?:\{{([^}}]*)\}}|(.))",
            lambda part, tag=tag: f"<{tag}>{part[1] or part[2]}</{tag}>",
            made,
        )
    return re.sub(r"√\{(.*)\}", r"√(\1)", made)


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
