"""Whom a model was trained on: the key of the holdout split, and what each party keeps for itself of a run."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from colonnade.data.schema import Schema
from colonnade.data.table import AlignedTable
from colonnade.errors import CannotWrite, ColonnadeError, ModelDamaged
from colonnade.federation.files import PROGRESS, make_folder, write_whole
from colonnade.ledger import HoldoutSplit, Ledger
from colonnade.ledger.release import PartName
from colonnade.models.files.document import MODEL, PARTIES, PEOPLE
from colonnade.models.files.membership import IdRules, TrainingMembership
from colonnade.protocols.agreement import STEP, PartSpec
from colonnade.randomness import SystemRandomness

FORMAT = 1


def requested_part(
    share: float,
    name: PartName,
    *,
    ledger: Ledger,
    dataset: str,
    schema: Schema,
    splits: dict[str, HoldoutSplit] | None = None,
) -> PartSpec:
    """The part that a run is about, with how the data set was cut before; `splits` is for a ledger without a file."""
    store = splits if splits is not None else {}
    known = store.get(dataset) if ledger.path is None else kept_split(ledger.path, dataset)
    keep: Callable[[HoldoutSplit], None] = (
        partial(store.__setitem__, dataset)
        if ledger.path is None
        else partial(keep_split, ledger.path, dataset)
    )
    return PartSpec(share, name, str(IdRules.of(schema)), known, keep)


def kept_split(ledger: Path, dataset: str) -> HoldoutSplit | None:
    path = _place(ledger, dataset)
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        return HoldoutSplit.from_data(data)
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelDamaged(
            f"{path} should say how data set {dataset!r} is cut, and cannot be read. Restore it from a copy. Without "
            "it the people would be cut anew, and every release about a part would count in full."
        ) from None


def keep_split(ledger: Path, dataset: str, split: HoldoutSplit) -> None:
    path = _place(ledger, dataset)
    said = {"format": FORMAT, "dataset": dataset, **split.to_data()}
    try:
        write_whole(path, json.dumps(said, ensure_ascii=False, indent=1) + "\n", own=True)
    except OSError as error:
        raise CannotWrite(
            f"how data set {dataset!r} is cut cannot be kept beside {ledger} ({error.strerror or error}). Nothing was "
            "charged. Make room, or give write permission there."
        ) from None


def _place(ledger: Path, dataset: str) -> Path:
    name = hashlib.sha256(dataset.encode()).hexdigest()[:12]
    return ledger.with_name(f"{ledger.name}.cut.{name}.json")


RECORDED_SECONDS = 1.0


class Saves(Protocol):
    """A model that can be written to a file."""

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""


class ProgressFile:
    """A party's `progress` that notes in a run's folder how far it is, now and then, and for whom it waits."""

    def __init__(self, folder: Path, *, run: Callable[[], str] = lambda: "") -> None:
        self._folder, self.run = folder, run
        self._waits: list[str] = []
        self._step, self._began, self._recorded = "", 0.0, 0.0

    def __call__(self, step: str, done: int, total: int) -> None:
        what, _, owner = step.partition(" of ")
        now = time.time()
        if what == STEP:
            self._waits = [name for name in self._waits if name != owner] + [owner] * (done < total)
            self._note(now, {})
            return
        if step != self._step:
            self._step, self._began, self._recorded = step, now, 0.0
        if now - self._recorded >= RECORDED_SECONDS or done >= total:
            self._note(now, {"step": step, "done": done, "total": total, "began": self._began})

    def _note(self, now: float, more: Mapping[str, Any]) -> None:
        self._recorded = now
        facts = {"waits": self._waits, "run": self.run(), "time": now, **more}
        # How far a run is, is never a reason to end it.
        with suppress(OSError):
            write_whole(self._folder / PROGRESS, json.dumps(facts) + "\n", own=True)


def own_file(folder: Path, party: str, name: str) -> Path:
    return folder / PARTIES / f"{party}.{name}"


def keep_parts(folder: Path, parts: Mapping[str, Saves]) -> None:
    for party, part in parts.items():
        make_folder(folder / PARTIES)
        part.save(own_file(folder, party, MODEL))


def keep_people(folder: Path, aligned: Mapping[str, AlignedTable], *, run: str) -> None:
    for party, table in aligned.items():
        make_folder(folder / PARTIES)
        people = TrainingMembership.of_table(table.table, SystemRandomness(), run=run)
        people.save(own_file(folder, party, PEOPLE))


@dataclass(frozen=True)
class NoModel:
    """Why a run that was paid for left no model."""

    kind: type[ColonnadeError]
    text: str

    @classmethod
    def of(cls, error: ColonnadeError) -> NoModel:
        return cls(type(error), str(error))


def outcome_note(learnt: Mapping[str, Any], failure: NoModel | None) -> dict[str, Any]:
    """What a member notes of what was learnt, which everybody may know; or why no model was."""
    note = {"model_facts": learnt}
    if failure is None:
        return note
    return {**note, "failure": failure.text, "kind": failure.kind.__name__}
