"""Files that are written whole or not at all, each with the rights that its contents call for.

A file of a party's own, such as its part of a model, is for its owner alone; one that a run shares may be read as the
umask lets it. A stricter umask makes either stricter, and nothing makes them wider.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

OWN, SHARED, FOLDER = 0o600, 0o644, 0o700


@contextmanager
def whole_file(path: Path, *, own: bool = False) -> Iterator[BinaryIO]:
    """A file to write into, which takes its name, on the disk, once the block has ended without an error."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        # What a killed process of this number left would keep its own rights.
        draft.unlink(missing_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN if own else SHARED)
        with os.fdopen(opened, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        # A person knows the file by its name, and not by that of a draft or by none.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, contents: str | bytes, *, own: bool = False) -> None:
    """Write a file in one step; a text as UTF-8."""
    with whole_file(path, own=own) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


def make_folder(path: Path) -> None:
    """Make a folder that its owner alone may look into, and those above it; one that is there stays as it is."""
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)


def open_own(path: Path) -> TextIO:
    """A file of a party's own that grows line by line, open for further ones."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWN), "a", encoding="utf-8")
