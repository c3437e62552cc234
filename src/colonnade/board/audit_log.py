"""The log of what was done on a board and by whom: one line of JSON each, for the organisation's own eyes."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.board.access import Person
from colonnade.data.documents import without_passwords
from colonnade.errors import CannotWrite, ColonnadeError
from colonnade.runs.folders import only_one

LOG, LOCK = "board.jsonl", ".board.lock"
SHOWN = 200
_LONGEST = 2000
_FIELDS = ("time", "by", "role", "act", "of", "found")


class AuditLog:
    """The log of one kit or folder, to which any number of boards append."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def write(self, person: Person | None, action: str, *, of: str = "", found: str = "done") -> None:
        """Append one line, on the disk when this returns."""
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        name, role = ("", "") if person is None else (person.name, person.role)
        values = (time, name, role, action, of[:_LONGEST], found[:_LONGEST])
        line = json.dumps(dict(zip(_FIELDS, values, strict=True)), ensure_ascii=False)
        try:
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(opened, "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(line.encode("utf-8", "replace") + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from None

    @contextmanager
    def failures(self, person: Person, action: str, *, of: str) -> Iterator[None]:
        """Log what stops an action within the block, and raise it; what else comes of it, the block logs itself."""
        try:
            yield
        except ColonnadeError as error:
            self.write(person, action, of=of, found=without_passwords(str(error)))
            raise

    def latest(self) -> list[dict[str, str]]:
        """What was done lately, the last first; a line that is damaged is left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - SHOWN * 4 * _LONGEST))
                lines = file.read().decode("utf-8", "replace").splitlines()[-SHOWN:]
        except OSError:
            return []
        entries = []
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                entries.append({name: str(entry[name]) for name in _FIELDS})
            except (ValueError, KeyError, TypeError):
                continue
        return entries


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether no other board has this kit or folder open, while the block lasts."""
    try:
        opened = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unwritable(folder, error) from None
    with only_one(opened) as mine:
        yield mine


def _unwritable(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"{path} cannot be written ({error.strerror}), and what is done on the board is noted there. Make it writable "
        "for whoever runs the board."
    )
