"""One party's record of a long run, so that it can go on after a crash: what was sent is sent again, byte for byte.

The folder holds ``run.json`` (the run's name, its plan and the key that all of this party's coins for it come from),
``order.json`` (the party's ids in the order of the run) and one journal for each epoch. Whatever is about to leave is
in the journal before it leaves. A batch that was drawn is therefore never drawn again, and the ledger's charge, which
names the run, is found and not repeated. The folder is as private as the party's data; the key and the journals are
deleted when the run ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from colonnade.errors import DataError, InputError
from colonnade.randomness import KeyedRandomness, Randomness

Kind = Literal["words", "gradient", "update"]
_KINDS: tuple[Kind, ...] = ("words", "gradient", "update")
_HEAD = struct.Struct("<BII8s")


@dataclass(frozen=True, repr=False)
class RunCoins:
    """All coins of one party in one run, each purpose with a stream of its own: the same key repeats them.

    >>> coins = RunCoins(bytes(32))
    >>> coins.stream("counts 1").bytes(4) == coins.stream("counts 1").bytes(4) != coins.stream("counts 2").bytes(4)
    True
    """

    key: bytes

    def stream(self, purpose: str) -> Randomness:
        """The stream of a purpose, from its beginning."""
        return KeyedRandomness(
            hashlib.sha256(b"colonnade run coins 1" + self.key + purpose.encode()).digest()
        )


@dataclass(frozen=True, repr=False)
class Begun:
    """What a run is called and rests on, as its record has it."""

    run: str
    plan: str
    key: bytes
    reproducible: bool


@dataclass(eq=False, repr=False)
class RunLog:
    """The record of one party in one folder.

    >>> import tempfile
    >>> log = RunLog(Path(tempfile.mkdtemp()) / "bank")
    >>> log.begin(Begun("run-1", "5f0c", bytes(32), False), ["ann", "bob"])
    >>> log.keep(0, 3, kind="words", content=b"abc")
    >>> again = RunLog(log.folder)
    >>> again.begun.run, again.kept(0, 3, kind="words"), again.kept(0, 4, kind="words")
    ('run-1', b'abc', None)
    """

    folder: Path
    _journals: dict[int, dict[tuple[Kind, int], bytes]] = field(default_factory=dict)

    @property
    def begun(self) -> Begun | None:
        """What the record says was begun; None in an empty folder."""
        path = self.folder / "run.json"
        if not path.exists():
            return None
        try:
            data = json.loads(path.read_text())
            if data["finished"]:
                raise InputError(
                    f"{self.folder} holds a finished run. Give a new run an empty folder; the old one can go."
                )
            return Begun(data["run"], data["plan"], bytes.fromhex(data["key"]), data["reproducible"])
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"{path} is not a record of a run. Restore it, or begin a new run in an empty folder, at its own cost."
            ) from None

    def begin(self, begun: Begun, ids: list[str]) -> None:
        """Write down a run before anything of it is charged or sent."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write("order.json", json.dumps(ids))
        fields = {"run": begun.run, "plan": begun.plan, "key": begun.key.hex()}
        self._write("run.json", json.dumps({**fields, "reproducible": begun.reproducible, "finished": False}))

    def order(self) -> list[str]:
        """The party's ids in the order of the run."""
        ids: list[str] = json.loads((self.folder / "order.json").read_text())
        return ids

    def keep(self, epoch: int, step: int, *, kind: Kind, content: bytes) -> None:
        """Write down what is about to leave; it is on the disk when this returns."""
        head = _HEAD.pack(_KINDS.index(kind), step, len(content), hashlib.sha256(content).digest()[:8])
        with _private(self._path(epoch), append=True) as file:
            file.write(head + content)
            file.flush()
            os.fsync(file.fileno())
        self._journal(epoch)[kind, step] = content

    def kept(self, epoch: int, step: int, *, kind: Kind) -> bytes | None:
        """What was written down for a step; None if nothing was."""
        return self._journal(epoch).get((kind, step))

    def forget_before(self, epoch: int) -> None:
        """Delete journals of epochs that nobody can come back to."""
        for path in self.folder.glob("epoch-*.journal"):
            if int(path.stem.split("-")[1]) < epoch:
                path.unlink()

    def finish(self) -> None:
        """Delete the key and the journals: the run is over, and nothing of it is sent again."""
        data = json.loads((self.folder / "run.json").read_text())
        self._write("run.json", json.dumps({**data, "key": "", "finished": True}))
        for path in (*self.folder.glob("epoch-*.journal"), self.folder / "order.json"):
            path.unlink(missing_ok=True)

    def _journal(self, epoch: int) -> dict[tuple[Kind, int], bytes]:
        if epoch not in self._journals:
            path = self._path(epoch)
            content = path.read_bytes() if path.exists() else b""
            whole = 0
            entries: dict[tuple[Kind, int], bytes] = {}
            for kind, step, kept, end in _records(content):
                entries[kind, step] = kept
                whole = end
            if whole < len(content):
                # The process died while writing: what was not written whole was not sent.
                with path.open("r+b") as file:
                    file.truncate(whole)
            self._journals[epoch] = entries
        return self._journals[epoch]

    def _path(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch:05d}.journal"

    def _write(self, name: str, text: str) -> None:
        unfinished = self.folder / f"{name}.unfinished"
        with _private(unfinished, append=False) as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.folder / name)


@contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """A folder of records for this process alone; nothing without a folder.

    Two processes that went on from one record would draw the same coins for messages that differ, and the difference
    of the two would show what the noise was to hide.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise InputError(
            f"{folder}: another run writes its record here now. Stop it first, or name another folder."
        ) from None
    try:
        yield
    finally:
        os.close(opened)


def _private(path: Path, *, append: bool) -> BinaryIO:
    """A file to write that only its owner may read."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    return os.fdopen(os.open(path, flags, 0o600), "ab" if append else "wb")


def _records(content: bytes) -> Iterator[tuple[Kind, int, bytes, int]]:
    at = 0
    while at + _HEAD.size <= len(content):
        number, step, length, check = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + length
        kept = content[at + _HEAD.size : end]
        if number >= len(_KINDS) or end > len(content) or hashlib.sha256(kept).digest()[:8] != check:
            return
        yield _KINDS[number], step, kept, end
        at = end
