"""What a person sees and types: text, progress, complaints, and the options that verbs share."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

import typer

import colonnade
from colonnade.errors import CannotWrite, ColonnadeError
from colonnade.federation.files import plain
from colonnade.report.plain import STEPS, one_line

WIDEST = 100
# Seconds between two lines of progress where there is no terminal.
EVERY = 5.0
# Red, green, dim: by the words that say so.
_COLOURS = {"bad": "31", "good": "32", "faint": "2"}
_MARKED = re.compile(
    r"(?P<bad>^error E\d+|(?:no|No) privacy\b|(?:not|Not) within every budget|\brefused\b|\bDEFECT\b|(?<=  )0(?=  |$))"
    r"|(?P<good>\b[Ww]ithin every budget)|(?P<faint>\bwithin noise\b|\bhidden by noise\b)",
    re.MULTILINE,
)

Advance = Callable[[str, int, int], None]


def say(text: str) -> None:
    _put(text)


def note(text: str) -> None:
    """What a person should know besides the result."""
    _put(f"note: {one_line(text)}", err=True)


def say_json(data: Any) -> None:
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False)
    # Within JSON a character that cannot be shown stands as JSON writes it, so that programs read it back.
    shown = all(_harmless(character) for character in text) and _encodable(text, sys.stdout)
    _put(text if shown else json.dumps(plain(data), allow_nan=False))


@dataclass(frozen=True, eq=False)
class Answer:
    """What a verb found: `data` for programs, `text` for people, at a width, and what it raises once that is said."""

    data: Any
    text: Callable[[int | None], str]
    error: ColonnadeError | None = None


def answer(facts: Any, text: str, as_json: bool) -> None:
    """Print what a verb found out, as JSON or as text."""
    say_json(facts) if as_json else say(text)


def complain(text: str, number: str) -> None:
    """What went wrong and what to do, and where there is more about it."""
    _put(f"error {number}: {one_line(text)}\n`colonnade explain {number}` says more.", err=True)


def _put(text: str, *, err: bool = False) -> None:
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
        typer.echo(_coloured(plain_text) if stream.isatty() and _colours() else plain_text, err=err)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "error" if err else "output"
        raise CannotWrite(
            f"standard {where} cannot be written to ({error.strerror}). What this verb writes elsewhere is written."
        ) from None


def _colours() -> bool:
    """Whether this terminal takes colours and its person has not declined them (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(text: str) -> str:
    """What is refused, spent or lost in noise, so that an eye finds it; every word of it is there without colour."""
    return _MARKED.sub(lambda match: f"\x1b[{_COLOURS[match.lastgroup or '']}m{match[0]}\x1b[0m", text)


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


def _now_and_then() -> Advance:
    """Tells on a line of its own how far a step is, if the last one is some seconds old."""
    last = time.monotonic()

    def advance(step: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            _put(f"{STEPS.get(step, step)}: {100 * done // max(1, total)} %", err=True)

    return advance


@contextmanager
def progress(shown: bool = True, *, piped: bool = False) -> Iterator[Advance]:
    """A bar per step with the time left, on a terminal. Elsewhere silence, or with `piped` a line now and then."""
    if not shown or not sys.stderr.isatty():
        yield _now_and_then() if piped and not sys.stderr.isatty() else lambda _step, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(STEPS.get(step, step), total=total)
            bars.update(tasks[step], completed=done)

        yield advance


AS_JSON: bool = typer.Option(False, "--json", help="Print one JSON object instead of text.")
VERBOSE: bool = typer.Option(
    False, "--verbose", "-v", help="Also print exact statements and costs, as the report has them."
)


def answering(verb: Callable[..., Answer]) -> Callable[..., None]:
    """A verb that prints what it returns, as text or with --json as one object; it may ask which, as `as_json`."""
    signature = inspect.signature(verb, eval_str=True)
    asks = "as_json" in signature.parameters
    if not asks:
        option = inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=AS_JSON, annotation=bool
        )
        signature = signature.replace(parameters=[*signature.parameters.values(), option])

    @wraps(verb)
    def printed(*, as_json: bool, **options: Any) -> None:
        answer = verb(**options, as_json=as_json) if asks else verb(**options)
        if as_json:
            say_json(answer.data)
        else:
            say(answer.text(width()))
        if answer.error is not None:
            raise answer.error

    printed.__signature__ = signature  # type: ignore[attr-defined]
    printed.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    return printed


PARTY_FILES = typer.Option(
    [], "--party", "-p", metavar="FILE", help="A party's own file (TOML); repeat for each party."
)
LABEL: str | None = typer.Option(
    None,
    "--label",
    "-l",
    metavar="NAME",
    help="Of a run with several labels, the one that is meant; the first if left out.",
)


TASKS = ("classification", "regression", "pca")
_METHODS = Path(colonnade.__file__).parent / "methods"
_NAME = re.compile(r'^ +name="([a-z-]+)",$', re.MULTILINE)


def method_names() -> tuple[str, ...]:
    """What methods call themselves, in the order of their folders."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_METHODS.glob("*/*.py")))
    return tuple(name for text in texts for name in _NAME.findall(text))


def complete_methods(incomplete: str) -> list[str]:
    """Names of methods after the last comma that is there already."""
    before, comma, last = incomplete.rpartition(",")
    used = before.split(",")
    return [f"{before}{comma}{name}" for name in method_names() if name.startswith(last) and name not in used]


def complete_tasks(incomplete: str) -> list[str]:
    return [name for name in TASKS if name.startswith(incomplete)]
