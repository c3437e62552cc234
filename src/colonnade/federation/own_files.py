"""What each party keeps for itself of a run: its part of a model, and whom the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from colonnade.data.aligned import AlignedTable
from colonnade.errors import ColonnadeError
from colonnade.federation.whole_files import make_folder, write_whole
from colonnade.models.files.document import MODEL, PARTIES, PEOPLE
from colonnade.models.files.membership import People
from colonnade.protocols.approval import STEP
from colonnade.randomness import SystemRandomness

OUTCOME, LOG = "outcome.json", "log.jsonl"
STANDING = "standing.json"
"""Whose approval a run waits for, while it does."""
PAID = "paid.json"
"""What is known of a release that was opened, until the run's folder is whole."""


class Saves(Protocol):
    """A model that can be written to a file."""

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        ...


class Standing:
    """What notes in a run's folder whose approval the run waits for; given as a party's `progress`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> progress = Standing(folder)
    >>> progress("approval of clinic", 0, 1)
    >>> waits_for(folder)
    ['clinic']
    >>> progress("approval of clinic", 1, 1)
    >>> waits_for(folder)
    []
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waits: list[str] = []

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note whom the run waits for if the step is an approval; other steps are not noted."""
        what, _, owner = step.partition(" of ")
        if what != STEP:
            return
        self._waits = [name for name in self._waits if name != owner] + [owner] * (done < total)
        if self._waits:
            write_whole(self._folder / STANDING, json.dumps({"waits": self._waits}) + "\n", own=True)
        else:
            (self._folder / STANDING).unlink(missing_ok=True)


def waits_for(folder: Path) -> list[str]:
    """The parties whose approval a run that goes on waits for."""
    try:
        return list(json.loads((folder / STANDING).read_text(encoding="utf-8"))["waits"])
    except FileNotFoundError:
        return []


def own_file(folder: Path, party: str, name: str) -> Path:
    """Where a run's folder has a file that is one party's own.

    >>> own_file(Path("runs/first"), "bank", "model.json")
    PosixPath('runs/first/parties/bank.model.json')
    """
    return folder / PARTIES / f"{party}.{name}"


def keep_parts(folder: Path, parts: Mapping[str, Saves]) -> None:
    """Every party's part of a model that is here, in a file of its own."""
    for party, part in parts.items():
        make_folder(folder / PARTIES)
        part.save(own_file(folder, party, MODEL))


def keep_people(folder: Path, aligned: Mapping[str, AlignedTable], *, run: str) -> None:
    """For every party that is here, the list of the people that were trained on."""
    for party, table in aligned.items():
        make_folder(folder / PARTIES)
        people = People.of_table(table.table, SystemRandomness(), run=run)
        people.save(own_file(folder, party, PEOPLE))


def learnt_note(facts: Mapping[str, Any], failure: ColonnadeError | None) -> dict[str, Any]:
    """What a member notes of what was learnt, which everybody may know; or why no model was."""
    learnt = {"learnt": facts["learnt"]}
    return learnt if failure is None else {**learnt, "failure": str(failure)}
