"""Bad input kept as data: what each case changes in a stage of good files, which verb it runs, and what must be said.

A case is a table in one of the files under `cases`; docs/contributing/add-a-bad-input.md says how to write one.
"""

import gzip
import json
import os
import shlex
import sqlite3
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

CASES = Path(__file__).parent / "cases"
GROUPS = ("files", "options", "environments", "tampering", "signals")


@dataclass(frozen=True)
class Case:
    """One way of getting it wrong.

    `changes` are done to a copy of the stage, in order; `run` is the command line. `says` must all be in what is
    printed, `never` must not. `code` is the exit code. `leaves` are patterns of files that may be new afterwards.
    `process` runs it as a process of its own, with the settings of `Surroundings`; `slow` ones are much like another.
    """

    group: str
    name: str
    run: tuple[str, ...]
    code: int
    says: tuple[str, ...]
    stage: str = "project"
    changes: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    never: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    process: bool = False
    slow: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def load_cases() -> tuple[Case, ...]:
    """Every case, in the order of the files."""
    return tuple(case for path in sorted(CASES.glob("*.toml")) for case in _cases_in(path))


def _cases_in(path: Path) -> Iterator[Case]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    group, shared = data["group"], data.get("shared", {})
    for table in data["case"]:
        known = {**shared, **table}
        yield Case(
            group=group,
            name=known.pop("name"),
            run=tuple(shlex.split(known.pop("run")))
            if isinstance(known["run"], str)
            else tuple(known.pop("run")),
            code=known.pop("code"),
            says=tuple(known.pop("says")),
            stage=known.pop("stage", "project"),
            changes=tuple(_change(item) for item in known.pop("changes", ())),
            never=tuple(known.pop("never", ())),
            leaves=tuple(known.pop("leaves", ())),
            env=known.pop("env", {}),
            process=known.pop("process", False),
            slow=known.pop("slow", False),
            settings=known,
        )


def _change(item: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    verb, *given = item
    if verb not in CHANGES:
        raise ValueError(f"no such change: {verb!r}; there are {', '.join(CHANGES)}")
    return verb, tuple(given)


def apply(changes: Sequence[tuple[str, tuple[Any, ...]]], folder: Path) -> None:
    """Do a case's changes to a copy of its stage."""
    for verb, given in changes:
        CHANGES[verb](folder, *given)


def replace(folder: Path, name: str, old: str, new: str) -> None:
    """Put another text in the place of one that must be there."""
    text = (folder / name).read_text(encoding="utf-8")
    if old not in text:
        raise ValueError(f"{old!r} is not in {name}")
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")


def everywhere(folder: Path, name: str, old: str, new: str) -> None:
    """Put another text in every place of one."""
    path = folder / name
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def write(folder: Path, name: str, text: str, times: int = 1) -> None:
    """Write a text, so many times, into a file and nothing else."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text * times, encoding="utf-8")


def add(folder: Path, name: str, text: str, times: int = 1) -> None:
    """Add a text, so many times, to the end of a file."""
    path = folder / name
    path.write_text(path.read_text(encoding="utf-8") + text * times, encoding="utf-8")


def octets(folder: Path, name: str, digits: str) -> None:
    """Write bytes, given as hexadecimal digits."""
    (folder / name).write_bytes(bytes.fromhex(digits))


def row(folder: Path, name: str, number: int, line: str) -> None:
    """Put another line in the place of one; 0 is the header."""
    lines = (folder / name).read_text(encoding="utf-8").split("\n")
    lines[number] = line
    (folder / name).write_text("\n".join(lines), encoding="utf-8")


def column(folder: Path, name: str, number: int, value: str) -> None:
    """Give every row the same value in one column of a CSV file; # is the number of the row."""
    lines = [line.split(",") for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    for place, cells in enumerate(lines[1:], 1):
        cells[number] = value.replace("#", str(place))
    (folder / name).write_text("\n".join(map(",".join, lines)) + "\n", encoding="utf-8")


def head(folder: Path, name: str, lines: int) -> None:
    """Keep the first lines only."""
    kept = (folder / name).read_text(encoding="utf-8").split("\n")[:lines]
    (folder / name).write_text("\n".join(kept) + "\n", encoding="utf-8")


def encode(folder: Path, name: str, encoding: str) -> None:
    """Write a text in another encoding."""
    path = folder / name
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))


def cut(folder: Path, name: str, size: int) -> None:
    """Keep so many bytes of a file; a negative number is counted from its end."""
    path = folder / name
    path.write_bytes(path.read_bytes()[:size])


