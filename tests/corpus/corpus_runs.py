"""Good files that cases spoil, a case run through the real verbs, and the laws that every end must keep."""

from __future__ import annotations

import contextlib
import ctypes
import fnmatch
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cli_project import Said, invoked, write_project
from corpus_cases import Case, Changes

COLONNADE = (sys.executable, "-c", "from colonnade.cli import main; main()")
PATIENCE = 120.0
# Dropped from a superuser's process, so that rights of files mean to it what they mean to others.
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
HALF_WRITTEN = (
    *("*.draft", "*.draft/*", "*.tmp", "*.new", "*.new-journal", "*-journal"),
    *("*.part", "reserve", "*/reserve"),
)
POLICY = 'methods = ["moments"]\nparties = ["insurer"]\ndelta = 1e-5\n\n[epsilon]\n"*" = 2.0\n'


class Stages:
    """Folders of good files by name, each made by verbs when the first case asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def copy(self, name: str, to: Path) -> None:
        made = self._folder / name
        if not made.exists():
            made.mkdir()
            STAGES[name](made)
        shutil.copytree(made, to, dirs_exist_ok=True, symlinks=True)


def project(folder: Path) -> None:
    write_project(folder)
    people = [
        f"N{i},{20 + 3 * i},{('clerk', 'farmer', 'nurse')[i % 3]},{i % 10},{('no', 'yes')[i % 2]}"
        for i in range(20)
    ]
    (folder / "policy.toml").write_text(POLICY)
    (folder / "new.csv").write_text("\n".join(["customer,age,job,claims,smoker", *people]) + "\n")


def public(folder: Path) -> None:
    """The same, all of it declared public."""
    project(folder)
    for party in ("bank", "insurer"):
        path = folder / f"{party}.toml"
        path.write_text(path.read_text().replace("patience", "public = true\npatience"))


def trained(folder: Path) -> None:
    """The same after a run, with ledgers that hold its charge and each other's receipts, and an export of one."""
    project(folder)
    _well(folder, "train job.toml --output out")
    _well(folder, "ledger bank.toml --export bank.json --key officer.key")


def split(folder: Path) -> None:
    """The same after a run whose model stays in parts with the parties."""
    project(folder)
    path = folder / "job.toml"
    path.write_text(path.read_text().replace('"moments"', '"private-messages"'))
    _well(folder, "train job.toml --output out")


def federation(folder: Path) -> None:
    """A federation with all kits in one place, beside a job and two parties' files."""
    project(folder)
    _well(folder, "federation new ours --party bank --party insurer --port 18002")


STAGES: dict[str, Callable[[Path], None]] = {
    stage.__name__: stage for stage in (project, public, trained, split, federation)
}


def _well(folder: Path, line: str) -> None:
    with contextlib.chdir(folder):
        said = invoked(line.split())
    if said.code != 0:
        raise ValueError(f"{line}: {said.all}")


def run_case(case: Case, folder: Path) -> tuple[Said, list[str]]:
    """Spoil the copy of a stage, run the verb in it, and say how it ended and which laws that breaks."""
    with _in(folder, case.env):
        for verb, *given in case.changes:
            getattr(Changes(folder), verb)(*given)
        before = Disk.of(folder)
        ending = _as_process(case, folder) if case.process else invoked(case.run)
    return ending, [*_said(case, ending), *before.broken(Disk.of(folder), case)]


