"""Finished and failed runs on the disk: how a person names one, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.cli.failures import FAILED
from colonnade.errors import InputError, ModelDamaged, ModelError

FACTS = "facts.json"
RUNS = Path("runs")


@dataclass(frozen=True, eq=False)
class RunFolder:
    """One run: its folder and its facts, or if it failed the record of that."""

    path: Path
    facts: dict[str, Any]

    @property
    def failed(self) -> bool:
        """Whether it was charged for and did not reach its end."""
        return self.facts.get("state") == "failed"

    @property
    def state(self) -> str:
        """In a word or two, how it ended."""
        if self.failed:
            return "failed"
        return "done" if self.facts.get("learnt") else "no model"


def find_run(given: Path) -> RunFolder:
    """The run that a person means: a folder, its facts.json, or a name within `runs`."""
    path = given.parent if given.name in (FACTS, FAILED, "report.html") and given.is_file() else given
    for place in (path, RUNS / path):
        if is_run(place):
            return read_run(place)
    known = [str(run) for run in (*runs_in(RUNS), *runs_in(path), *runs_in(path.parent))]
    meant = _nearest_run(path, known)
    if path.exists():
        raise ModelError(f"{path} is no run: it holds neither {FACTS} nor {FAILED}.{meant}")
    raise ModelError(f"there is no run {path}.{meant}")


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or failed."""
    return (folder / FACTS).is_file() or (folder / FAILED).is_file()


def read_run(folder: Path) -> RunFolder:
    """The run in a folder."""
    path = folder / (FACTS if (folder / FACTS).is_file() else FAILED)
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError:
        raise ModelDamaged(f"{path} is not JSON: it was changed or cut off since the run wrote it.") from None
    if not isinstance(facts, dict):
        raise ModelDamaged(f"{path} holds no facts of a run: it was changed since the run wrote it.")
    return RunFolder(folder, facts)


def runs_in(folder: Path) -> tuple[Path, ...]:
    """The folders right below one that hold runs, by name; none if it cannot be looked into."""
    try:
        return tuple(
            sorted(path for path in folder.iterdir() if not path.name.startswith(".") and is_run(path))
        )
    except OSError:
        return ()


@contextmanager
def readable(run: RunFolder) -> Iterator[None]:
    """Facts that lack something, because another version wrote them or somebody changed them, are told as that."""
    from jinja2 import UndefinedError

    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, UndefinedError) as error:
        from colonnade import __version__

        version = run.facts.get("version", "an unknown version")
        raise ModelError(
            f"{run.path / FACTS} cannot be shown: {type(error).__name__} {error}. It was written by Colonnade "
            f"{version}, and this is {__version__}; or it was changed since. Its report.html is as it was."
        ) from None


def _nearest_run(path: Path, known: Iterable[str]) -> str:
    from colonnade.data.declaring import nearest

    names = sorted(set(known))
    if not names:
        return f" There are no runs in {RUNS} either; `colonnade train JOB` makes one."
    by_last = {Path(name).name: name for name in names}
    guess = nearest(path.name, by_last) or nearest(str(path), names)
    for last, name in by_last.items():
        guess = guess.replace(f"'{last}'", f"'{name}'")
    return guess or f" There are {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}."
