"""Pages are written for GitHub; the site shows the same text. What differs between the two is put right here.

A fence may carry a word after its language (`text output`, `toml bank.toml`, `python src/…`): a title on the site. A
list or a table may follow a paragraph without a blank line. Links go from file to file of the repository: to another
page, to a figure, to a source file, which has a page of its own on the site, or to a folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Pages that stand at the top of the repository, and where the site has them. A page called README is the front of
# its folder there, hence the small letters.
FRONT = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "LICENSE": "project/license.md",
}
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
RULE = re.compile(r"\|[-:| ]+\|?$")


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The text with `change` made to all that is not code."""
    pieces, end = [], 0
    for fence in FENCE.finditer(text):
        pieces += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, change(text[end:])])


def titled(fence: re.Match[str]) -> str:
    """A fence whose further words are its title."""
    language, _, rest = fence["info"].strip().partition(" ")
    if "=" in rest or not rest:
        return fence[0]
    return f'{fence["indent"]}```{language} title="{rest.strip()}"\n{fence["text"]}{fence["indent"]}```'


def spaced(text: str) -> str:
    """Blank lines where a list or a table begins right after something else."""
    lines = text.split("\n")
    made: list[str] = []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        after = lines[number + 1] if number + 1 < len(lines) else ""
        begins_list = ITEM.match(line) and not ITEM.match(before) and not before.startswith(" ")
        begins_table = line.startswith("|") and RULE.match(after) and not before.startswith("|")
        if before.strip() and (begins_list or begins_table):
            made.append("")
        made.append(line)
    return "\n".join(made)


def links(text: str) -> list[str]:
    """Where the links of a text go, code left out."""
    return [link[1] for link in LINK.findall(FENCE.sub("", text))]


def leaves(link: str) -> bool:
    """Whether a link leaves the repository."""
    return "://" in link or link.startswith("mailto:")


def target(page: str, link: str) -> str:
    """The file or folder of the repository that a link on a page goes to, from the top; a README is its folder.

    >>> target("docs/index.md", "../examples/README.md"), target("docs/index.md", "proofs/README.md")
    ('examples', 'docs/proofs')
    """
    path = link.partition("#")[0]
    found = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return found.removesuffix("/README.md")


def place(path: str) -> str:
    """Where the site has a file of the repository.

    >>> place("README.md"), place("docs/schema.md"), place("docs/proofs")
    ('project/readme.md', 'schema.md', 'proofs/README.md')
    >>> place("tests/docs/test_site.py"), place("notebooks")
    ('source/tests/docs/test_site.py.md', 'source/notebooks/index.md')
    """
    if path in FRONT:
        return FRONT[path]
    folder = (ROOT / path).is_dir()
    if path.startswith("docs/") and not path.endswith(".py"):
        return f"{path.removeprefix('docs/')}/README.md" if folder else path.removeprefix("docs/")
    return f"source/{path}/index.md" if folder else f"source/{path.removesuffix('.ipynb')}.md"


def relinked(text: str, page: str, at: str) -> str:
    """The text with its links as the site needs them. `page` is its file in the repository, `at` its place."""

    def link(found: re.Match[str]) -> str:
        if leaves(found[2]) or found[2].startswith("#"):
            return found[0]
        _, mark, anchor = found[2].partition("#")
        there = posixpath.relpath(place(target(page, found[2])), posixpath.dirname(at) or ".")
        return f"{found[1]}{there}{mark}{anchor}{found[3]}"

    return outside_fences(text, lambda piece: LINK.sub(link, piece))


def for_the_site(text: str, page: str, at: str) -> str:
    """A page of the repository as the site takes it."""
    return FENCE.sub(titled, outside_fences(relinked(text, page, at), spaced))
