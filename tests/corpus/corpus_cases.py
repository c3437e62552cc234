"""Bad input kept as data: what each case changes in a stage of good files, which verb it runs, and what must be said.

A case is a table in one of the files under `cases`; docs/contributing/add-a-bad-input.md says how to write one.
"""

import gzip
import json
import os
import shlex
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import duckdb

from colonnade.cli.app import run
from colonnade.federation.files import sealed_text

CASES = Path(__file__).parent / "cases"
GROUPS = ("files", "options", "environments", "tampering", "signals")


@dataclass(frozen=True)
class Case:
    """One way of getting it wrong.

    `changes` are done to a copy of the stage, in order; `run` is the command line. `says` must all be in what is
    printed, `never` must not. `code` is the exit code. `leaves` are patterns of files that may be new afterwards.
    `process` runs it as a process of its own, with these `settings`; `slow` ones are much like another.
    """

    group: str
    name: str
    run: tuple[str, ...]
    code: int
    says: tuple[str, ...]
    stage: str = "project"
    changes: tuple[tuple[Any, ...], ...] = ()
    never: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    process: bool = False
    slow: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def load_cases() -> tuple[Case, ...]:
    return tuple(case for path in sorted(CASES.glob("*.toml")) for case in _cases_in(path))


def _cases_in(path: Path) -> Iterator[Case]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    names = {item.name for item in fields(Case)}
    for table in data["case"]:
        given = {**data.get("shared", {}), **table, "group": data["group"]}
        if isinstance(given["run"], str):
            given["run"] = shlex.split(given["run"])
        for verb, *_ in given.get("changes", ()):
            if verb not in vars(Changes):
                raise ValueError(f"{given['name']}: no such change: {verb!r}")
        known: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
        }
        settings = {key: known.pop(key) for key in given if key not in names}
        yield Case(**known, settings=settings)


class Changes:
    """What a case may do to the files of a folder, by the words that cases use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _text(self, name: str) -> str:
        return (self._folder / name).read_text(encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        """Put another text in the place of one that must be there."""
        text = self._text(name)
        if old not in text:
            raise ValueError(f"{old!r} is not in {name}")
        self.write(name, text.replace(old, new, 1))

    def everywhere(self, name: str, old: str, new: str) -> None:
        self.write(name, self._text(name).replace(old, new))

    def write(self, name: str, text: str, times: int = 1) -> None:
        """Write a text, so many times, into a file and nothing else."""
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(text * times, encoding="utf-8")

    def add(self, name: str, text: str, times: int = 1) -> None:
        """Add a text, so many times, to the end of a file."""
        self.write(name, self._text(name) + text * times)

    def octets(self, name: str, digits: str) -> None:
        """Write bytes, given as hexadecimal digits."""
        (self._folder / name).write_bytes(bytes.fromhex(digits))

    def row(self, name: str, number: int, line: str) -> None:
        """Put another line in the place of one; 0 is the header."""
        lines = self._text(name).split("\n")
        lines[number] = line
        self.write(name, "\n".join(lines))

    def column(self, name: str, number: int, value: str) -> None:
        """Give every row the same value in one column of a CSV file; # is the number of the row."""
        lines = [line.split(",") for line in self._text(name).splitlines()]
        for place, cells in enumerate(lines[1:], 1):
            cells[number] = value.replace("#", str(place))
        self.write(name, "\n".join(map(",".join, lines)) + "\n")

    def head(self, name: str, lines: int) -> None:
        self.write(name, "\n".join(self._text(name).split("\n")[:lines]) + "\n")

    def encode(self, name: str, encoding: str) -> None:
        (self._folder / name).write_bytes(self._text(name).encode(encoding))

    def cut(self, name: str, size: int) -> None:
        """Keep so many bytes of a file; a negative number is counted from its end."""
        path = self._folder / name
        path.write_bytes(path.read_bytes()[:size])

    def flip(self, name: str, place: int) -> None:
        found = bytearray((self._folder / name).read_bytes())
        found[place] ^= 1
        (self._folder / name).write_bytes(bytes(found))

    def splice(self, name: str, place: int, text: str, over: int = 0) -> None:
        """Put a text at a place of a file, over so many letters; of a file that is not there, nothing."""
        path = self._folder / name
        if path.is_file() and not path.is_symlink():
            found = path.read_bytes()
            place = min(place, len(found))
            path.write_bytes(found[:place] + text.encode("utf-8", "surrogatepass") + found[place + over :])

    def pack(self, name: str, packed: str) -> None:
        (self._folder / packed).write_bytes(gzip.compress((self._folder / name).read_bytes()))

    def tell(self, name: str, where: str, value: Any = None, *, gone: bool = False) -> None:
        """Put another value at a dotted place of a JSON file; "null" there is nothing."""
        data = json.loads(self._text(name))
        place: Any = data
        *path, last = where.split(".")
        for key in path:
            place = place[int(key)] if isinstance(place, list) else place[key]
        at: Any = int(last) if isinstance(place, list) else last
        if gone:
            del place[at]
        else:
            place[at] = value
        self.write(name, json.dumps(data))

    def untell(self, name: str, where: str) -> None:
        self.tell(name, where, gone=True)

    def seal(self, name: str) -> None:
        self.write(name, sealed_text(json.loads(self._text(name))))

    def sqlite(self, name: str, statement: str) -> None:
        """Run statements in an SQLite file, such as a ledger, behind everybody's back."""
        with closing(sqlite3.connect(self._folder / name)) as connection, connection:
            connection.executescript(statement)

    def forge(self, name: str, statement: str) -> None:
        """Run statements in a ledger without its guards, and put these back, as somebody would who hides a change."""
        with closing(sqlite3.connect(self._folder / name)) as connection, connection:
            guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            found = guards.fetchall()
            for guard, _ in found:
                connection.execute(f"DROP TRIGGER {guard}")
            connection.executescript(statement)
            for _, text in found:
                connection.execute(text)

    def duck(self, statement: str, database: str = ":memory:") -> None:
        """Run statements in DuckDB; {folder} is where the files lie."""
        place = database if database == ":memory:" else str(self._folder / database)
        with duckdb.connect(place) as connection:
            connection.execute(statement.replace("{folder}", str(self._folder)))

    def remove(self, name: str) -> None:
        (self._folder / name).unlink()

    def make(self, name: str) -> None:
        (self._folder / name).mkdir(parents=True)

    def move(self, name: str, to: str) -> None:
        (self._folder / name).rename(self._folder / to)

    def copy(self, name: str, to: str) -> None:
        (self._folder / to).write_bytes((self._folder / name).read_bytes())

    def link(self, name: str, to: str) -> None:
        (self._folder / name).symlink_to(to)

    def pipe(self, name: str) -> None:
        """Make a named pipe that nobody writes to."""
        os.mkfifo(self._folder / name)

    def rights(self, name: str, mode: str) -> None:
        """Give a file or folder other rights, in octal digits."""
        (self._folder / name).chmod(int(mode, 8))

    def then(self, line: str) -> None:
        if run(shlex.split(line)) != 0:
            raise ValueError(f"{line} was to end well")
