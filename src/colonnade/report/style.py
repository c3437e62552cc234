"""The one style of all pages, and the policy that lets a page have this style and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup


@dataclass(frozen=True)
class Style:
    """What stands between `<style>` and `</style>`, and how a Content-Security-Policy names it."""

    text: Markup
    hash: str


def page_style(run: str = "") -> Style:
    """The style of a page; on paper every page of it carries the name of the run."""
    # The name stands in a string of the style: what could end it is left out.
    name = re.sub(r"[^\w.-]", "", run)
    footer = f'@page {{ @bottom-left {{ content: "run {name}"; font: 8pt monospace; }} }}\n' if name else ""
    text = _css() + footer
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return Style(Markup(text), f"sha256-{digest}")


@cache
def _css() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")
