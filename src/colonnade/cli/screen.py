"""What a person sees and types: text, progress, complaints, and the options that verbs share."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

import typer

from colonnade.errors import CannotWrite, InputError, NameInUse
from colonnade.federation.files import plain
from colonnade.report.plain import STEPS, one_line

WIDEST = 100
# Seconds between two lines of progress where there is no terminal.
EVERY = 5.0

Advance = Callable[[str, int, int], None]


def note(text: str) -> None:
    say(f"note: {one_line(text)}", err=True)


def say_json(data: Any) -> None:
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False)
    # Within JSON a character that cannot be shown stands as JSON writes it, so that programs read it back.
    shown = all(_harmless(character) for character in text) and _encodable(text, sys.stdout)
    say(text if shown else json.dumps(plain(data), allow_nan=False))


@dataclass(frozen=True, eq=False)
class Answer:
    """What a verb found: `data` for programs, `text` for people (at a width, or None), and what it raises then."""

    data: Any
    text: str | Callable[[int | None], str] | None
    error: Exception | None = None


def complain(text: str, number: str) -> None:
    """What went wrong and what to do, and where there is more about it."""
    say(f"error {number}: {one_line(text)}\n`colonnade explain {number}` says more.", err=True)


def say(text: str, *, err: bool = False) -> None:
    """The one way to a terminal: names that others chose cannot move its cursor, and no encoding ends a run."""
    stream = sys.stderr if err else sys.stdout
    plain_text = "".join(
        character if _harmless(character) else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
    if not _encodable(plain_text, stream):
        encoding = stream.encoding or "ascii"
        plain_text = plain_text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        typer.echo(plain_text, err=err)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "error" if err else "output"
        raise CannotWrite(
            f"standard {where} cannot be written to ({error.strerror}). What this verb writes elsewhere is written."
        ) from None


def _harmless(character: str) -> bool:
    # Control characters, also those that turn the direction of text, separators of lines, and half characters.
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _encodable(text: str, stream: TextIO | None) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def width() -> int | None:
    """How wide text may be on this terminal; None where it goes into a file or a program."""
    return min(WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


@contextmanager
def progress(shown: bool = True, *, piped: bool = False) -> Iterator[Advance]:
    """A bar per step with the time left, on a terminal. Elsewhere silence, or with `piped` a line now and then."""
    if not shown or as_json() or not sys.stderr.isatty():
        prints, last = piped and not sys.stderr.isatty(), time.monotonic()

        def tell(step: str, done: int, total: int) -> None:
            nonlocal last
            if prints and time.monotonic() - last >= EVERY:
                last = time.monotonic()
                say(f"{STEPS.get(step, step)}: {100 * done // max(1, total)} %", err=True)

        yield tell
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, rich.TaskID] = {}

        def advance(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(STEPS.get(step, step), total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield advance


_as_json: ContextVar[bool] = ContextVar("as_json", default=False)


def as_json() -> bool:
    return _as_json.get()


def answering(verb: Callable[..., Answer | None]) -> Callable[..., None]:
    """The verb with --json, printing what it returns as one object or as text; None if it has printed all itself."""
    signature = inspect.signature(verb, eval_str=True)
    json_flag = flag("--json", "Print one JSON object instead of text.")
    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=json_flag, annotation=bool)
    signature = signature.replace(parameters=[*signature.parameters.values(), option])

    @wraps(verb)
    def printed(*, as_json: bool, **options: Any) -> None:
        before = _as_json.set(as_json)
        try:
            answer = verb(**options)
            if answer is None:
                return
            if as_json:
                say_json(answer.data)
            elif answer.text is not None:
                say(answer.text if isinstance(answer.text, str) else answer.text(width()))
            if answer.error is not None:
                raise answer.error
        finally:
            _as_json.reset(before)

    # Typer fills the lines of a paragraph, unless this mark stands before it: an example is a line to copy.
    printed.__doc__ = re.sub(r"\n\n(?=Examples?\b)", "\n\n\b\n", inspect.getdoc(verb) or "")
    printed.__signature__ = signature  # type: ignore[attr-defined]
    printed.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    return printed


def group(help: str, *verbs: Callable[..., Answer | None], **more: Any) -> typer.Typer:
    """Verbs under one help, each called as its function is."""
    app = typer.Typer(
        help=help,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )
    for verb in verbs:
        app.command()(answering(verb))
    return app


def argument(metavar: str, help: str, default: Any = ..., **more: Any) -> Any:
    return typer.Argument(default, metavar=metavar, help=help, **more)


def option(names: str, help: str, default: Any = None, **more: Any) -> Any:
    """An option by its flags and what its value is called: "--output -o FOLDER"."""
    words = names.split()
    value = words.pop() if not words[-1].startswith("-") else None
    return typer.Option(default, *words, metavar=value, help=help, **more)


def flag(names: str, help: str) -> Any:
    return typer.Option(False, *names.split(), help=help)


FREE = "Name another file, or remove it first."


def check_least(named: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise InputError(f"{named}: found {value}; it must be at least {least}.")


def check_free(path: Path | None, named: str = "--output", advice: str = "Name another file.") -> None:
    """Refuse a file that is there: what a verb writes never goes over another."""
    if path is not None and (path.exists() or path.is_symlink()):
        raise NameInUse(f"{named}{': ' if named else ''}{path} exists already. {advice}")


# Options and arguments of several verbs.
VERBOSE: bool = flag("--verbose -v", "Also print exact statements and costs, as the report has them.")
PARTY_FILES: list[Path] = option("--party -p FILE", "A party's own file (TOML); repeat for each party.", [])
LABEL: str | None = option(
    "--label -l NAME", "Of a run with several labels, the one that is meant; the first if left out."
)
JOB: Path = argument("JOB", "The job file (TOML).")
RUN: Path = argument("RUN", "The folder of a run, or its name within runs.")
MODEL: Path = argument("MODEL", "The folder of a run, or its model.json.")
ROWS: Path | None = option("--rows -r FILE", "A CSV or Parquet file with every column of the model.")
ID_COLUMNS: list[str] = option(
    "--id COLUMN", "The column of --rows that names people; repeat where several do together.", ["id"]
)
COLUMNS: list[str] = option("--columns -c NAME", "Only this column and others so named; repeat.", [])


TASKS = ("classification", "regression", "pca")
