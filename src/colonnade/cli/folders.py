"""Folders that are written whole or not at all, and never over another."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from colonnade.errors import InputError


class Folder:
    """A folder in the making: files go into `draft`, and `finish` gives it its name."""

    def __init__(self, name: Path, draft: Path) -> None:
        self.name = name
        self.draft = draft

    def finish(self) -> Path:
        """Give the folder its name; if another run took it meanwhile, the next free one."""
        self.draft.chmod(0o755)
        self.name = free_name(self.name)
        self.draft.rename(self.name)
        return self.name


@contextmanager
def new_folder(name: Path) -> Iterator[Folder]:
    """A folder in the making under a name that is free; whatever is not finished is removed.

    A place that cannot be written to is found here, before anything is charged for what would go there.
    """
    if name.exists() or name.is_symlink():
        raise InputError(
            f"--output: {name} exists already, and a run never overwrites another. Name another folder."
        )
    made = _make_parents(name)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{name.name}.", dir=name.parent))
    except OSError as error:
        _remove_empty(made)
        raise _unwritable(name, error) from None
    try:
        yield Folder(name, draft)
    finally:
        # A finished draft has another name by now.
        shutil.rmtree(draft, ignore_errors=True)
        _remove_empty(made)


def free_name(name: Path) -> Path:
    """The name itself, or with the first number that makes it free.

    >>> free_name(Path("no such folder"))
    PosixPath('no such folder')
    """
    found, number = name, 1
    while found.exists() or found.is_symlink():
        number += 1
        found = name.with_name(f"{name.name}-{number}")
    return found


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: what was paid for gets written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def _make_parents(name: Path) -> list[Path]:
    """Make the folders above, and say which were made, the deepest first."""
    missing = [parent for parent in name.parents if not parent.exists()]
    made: list[Path] = []
    try:
        for parent in reversed(missing):
            parent.mkdir()
            made.insert(0, parent)
    except OSError as error:
        _remove_empty(made)
        raise _unwritable(name, error) from None
    return made


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def _unwritable(name: Path, error: OSError) -> InputError:
    return InputError(
        f"--output: {name} cannot be made ({error.strerror}). Nothing was run or charged. Name a folder that you "
        "can write to."
    )
