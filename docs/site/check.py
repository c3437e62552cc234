"""Look over the site that was built: `python docs/site/check.py build/site`. It says what is wrong and exits with 1.

Nothing is loaded from elsewhere, every link within the site leads to a page and a place on it, every picture is there
and says what it shows, and every public name of the package has its place in the reference.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import reference
from reading import ROOT

ANCHOR = re.compile(r'\s(?:id|name)="([^"]+)"')
LINK = re.compile(r'<a\s[^>]*?href="([^"]*)"')
LOADED = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\s(?:src|href)="([^"]*)"')
PICTURE = re.compile(r"<img\b[^>]*>")
ELSEWHERE = re.compile(r"(?:https?:)?//")
SHEET = re.compile(r"""url\(["']?((?:https?:)?//[^)"']+)|@import\s+["'](https?:[^"']+)""")


def places(page: str) -> set[str]:
    """Everything on a page that a link can point to."""
    return {html.unescape(found) for found in ANCHOR.findall(page)}


def loaded_from_elsewhere(page: str) -> list[str]:
    """What a page would fetch from another host."""
    return [address for address in LOADED.findall(page) if ELSEWHERE.match(address)]


def broken(pages: dict[str, str], files: set[str]) -> list[str]:
    """Links within the site, and pictures, that lead nowhere."""
    anchors = {name: places(text) for name, text in pages.items()}
    found = []
    for name, text in pages.items():
        for address in {*LINK.findall(text), *LOADED.findall(text)}:
            address = html.unescape(address)
            if ELSEWHERE.match(address) or address.startswith(("mailto:", "data:", "javascript:")):
                continue
            path, _, anchor = unquote(address).partition("#")
            path = path.partition("?")[0]
            there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            there = (
                there
                if there in files or there in pages
                else posixpath.join(there, "index.html").removeprefix("./")
            )
            if there not in files:
                found.append(f"{name}: nothing at {address}")
            elif anchor and there in anchors and anchor not in anchors[there] and not anchor.startswith("__"):
                found.append(f"{name}: no place {anchor} on {there}")
    return found


def unspoken(pages: dict[str, str]) -> list[str]:
    """Pictures that do not say what they show."""
    return [
        f"{name}: {picture} says nothing to who cannot see it"
        for name, text in pages.items()
        for picture in PICTURE.findall(text)
        if not re.search(r'\salt="[^"]+"', picture)
    ]


def public(module: str) -> list[str]:
    """Dotted names of the public classes and functions of a module of which there is something to say."""
    path = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    named = (it for it in body if isinstance(it, kinds) and not it.name.startswith("_"))
    return [f"{module}.{it.name}" for it in named if ast.get_docstring(it)]


def undocumented(pages: dict[str, str]) -> list[str]:
    """Public names that the reference does not show."""
    wanted = {reference.front_page(): [f"colonnade.{name}" for name in reference.exported()]}
    for room in reference.rooms():
        for module in reference.modules(room):
            wanted[reference.uri(module)] = public(module)
    return [
        f"{name} is not on {uri}"
        for uri, names in wanted.items()
        for name in names
        if name not in places(pages.get(uri.removesuffix(".md") + ".html", ""))
    ]


def problems(site: Path) -> list[str]:
    """All that is wrong with a built site."""
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    pages = {name: (site / name).read_text(encoding="utf-8") for name in files if name.endswith(".html")}
    pages.pop("404.html", None)  # its links begin at the top of whatever serves it
    sheets = {name: (site / name).read_text(encoding="utf-8") for name in files if name.endswith(".css")}
    foreign = [
        f"{name} loads {address}" for name, text in pages.items() for address in loaded_from_elsewhere(text)
    ]
    foreign += [f"{name} loads {found[0]}" for name, text in sheets.items() for found in SHEET.finditer(text)]
    return sorted({*foreign, *broken(pages, files), *unspoken(pages), *undocumented(pages)})


def main() -> None:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")
    if not (site / "index.html").is_file():
        sys.exit(f"{site} holds no site; mkdocs build makes it.")
    found = problems(site)
    if found:
        sys.exit("\n".join([*found, f"{len(found)} things are wrong with {site}."]))
    count = sum(1 for _ in site.rglob("*.html"))
    sys.stdout.write(
        f"{site}: {count} pages, every link leads somewhere, nothing is loaded from elsewhere.\n"
    )


if __name__ == "__main__":
    main()
