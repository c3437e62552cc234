"""Pages of `docs`, from sections: docs/reproduction.md for the papers, and a page for each question of our own.

Of the papers the repository has a summary, and the site all sections (docs/site/generated.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reproduction.claims import CLAIMS, claims_table
from reproduction.sections import Section, Table, load
from reproduction.studies import STUDIES, Study

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """# The papers, run again

The tables and figures of five papers, run by our code. `make reproduce DATA=folder` runs all studies,
`python -m reproduction --only NAME` one of them. What they find is kept in `reproduction/results`, and the site appends
it here: text, tables and pictures of every section. `python -m reproduction --list` names every table and figure of the
papers, how many of its cells were run, and why not the others.

Every number that is not quoted comes from a run. Quoted are only numbers that a paper prints in its text or tables.
Where data or a setting is not available, the page says so, and nothing stands in its place.

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
the last two runs, carried on. Where ids have to be matched, that comes on top: through the server 32 bytes and 2
microseconds an id, on a curve 100 and 170 ([measured](plan.md#people-whom-only-some-parties-hold)).
""",
}


def page(found: Mapping[str, Sequence[Section] | None], name: str) -> str:
    """A page as it stands in `docs`: all of a study of our own; of the papers a summary."""
    if name == "reproduction.md":
        return "\n\n".join([HEAD.strip(), summary(found).markdown()]) + "\n"
    (study,) = (study for study in STUDIES if study.page == name)
    return "\n\n".join([HEADS[name].strip(), *_parts(study, found, level=2)]) + "\n"


def summary(found: Mapping[str, Sequence[Section] | None]) -> Table:
    """What was run of each study of the papers, and how many of the paper's claims about its results held."""
    rows = []
    for study in _papers():
        claims = [claim.held for claim in CLAIMS if claim.study == study.name]
        counts = tuple(str(claims.count(held)) if claims else "" for held in ("yes", "in part", "no"))
        place = f"[{len(found.get(study.name) or ())}](../reproduction/results/{study.name}.json)"
        rows.append((study.title, f"`{study.name}`", *counts, place))
    head = ("study", "NAME", "claims that held", "in part", "did not", "sections kept")
    return Table("What was run", head, tuple(rows))


def sections(found: Mapping[str, Sequence[Section] | None]) -> str:
    """What the site appends to the page of the papers: every claim, and every section that is kept."""
    parts = ["## Whether the claims held", CLAIMED.strip(), claims_table().markdown()]
    for study in _papers():
        parts += [f"## {study.title}", *_parts(study, found, level=3)]
    return "\n\n".join(parts) + "\n"


def kept_sections() -> str:
    """The same, of the results that are kept."""
    return sections({study.name: load(study.name) for study in _papers()})


def _papers() -> list[Study]:
    return [study for study in STUDIES if study.page == "reproduction.md"]


def _parts(study: Study, found: Mapping[str, Sequence[Section] | None], *, level: int) -> list[str]:
    kept = found.get(study.name)
    if kept is None:
        return [f"Not run yet: `{study.command}`."]
    return [section.markdown(level=level) for section in kept]


def write_pages(found: Mapping[str, Sequence[Section] | None], folder: Path = DOCS) -> list[Path]:
    """Write every page, and say where."""
    for name in HEADS:
        (folder / name).write_text(page(found, name), encoding="utf-8")
    return [folder / name for name in HEADS]
