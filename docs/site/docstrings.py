"""Docstrings as the reference shows them: examples become code, and documents that are cited become links."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)
CITED = re.compile(r"(?<![\w/`\[(])docs/([\w/-]+)\.md")
# Pages of the reference lie two folders deep.
TOP = "../../"


def shown(text: str) -> str:
    """A docstring as Markdown: examples in fences, cited documents as links."""
    pieces, end = [], 0
    for example in EXAMPLE.finditer(text):
        pieces += [linked(text[end : example.start()]), f"```pycon\n{example[0]}\n```"]
        end = example.end()
    return "".join([*pieces, linked(text[end:])])


def linked(text: str) -> str:
    """Cited documents as links."""
    return CITED.sub(rf"[\g<0>]({TOP}\1.md)", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)
