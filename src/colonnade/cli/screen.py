"""What a person sees: plain text on standard output, progress and complaints on standard error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from colonnade.report.plain import plain

WIDEST = 100
# What people call the steps of a protocol; steps that are not named here go by their own name.
STEPS = {
    "columns": "sharing rows",
    "batches": "encrypted batches",
    "uncertainty": "estimating what noise did to the model (Ctrl-C skips it)",
}

Advance = Callable[[str, int, int], None]


def say(text: str) -> None:
    """A result, for people."""
    typer.echo(text)


def say_json(data: Any) -> None:
    """A result, for programs: one JSON object."""
    typer.echo(json.dumps(plain(data), ensure_ascii=False, allow_nan=False))


def complain(text: str, number: str) -> None:
    """What went wrong and what to do, and where there is more about it."""
    typer.echo(f"error {number}: {text}\n`colonnade explain {number}` says more.", err=True)


def width() -> int | None:
    """How wide text may be on this terminal; None where it goes into a file or a program."""
    return min(WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


@contextmanager
def progress(shown: bool = True) -> Iterator[Advance]:
    """A bar per step with the time left, on a terminal; silence elsewhere."""
    if not shown or not sys.stderr.isatty():
        yield lambda step, done, total: None
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
