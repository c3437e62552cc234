"""What a person sees: plain text on standard output, progress and complaints on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


def say(text: str) -> None:
    """A result, for people."""
    typer.echo(text)


def say_json(data: Any) -> None:
    """A result, for programs."""
    typer.echo(json.dumps(data, ensure_ascii=False, default=float))


def complain(text: str) -> None:
    """What went wrong and what to do."""
    typer.echo(f"error: {text}", err=True)


@contextmanager
def progress(shown: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """A bar per step with the time left, on a terminal; silence elsewhere."""
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda step, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done)

        yield advance