@dataclass(frozen=True)
class Disk:
    files: frozenset[str]
    ledgers: dict[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Disk:
        found = list(folder.rglob("*"))
        ledgers = [path for path in found if path.is_file() and _is_ledger(path)]
        names = frozenset(path.relative_to(folder).as_posix() for path in found)
        return cls(names, {path.name: _charges(path) for path in ledgers})

    def broken(self, after: Disk, case: Case) -> Iterator[str]:
        """What a verb that dealt nothing may not have changed."""
        new = {name for name in after.files - self.files if not _matches(name, case.leaves)}
        if half := sorted(name for name in new if _matches(name, HALF_WRITTEN)):
            yield f"half-written: {half}"
        # A refused run may have opened its ledgers, however the files name them: they hold budgets and no charge.
        opened = tuple(name for name, charges in after.ledgers.items() if charges == 0)
        if left := sorted(
            name for name in new if not (".ledger" in name or Path(name).name.startswith(opened))
        ):
            yield f"left behind: {left}"
        if gone := sorted(name for name in self.files - after.files if not name.endswith(("-wal", "-shm"))):
            yield f"gone: {gone}"
        for name, held in after.ledgers.items():
            if held != self.ledgers.get(name, 0) and not _matches(name, case.leaves):
                yield f"charged: {name} held {self.ledgers.get(name, 0)} and holds {held}"


def _is_ledger(path: Path) -> bool:
    return path.name.endswith(".ledger") or path.read_bytes()[:6] == b"SQLite"


def _charges(path: Path) -> Any:
    """How many charges a ledger holds; of what is not a ledger, the bytes."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return None
    try:
        return connection.execute(
            """SELECT count(*) FROM entries WHERE body LIKE '%"kind":"charge"%'"""
        ).fetchone()[0]
    except sqlite3.Error:
        return path.read_bytes() if os.access(path, os.R_OK) else None
    finally:
        connection.close()


def _said(case: Case, ending: Said) -> Iterator[str]:
    if ending.code != case.code:
        yield f"exit code {ending.code}, not {case.code}"
    for bad in ("Traceback (most recent", "an internal error", *case.never):
        if bad in ending.all:
            yield f"says {bad!r}"
    for piece in case.says:
        if piece not in ending.all:
            yield f"does not say {piece!r}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


@contextlib.contextmanager
def _in(folder: Path, env: dict[str, str]) -> Iterator[None]:
    known = dict(os.environ)
    os.environ.update({name: value.replace("{here}", str(folder)) for name, value in env.items()})
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(known)


def _as_process(case: Case, folder: Path) -> Said:
    stdout, send = case.settings.get("stdout"), case.settings.get("send")
    if unknown := case.settings.keys() - {"stdout", "send", "umask", "largest_file", "rights", "open_files"}:
        raise ValueError(f"{case}: no such settings: {', '.join(unknown)}")
    out = os.open("/dev/full", os.O_WRONLY) if stdout == "full" else subprocess.PIPE
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    before = partial(_prepare, case.settings)
    process = subprocess.Popen(
        [*COLONNADE, *case.run], cwd=folder, stdout=out, stderr=subprocess.PIPE, env=env, preexec_fn=before
    )
    try:
        if stdout == "gone" and process.stdout is not None:
            process.stdout.close()
            process.stdout = None
        if send is not None:
            _signal(process, folder, **send)
        announced = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
        if out != subprocess.PIPE:
            os.close(out)
    said = [(text or b"").decode("utf-8", errors="replace") for text in announced]
    return Said(process.returncode, *said)


def _prepare(settings: dict[str, Any]) -> None:
    if settings.get("stdout") == "closed":
        os.close(1)
    if "umask" in settings:
        os.umask(int(settings["umask"], 8))
    # Python ignores the signal of a file that is too large, so that writing fails as on a full disk.
    for name, limit in (("largest_file", resource.RLIMIT_FSIZE), ("open_files", resource.RLIMIT_NOFILE)):
        if name in settings:
            resource.setrlimit(limit, (settings[name], settings[name]))
    if settings.get("rights") and os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def _signal(
    process: subprocess.Popen[bytes], folder: Path, name: str, once: str, after: float = 0.0, times: int = 1
) -> None:
    """Send a signal so many seconds after a file is there, or a ledger holds a charge ("charged")."""

    def there() -> bool:
        if once == "charged":
            return any(_charges(path) for path in folder.glob("*.ledger"))
        return any(folder.glob(once))

    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline and not there():
        time.sleep(0.005)
    time.sleep(after)
    for _ in range(times):
        if process.poll() is None:
            process.send_signal(signal.Signals[name])
