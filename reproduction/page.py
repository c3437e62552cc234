"""docs/reproduction.md, from sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reproduction.sections import Section
from reproduction.studies import STUDIES

PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"
HEAD = """# The papers, run again

Every number on this page that is not quoted comes from a run: `make reproduce DATA=folder` runs all studies and writes
this page, `python -m reproduction --only NAME` one of them, and `reproduction/results` keeps what they found. Quoted
are only numbers that a paper prints in its text or tables. Where data or a setting is not available, that is said, and
nothing stands in its place. `python -m reproduction --list` names every table and figure, how many of its cells were
run, and why not the others.

*Paper mode* is a paper's own formula and algorithm: **paper formula, not a guarantee**. *Sound* is what Colonnade does
and charges for. Why they differ is told claim by claim in [soundness](soundness.md); here is what it does to results.
"""


def page(found: Mapping[str, Sequence[Section] | None]) -> str:
    """The whole page; studies that were not run are named."""
    parts = [HEAD.strip()]
    for study in STUDIES:
        sections = found.get(study.name)
        parts.append(f"## {study.title}")
        if sections is None:
            parts.append(f"Not run yet: `{study.command}`.")
        else:
            parts += [section.markdown() for section in sections]
    return "\n\n".join(parts) + "\n"
