"""What a study hands back: sections of the page, kept as JSON so that the page can be made again without a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent / "docs" / "figures" / "reproduction"


@dataclass
class Effort:
    """How much is run: `full` is as published, also where that takes hours."""

    full: bool = False


EFFORT = Effort()


@dataclass(frozen=True)
class Table:
    """One table of the page: a caption, a head, and rows of cells that are already text."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table, its caption first."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        return "\n".join(
            [f"*{self.caption}*", "", line(self.head), "|" + "---|" * len(self.head), *map(line, self.rows)]
        )


@dataclass(frozen=True)
class Picture:
    """One picture of the page: a file in docs/figures/reproduction and what it shows, for those who cannot see it."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return FIGURES / self.name


@dataclass(frozen=True)
class Section:
    """A part of the page: what was run and found, in words, tables and pictures, and how long it took.

    `text` is Markdown. `command` runs the study that this section comes from; `facts` are numbers for programs.
    """

    title: str
    text: str
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    seconds: float = 0.0
    command: str = ""
    where: str = ""
    """When it was run, on what, and how busy that was."""
    facts: dict[str, Any] = field(default_factory=dict)

    def markdown(self, *, level: int = 3) -> str:
        """The section under a heading of this level."""
        parts = [f"{'#' * level} {self.title}", self.text.strip()]
        parts += [table.markdown() for table in self.tables]
        parts += [f"![{picture.text}](figures/reproduction/{picture.name})" for picture in self.pictures]
        if self.command:
            where = self.where or "on the machine that wrote this page"
            parts.append(f"`{self.command}`, {self.seconds:.0f} s {where}.")
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Part:
    """A section that can be run by itself, under the title it will have.

    `beside` is a module that prepares hours of it in pieces, in a process of its own beside the other parts.
    """

    title: str
    run: Callable[[], Section]
    alongside: str = ""


def save(name: str, sections: Sequence[Section], *, folder: Path = RESULTS) -> None:
    """Keep a study's sections, replacing what was kept."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        [asdict(section) for section in sections], ensure_ascii=False, indent=1, allow_nan=False
    )
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def keep(name: str, section: Section, *, order: Sequence[str], folder: Path = RESULTS) -> None:
    """Put one section among those that are kept of a study, in this order of titles."""
    kept = {known.title: known for known in load(name, folder=folder) or []} | {section.title: section}
    save(name, [kept[title] for title in order if title in kept], folder=folder)


def load(name: str, *, folder: Path = RESULTS) -> list[Section] | None:
    """The sections that were kept of a study, if any."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    return [
        Section(
            **{
                **data,
                "tables": tuple(
                    Table(item["caption"], tuple(item["head"]), tuple(map(tuple, item["rows"])))
                    for item in data["tables"]
                ),
                "pictures": tuple(Picture(**item) for item in data["pictures"]),
            }
        )
        for data in json.loads(path.read_text(encoding="utf-8"))
    ]


class Pieces:
    """What a long part has found so far, in a file: what is there is not run again. None: nothing is kept.

    `found` counts those that were there.

    >>> Pieces(None).get("two", lambda: 2)
    2
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.found = path, 0

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """A piece by its name, made if it is not there; plain values only."""
        if self.path is None:
            return make()
        # Read anew, because other parts may have added theirs.
        known: dict[str, Any] = (
            json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        )
        self.found += name in known
        if name not in known:
            made = make()
            known = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
            known[name] = made
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(known, ensure_ascii=False, indent=1), encoding="utf-8")
            fresh.replace(self.path)
        return known[name]


@dataclass
class Watch:
    """How long a block took, once it has ended."""

    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Watch]:
    """Measure a block."""
    watch, start = Watch(), perf_counter()
    try:
        yield watch
    finally:
        watch.seconds = perf_counter() - start


def spread_text(values: Sequence[float], digits: int = 4) -> str:
    """Mean ± standard deviation, as papers print them."""
    from statistics import fmean, stdev

    if not values:
        return "no model"
    mean = f"{fmean(values):.{digits}f}"
    return f"{mean} ± {stdev(values):.{digits}f}" if len(values) > 1 else mean


def said(seconds: float) -> str:
    """A length of time, to two digits.

    >>> said(100.0), said(5000.0), said(400_000.0)
    ('1.7 minutes', '1.4 hours', '4.6 days')
    """
    for unit, length in (("days", 86400.0), ("hours", 3600.0)):
        if seconds >= length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds / 60:.2g} minutes"
