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
from colonnade.runs.folders import only_one
from colonnade.data.documents import without_passwords
from colonnade.errors import CannotWrite, ColonnadeError

LOG, LOCK = "board.jsonl", ".board.lock"
SHOWN = 200
_LONGEST = 2000


class Acts:
    """The log of one kit or folder, to which any number of boards append."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def note(self, person: Person | None, act: str, *, of: str = "", found: str = "done") -> None:
        """Append one line, on the disk when this returns."""
        line = {
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "by": "" if person is None else person.name,
            "role": "" if person is None else person.role,
            "act": act,
            "of": of[:_LONGEST],
            "found": found[:_LONGEST],
        }
        try:
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(opened, "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CannotWrite(
                f"{self.path} cannot be written ({error.strerror}), and what is done on the board is noted there. Make "
                "it writable for whoever runs the board."
            ) from None

    @contextmanager
    def failing(self, person: Person, act: str, *, of: str) -> Iterator[None]:
        """What stops an act within the block is noted and raised; what else comes of it, the block notes itself."""
        try:
            yield
        except ColonnadeError as error:
            self.note(person, act, of=of, found=without_passwords(str(error)))
            raise

    def last(self) -> list[dict[str, str]]:
        """What was done lately, the last first; a line that is damaged is left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - SHOWN * 4 * _LONGEST))
                lines = file.read().decode("utf-8", "replace").splitlines()[-SHOWN:]
        except OSError:
            return []
        acts = []
        for line in reversed(lines):
            try:
                act = json.loads(line)
                acts.append({name: str(act[name]) for name in ("time", "by", "role", "act", "of", "found")})
            except (ValueError, KeyError, TypeError):
                continue
        return acts


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether no other board has this kit or folder open, while the block lasts."""
    try:
        opened = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotWrite(
            f"{folder} cannot be written ({error.strerror}), and what is done on the board is noted there. Make it "
            "writable for whoever runs the board."
        ) from None
    with only_one(opened) as mine:
        yield mine