def flip(folder: Path, name: str, place: int) -> None:
    """Flip the lowest bit of one byte."""
    found = bytearray((folder / name).read_bytes())
    found[place] ^= 1
    (folder / name).write_bytes(bytes(found))


def splice(folder: Path, name: str, place: int, text: str, over: int = 0) -> None:
    """Put a text at a place of a file, over so many letters; of a file that is not there, nothing."""
    path = folder / name
    if path.is_file() and not path.is_symlink():
        found = path.read_bytes()
        place = min(place, len(found))
        path.write_bytes(found[:place] + text.encode("utf-8", "surrogatepass") + found[place + over :])


def pack(folder: Path, name: str, packed: str) -> None:
    """Compress a file by gzip, under another name."""
    (folder / packed).write_bytes(gzip.compress((folder / name).read_bytes()))


def rezip(folder: Path, name: str, member: str, digits: str) -> None:
    """Give one member of a zip file other bytes, as hexadecimal digits; none takes it out."""
    path = folder / name
    with zipfile.ZipFile(path) as old:
        members = {item: old.read(item) for item in old.namelist()}
    members.pop(member, None)
    if digits:
        members[member] = bytes.fromhex(digits)
    with zipfile.ZipFile(path, "w") as new:
        for item, contents in members.items():
            new.writestr(item, contents)


def tell(folder: Path, name: str, where: str, value: Any = None, *, gone: bool = False) -> None:
    """Put another value at a dotted place of a JSON file; "null" there is nothing."""
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    place: Any = data
    *path, last = where.split(".")
    for key in path:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if gone:
        del place[int(last) if isinstance(place, list) else last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    (folder / name).write_text(json.dumps(data), encoding="utf-8")


def untell(folder: Path, name: str, where: str) -> None:
    """Take a key out of a JSON file."""
    tell(folder, name, where, gone=True)


def sqlite(folder: Path, name: str, statement: str) -> None:
    """Run statements in an SQLite file, such as a ledger, behind everybody's back."""
    connection = sqlite3.connect(folder / name)
    connection.executescript(statement)
    connection.commit()
    connection.close()


def forge(folder: Path, name: str, statement: str) -> None:
    """Run statements in a ledger without its guards, and put these back, as somebody would who hides a change."""
    connection = sqlite3.connect(folder / name)
    guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for guard, _ in guards:
        connection.execute(f"DROP TRIGGER {guard}")
    connection.executescript(statement)
    for _, text in guards:
        connection.execute(text)
    connection.commit()
    connection.close()


def duck(folder: Path, statement: str, database: str = ":memory:") -> None:
    """Run statements in DuckDB; {folder} is where the files lie."""
    with duckdb.connect(database if database == ":memory:" else str(folder / database)) as connection:
        connection.execute(statement.replace("{folder}", str(folder)))


def remove(folder: Path, name: str) -> None:
    """Take a file away."""
    (folder / name).unlink()


def make(folder: Path, name: str) -> None:
    """Make a folder, and those above it."""
    (folder / name).mkdir(parents=True)


def move(folder: Path, name: str, to: str) -> None:
    """Give a file another name."""
    (folder / name).rename(folder / to)


def copy(folder: Path, name: str, to: str) -> None:
    """Copy a file."""
    (folder / to).write_bytes((folder / name).read_bytes())


def link(folder: Path, name: str, to: str) -> None:
    """Make a symbolic link."""
    (folder / name).symlink_to(to)


def pipe(folder: Path, name: str) -> None:
    """Make a named pipe that nobody writes to."""
    os.mkfifo(folder / name)


def rights(folder: Path, name: str, mode: str) -> None:
    """Give a file or folder other rights, in octal digits."""
    (folder / name).chmod(int(mode, 8))


def then(folder: Path, line: str) -> None:
    """Run a good command line first."""
    from colonnade.cli.app import run

    if run(shlex.split(line)) != 0:
        raise ValueError(f"{line} was to end well")


CHANGES: dict[str, Callable[..., None]] = {
    act.__name__: act
    for act in (
        replace,
        everywhere,
        write,
        add,
        octets,
        row,
        column,
        head,
        encode,
        cut,
        flip,
        splice,
        pack,
        rezip,
        tell,
        untell,
        sqlite,
        forge,
        duck,
        remove,
        make,
        move,
        copy,
        link,
        pipe,
        rights,
        then,
    )
}
