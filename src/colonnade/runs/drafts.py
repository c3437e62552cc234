"""Folders that are written whole or not at all, and files that a person named."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from colonnade.errors import CannotWrite, InputError, NameInUse
from colonnade.federation.files import write_whole

RESERVE = "reserve"
FAILED = "failed.json"
BEGUN = "begun.json"
"""What a run notes of itself before it is charged (`colonnade.runs.recovery`)."""
# What a run keeps as soon as it is opened: drafts that hold it are never removed.
PAID = ("release.npz", "model.json", "paid.json", "parties/*.model.json", "models/*")
ATTEMPTS = 100
POLITE = (signal.SIGTERM, signal.SIGHUP)


class Folder:
    """A folder in the making: files go into `draft`, and `finish` gives it its name."""

    def __init__(self, name: Path, draft: Path) -> None:
        self.name = name
        self.draft = draft

    def reserve(self, size: int) -> None:
        """Set room aside on the disk, so that a full one is found before anything is charged."""
        path = self.draft / RESERVE
        try:
            with path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise CannotWrite(
                f"--output: {self.name} needs room for {size} bytes ({error.strerror}). Nothing was run or charged. "
                "Make room, or name a folder on another disk."
            ) from None

    def free_reserve(self) -> None:
        (self.draft / RESERVE).unlink(missing_ok=True)

    def clear(self) -> None:
        if not holds_paid(self.draft):
            _empty(self.draft)

    def finish(self) -> Path:
        """Give the folder its name; if something else took it meanwhile, the next free one."""
        self.free_reserve()
        (self.draft / BEGUN).unlink(missing_ok=True)
        self.name = free_name(self.name)
        self.draft.rename(self.name)
        return self.name


@contextmanager
def new_folder(name: Path, *, numbered: bool = False) -> Iterator[Folder]:
    """A folder in the making under a free name; a place that cannot be written to is found before any charge."""
    if not name.name or "\0" in str(name):
        raise InputError(
            f"--output: {str(name)!r} is not a valid name for a new folder. Nothing was run or charged. Name one, "
            "such as runs/first."
        )
    parents: list[Path] = []
    claimed: tuple[Path, Path, int] | None = None
    try:
        # Ctrl-C waits for the names of what was made, which is to be removed then.
        with uninterrupted():
            parents = _make_parents(name)
            claimed = _claim_first(name) if numbered else _claim(name)
        yield Folder(*claimed[:2])
    finally:
        if claimed is not None:
            _, draft, lock = claimed
            # A finished draft has another name by now. The lock goes last: until then nobody else may write here.
            if not holds_paid(draft):
                shutil.rmtree(draft, ignore_errors=True)
            os.close(lock)
        _remove_empty(parents)


def draft_of(name: Path) -> Path:
    return name.with_name(f".{name.name}.draft")


def name_of(draft: Path) -> Path:
    return draft.with_name(draft.name.removeprefix(".").removesuffix(".draft"))


def write_named(path: Path, text: str, *, option: str = "", own: bool = False) -> None:
    """Write a file that a person named, perhaps by an option, whole or not at all; a party's `own` is for it alone."""
    try:
        write_whole(path, text, own=own)
    except OSError as error:
        where = f"{option}: {path}" if option else str(path)
        raise CannotWrite(f"{where} cannot be written ({error.strerror}). Name another file.") from None


def holds_paid(folder: Path) -> bool:
    return any(next(folder.glob(name), None) is not None for name in PAID)


@contextmanager
def left_behind(draft: Path) -> Iterator[bool]:
    """Whether a draft holds what was paid for and nobody is writing it; nobody begins to until the block has ended."""
    if not holds_paid(draft):
        yield False
        return
    with only_one(os.open(draft, os.O_RDONLY | os.O_DIRECTORY)) as mine:
        yield mine


@contextmanager
def only_one(opened: int) -> Iterator[bool]:
    """Whether nobody else holds this file or folder, which stays locked for the block and is closed after it."""
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)


def being_written(draft: Path) -> bool:
    """Whether a run is writing this draft now, found without taking its lock, which a run could want meanwhile."""
    try:
        number = draft.stat().st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    return any("FLOCK" in line and f":{number} " in line for line in locks)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP, the end of a terminal, do here what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # A shell that starts a program in the background lets it ignore Ctrl-C.
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL, None):
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in POLITE}
    for number, handler in before.items():
        # Whoever started this with nohup wants it to go on.
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def free_name(name: Path) -> Path:
    path, number = name, 1
    while _exists(path):
        number += 1
        path = name.with_name(f"{name.name}-{number}")
    return path


@contextmanager
def uninterrupted() -> Iterator[Callable[[], bool]]:
    """Ctrl-C waits until the block ends; a block that asks whether it was pressed has answered it."""
    requested: list[int] = []

    def answered() -> bool:
        pressed = bool(requested)
        requested.clear()
        return pressed

    if threading.current_thread() is not threading.main_thread():
        yield answered
        return

    def remember(number: int, _frame: FrameType | None) -> None:
        requested.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield answered
    finally:
        signal.signal(signal.SIGINT, before)
    if requested:
        raise KeyboardInterrupt


def _claim_first(name: Path) -> tuple[Path, Path, int]:
    number = 1
    while True:
        with suppress(NameInUse):
            return _claim(name if number == 1 else name.with_name(f"{name.name}-{number}"))
        number += 1


def _claim(name: Path) -> tuple[Path, Path, int]:
    """Name, draft and lock: two runs for one folder meet at its draft; the kernel drops a killed run's lock."""
    draft = draft_of(name)
    for last in (*[False] * (ATTEMPTS - 1), True):
        if _exists(name):
            raise NameInUse(
                f"--output: {name} exists already, and a run never overwrites another. Name another folder."
            )
        try:
            with suppress(FileExistsError):
                draft.mkdir(mode=0o700)
            lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            # Between the two lines above the draft's own run may have ended; elsewhere a missing file is final.
            if isinstance(error, FileNotFoundError) and not last:
                continue
            raise _unwritable(name, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise NameInUse(
                f"--output: another run is writing {name} now. Nothing was run or charged here. Name another folder."
            ) from None
        if _same(draft, lock) and not _exists(name):
            if holds_paid(draft):
                state, rest = "stopped after its release was paid for, and left it", "finishes it"
            elif (draft / BEGUN).is_file():
                state, rest = "killed when it was being charged", "puts its record there"
            else:
                _empty(draft)
                return name, draft, lock
            os.close(lock)
            raise NameInUse(
                f"--output: a run that was to be {name} was {state}. `colonnade recover {name}` {rest}. Name another "
                "folder for this run."
            )
        os.close(lock)
    raise NameInUse(
        f"--output: other runs keep taking {name}. Nothing was run or charged here. Name another folder."
    )


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _same(path: Path, opened: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _make_parents(name: Path) -> list[Path]:
    missing = [parent for parent in name.parents if not parent.exists()]
    parents: list[Path] = []
    try:
        for parent in reversed(missing):
            with suppress(FileExistsError):
                parent.mkdir()
                parents.insert(0, parent)
        if not name.parent.is_dir():
            raise NotADirectoryError(20, "Not a directory")
    except OSError as error:
        _remove_empty(parents)
        raise _unwritable(name, error) from None
    return parents


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
