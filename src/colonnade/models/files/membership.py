"""Whom a party trained on, as it remembers them itself: keyed digests of ids, in files for nobody else.

A guarantee was given for these people, and an exact score of one of them, by whatever model, would show more. So beside
a ledger lies a list for each data set, which every training adds to, and the folder of a run has one of its own. A list
says by which column and which rules its ids were read; people to score that are read by others are refused. Eight bytes
of a keyed digest take a stranger for one of n people with probability n/2⁶⁴.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.pseudonyms import keyed_digests
from colonnade.data.declaring import Spelling
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import ModelDamaged, TrainedOn
from colonnade.federation.files import check_version, whole_file
from colonnade.models.files.document import DAMAGE
from colonnade.randomness import Randomness, SystemRandomness

KEY_BYTES = 32
FORMAT = 2
NOISY = "give an ε (--epsilon): scores then carry noise and are charged"


@dataclass(frozen=True)
class IdRules:
    """By which column and which spelling people are told apart."""

    column: str
    spelling: Spelling

    @classmethod
    def of(cls, schema: Schema) -> IdRules:
        return cls(schema.id_name, schema.id_spelling)

    def __str__(self) -> str:
        rules, trim = self.spelling, str(self.spelling.trim).lower()
        return (
            f'column {self.column!r} with trim = {trim}, case = "{rules.case}", unicode = "{rules.unicode}"'
        )


@dataclass(frozen=True, eq=False)
class TrainingMembership:
    """A set of ids that can be asked, and not read."""

    key: bytes = field(repr=False)
    digests: NDArray[np.uint64] = field(repr=False)
    rules: IdRules
    dataset: str = ""
    runs: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, ids: Iterable[str], rules: IdRules, randomness: Randomness, *, dataset: str = "", run: str = ""
    ) -> TrainingMembership:
        empty = cls(randomness.bytes(KEY_BYTES), np.zeros(0, dtype=np.uint64), rules, dataset)
        return empty.joined_by(ids, run=run)

    @classmethod
    def of_table(cls, table: Table, randomness: Randomness, *, run: str = "") -> TrainingMembership:
        return cls.of(table.ids(), IdRules.of(table.schema), randomness, run=run)

    def joined_by(self, ids: Iterable[str], *, run: str = "") -> TrainingMembership:
        more = keyed_digests(self.key, ids)
        runs = dict.fromkeys((*self.runs, run) if run else self.runs)
        return replace(self, digests=np.union1d(self.digests, more), runs=tuple(runs))

    def __contains__(self, person: object) -> bool:
        (digest,) = keyed_digests(self.key, (str(person),))
        place = int(np.searchsorted(self.digests, digest))
        return place < len(self.digests) and bool(self.digests[place] == digest)

    def __len__(self) -> int:
        return len(self.digests)

    def check_rules(self, party: str, schema: Schema) -> None:
        """Refuse to tell strangers from people on the list where ids are not read as they were in training."""
        requested = IdRules.of(schema)
        if self.rules != requested:
            raise TrainedOn(
                f"{party}: people were trained on under ids of {self.rules}; those to score are named by {requested}, "
                "so nobody can tell who of them was trained on, and exact scores would show more of those than was "
                f"promised. Name them as in training, or {NOISY}."
            )

    def save(self, path: Path) -> None:
        about = {
            "format": FORMAT,
            "column": self.rules.column,
            "rules": self.rules.spelling.to_data(),
            "dataset": self.dataset,
            "runs": list(self.runs),
        }
        with whole_file(path, own=True) as file:
            np.savez(
                file,
                allow_pickle=False,
                key=np.frombuffer(self.key, dtype=np.uint8),
                digests=self.digests,
                about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
            )

    @classmethod
    def load(cls, path: Path) -> TrainingMembership:
        damaged = ModelDamaged(f"{path} does not hold the people that a model was trained on.")
        try:
            with np.load(path, allow_pickle=False) as archive:
                key, digests = archive["key"].tobytes(), archive["digests"]
                # Those of 0.1 say nothing of themselves.
                about: Any = json.loads(archive["about"].tobytes()) if "about" in archive else {"format": 1}
            if len(key) != KEY_BYTES or digests.dtype != np.uint64 or digests.ndim != 1:
                raise damaged
            check_version(about["format"], path, current=FORMAT)
            rules = IdRules(about["column"], Spelling(**about["rules"]))
            return cls(key, digests, rules, str(about["dataset"]), tuple(map(str, about["runs"])))
        except DAMAGE:
            raise damaged from None


@dataclass(frozen=True)
class Lists:
    """Several lists of one party: somebody is on them who is on any."""

    lists: Sequence[TrainingMembership]

    def __contains__(self, person: object) -> bool:
        return any(person in people for people in self.lists)


def remember(ledger: Path, dataset: str, table: Table, *, run: str) -> None:
    """Add the people of a table to the list of a data set, which lies beside the ledger that paid for the run."""
    rules = IdRules.of(table.schema)
    named = json.dumps([dataset, rules.column, rules.spelling.to_data()], sort_keys=True)
    name = hashlib.sha256(named.encode()).hexdigest()[:12]
    path = ledger.with_name(f"{ledger.name}.people.{name}.npz")
    with _alone(ledger.with_name(f"{ledger.name}.people.lock")):
        if path.exists():
            people = TrainingMembership.load(path).joined_by(table.ids(), run=run)
        else:
            people = TrainingMembership.of(table.ids(), rules, SystemRandomness(), dataset=dataset, run=run)
        people.save(path)


def remembered(
    ledger: Path | None, dataset: str, rules: IdRules | None = None
) -> tuple[TrainingMembership, ...]:
    """The lists of a data set beside a ledger; with `rules` those of other data sets whose people were named so."""
    if ledger is None:
        return ()
    files = sorted(ledger.parent.glob(f"{glob.escape(ledger.name)}.people.*.npz"))
    lists = map(TrainingMembership.load, files)
    return tuple(people for people in lists if people.dataset == dataset or (rules and people.rules == rules))


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
