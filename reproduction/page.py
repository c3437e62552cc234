"""Pages of `docs`, from sections: docs/reproduction.md for the papers, and a page for each question of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reproduction.claims import claims_table
from reproduction.sections import Section
from reproduction.studies import STUDIES

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """# The papers, run again

Every number on this page that is not quoted comes from a run: `make reproduce DATA=folder` runs all studies and writes
this page, `python -m reproduction --only NAME` one of them, and `reproduction/results` keeps what they found. Quoted
are only numbers that a paper prints in its text or tables. Where data or a setting is not available, that is said, and
nothing stands in its place. `python -m reproduction --list` names every table and figure, how many of its cells were
run, and why not the others.

*Paper mode* is a paper's own formula and algorithm: **paper formula, not a guarantee**. *Sound* is what Colonnade does
and charges for. Why they differ is told claim by claim in [soundness](soundness.md); here is what it does to results.
"""

CLAIMED = """
What each paper says of its own tables and figures, and what came out. A claim that rests on data that is not at hand is
not in the list; what the papers claim of privacy, [soundness](soundness.md) goes through.
"""
HEADS = {
    "reproduction.md": HEAD,
    "scale.md": """# Scale

What a run costs as people, columns and parties grow, for the two methods that most jobs take. Every number here comes
from `python -m reproduction --only scale`; [`colonnade plan`](plan.md) says it for your own job.

Each member is a process on one machine, with a Parquet file of made-up numbers, the same people in the same order in
each, and talks to the others through sockets. A first run on a few people, which compiles, is not counted. Time is that
of the processor in all members together, from reading files to the opened result: members with a machine each wait for
less. Bytes are what all members send. Memory is the peak of the member with most, above what it had before. A slope is
the power of a law fitted to the logarithms of the larger half of what was run. A forecast was not run: it is the law of
the last two runs, carried on. Where ids have to be matched, that comes on top:
[about 110 bytes and 3 microseconds an id](plan.md#people-whom-only-some-parties-hold).
""",
}


def page(found: Mapping[str, Sequence[Section] | None], name: str = "reproduction.md") -> str:
    """A whole page; studies that were not run are named. A page of one study has its title in its head."""
    parts = [HEADS[name].strip()]
    if name == "reproduction.md":
        parts += ["## Whether the claims held", CLAIMED.strip(), claims_table().markdown()]
    here = [study for study in STUDIES if study.page == name]
    for study in here:
        sections = found.get(study.name)
        if len(here) > 1:
            parts.append(f"## {study.title}")
        if sections is None:
            parts.append(f"Not run yet: `{study.command}`.")
        else:
            parts += [section.markdown(level=3 if len(here) > 1 else 2) for section in sections]
    return "\n\n".join(parts) + "\n"


def write_pages(found: Mapping[str, Sequence[Section] | None], folder: Path = DOCS) -> list[Path]:
    """Write every page, and say where."""
    for name in HEADS:
        (folder / name).write_text(page(found, name), encoding="utf-8")
    return [folder / name for name in HEADS]
