"""What the site has beyond the files under docs/: pages of the repository's top, of sources, and the reference."""

from __future__ import annotations

from pathlib import Path

import reference
from generated import whole
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reading import FRONT, ROOT, for_the_site, place
from sources import linked, page_of

DOCS = ROOT / "docs"
# Where each page of the site stands in the repository.
_origin: dict[str, str] = {}


def listed(entry: object) -> list[str]:
    """The pages that a part of the navigation names."""
    if isinstance(entry, str):
        return [entry]
    inside = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
    return [page for part in inside for page in listed(part)]


def expanded(entry: object) -> list[object]:
    """A part of the navigation with patterns replaced by the pages that match, and what is not there left out."""
    if isinstance(entry, dict):
        ((title, inside),) = entry.items()
        if inside == "api":
            return [{title: reference.navigation()}]
        if isinstance(inside, str):
            made = inside.startswith(("project/", "source/"))
            return [entry] if made or (DOCS / inside).exists() else []
        named = [each for each in inside if "*" not in str(each)]
        inner = [part for each in inside for part in expanded(each) if each in named or part not in named]
        return [{title: inner}] if inner else []
    if "*" not in str(entry):
        return [entry] if (DOCS / str(entry)).exists() else []
    found = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob(str(entry)))
    return [path for path in found if not path.endswith("README.md")]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation: a page that nobody put anywhere is under «More»."""
    nav = [part for entry in config.nav or [] for part in expanded(entry)]
    named = set(listed(nav))
    more = sorted(
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if path.relative_to(DOCS).as_posix() not in named
    )
    config.nav = [*nav, {"More": more}] if more else nav
    config.watch.append(str(ROOT / "src"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files under docs/."""
    _origin.clear()
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in FRONT}
    for file in list(files.documentation_pages()):
        _origin[file.src_uri] = f"docs/{file.src_uri}"
        file.content_string = whole(file.src_uri, file.content_string)
        texts[f"docs/{file.src_uri}"] = file.content_string
    for path, uri in FRONT.items():
        _origin[uri] = path
        text = texts[path] if path != "LICENSE" else f"# License\n\n```text\n{texts[path]}```\n"
        files.append(File.generated(config, uri, content=text))
    waiting, made = list(texts.items()), set(FRONT)
    while waiting:
        page, text = waiting.pop()
        for path in sorted(linked(page, text) - made):
            made.add(path)
            uri, shown = place(path), page_of(path)
            origin = f"{path}/README.md" if (ROOT / path).is_dir() else path
            _origin[uri] = origin
            files.append(File.generated(config, uri, content=shown))
            if Path(origin).suffix in (".md", ".ipynb"):
                waiting.append((origin, shown))
    for uri, text in reference.pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  by name
    """The text of a page as the site takes it."""
    uri = page.file.src_uri
    if uri == "index.md":
        page.meta["hide"] = ["navigation"]
    return for_the_site(markdown, _origin[uri], uri) if uri in _origin else markdown
