"""Pages of which the repository has the beginning only: the site appends what is kept as data.

Errors by number come from the package's `errors.toml`, the papers' tables from `reproduction/results`.
"""

from __future__ import annotations

import sys

from reading import ROOT

sys.path.extend([str(ROOT), str(ROOT / "src")])

from colonnade.errors import explanations
from reproduction.page import kept_sections


def whole(uri: str, text: str) -> str:
    """A page under docs/ as the site has it."""
    if uri == "errors.md":
        return "\n".join([text, *(f"## {one.number}\n{one.text}\n" for one in explanations().values())])
    return f"{text}\n{kept_sections()}" if uri == "reproduction.md" else text
