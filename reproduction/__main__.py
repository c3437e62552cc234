"""Run studies and write the pages: `python -m reproduction --data FOLDER`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from reproduction.exhibits import EXHIBITS, listing
from reproduction.page import write_pages
from reproduction.sections import EFFORT, Part, keep, load, said
from reproduction.studies import STUDIES, Study

PROGRESS = Path("build/reproduction.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("COLONNADE_DATA") or "."),
        help="the folder with the data sets",
    )
    parser.add_argument(
        "--only", help="some studies, with commas: " + ", ".join(study.name for study in STUDIES)
    )
    parser.add_argument("--part", help="only parts with this in their title")
    parser.add_argument(
        "--anew", action="store_true", help="begin again instead of going on where it stopped"
    )
    parser.add_argument("--full", action="store_true", help="as published also where that takes hours")
    parser.add_argument("--quick", action="store_true", help="tiny runs that only show that the frame works")
    parser.add_argument(
        "--page", action="store_true", help="only write the pages, from the results that are kept"
    )
    parser.add_argument(
        "--list", action="store_true", help="every table and figure of the papers, and how much of it was run"
    )
    parser.add_argument("--json", action="store_true", help="with --list: one JSON object")
    arguments = parser.parse_args()
    EFFORT.full = arguments.full
    if arguments.list:
        found = listing()
        share = f"{found['cells_run']} of {found['cells_printed']} cells whose data is at hand were run"
        _say(json.dumps(found) if arguments.json else "\n".join([*(e.line() for e in EXHIBITS), share]))
        return
    wanted = (
        arguments.only.split(",") if arguments.only else [study.name for study in STUDIES if study.exists]
    )
    unknown = sorted(set(wanted) - {study.name for study in STUDIES if study.exists})
    if unknown:
        sys.exit(
            f"there is no study called {', '.join(unknown)}; there are {', '.join(s.name for s in STUDIES if s.exists)}"
        )
    if not arguments.page:
        run_parts(
            [study for study in STUDIES if study.name in wanted],
            arguments.data,
            quick=arguments.quick,
            part=arguments.part or "",
            anew=arguments.anew,
        )
    if not arguments.quick:
        for path in write_pages({study.name: load(study.name) for study in STUDIES}):
            _say(str(path))


def run_parts(
    studies: Sequence[Study], data: Path, *, quick: bool, part: str, anew: bool, progress: Path = PROGRESS
) -> None:
    """Run every part that this reproduction has not run yet, and keep each as soon as it is there."""
    todo = [(study, one) for study in studies for one in study.parts(data, quick=quick) if part in one.title]
    if not todo:
        sys.exit(f"no part of {', '.join(study.name for study in studies)} has {part!r} in its title")
    done = [] if quick or anew or not progress.exists() else json.loads(progress.read_text(encoding="utf-8"))
    left = [(study, one) for study, one in todo if [study.name, one.title] not in done]
    # What is prepared beside the others comes last.
    left.sort(key=lambda pair: bool(pair[1].alongside))
    if len(left) < len(todo):
        _say(f"goes on: {len(todo) - len(left)} of {len(todo)} parts are done; --anew begins again")
    took = {
        (study.name, section.title): section.seconds
        for study in studies
        for section in load(study.name) or []
    }
    with ExitStack() as ended:
        prepared = _alongside([one for _, one in left], data, ended) if len(left) > 1 else {}
        for number, (study, one) in enumerate(left):
            if one.alongside in prepared:
                prepared[one.alongside].wait()
            place = f"[{len(todo) - len(left) + number + 1} of {len(todo)}] {study.name}: {one.title}"
            rest = _left([took.get((other.name, each.title)) for other, each in left[number:]])
            # What is kept says how long the whole took, and nothing about a quick run.
            _say(place if quick else f"{place}; {rest}")
            section = one.run()
            if section.title != one.title:
                raise ValueError(f"{study.name}: {one.title!r} came back as {section.title!r}")
            if quick:
                _say(section.markdown())
                continue
            if section.seconds:
                section = replace(section, command=section.command or study.command, where=_where())
            keep(study.name, section, order=[each.title for each in study.parts(data, quick=False)])
            done.append([study.name, one.title])
            progress.parent.mkdir(parents=True, exist_ok=True)
            progress.write_text(json.dumps(done, ensure_ascii=False), encoding="utf-8")
    if not quick and not part:
        progress.unlink(missing_ok=True)


def _alongside(parts: Sequence[Part], data: Path, ended: ExitStack) -> dict[str, subprocess.Popen[bytes]]:
    """Start what is prepared beside the others, with the least claim to the processor; it ends with the block."""
    started = {}
    for module in dict.fromkeys(part.alongside for part in parts if part.alongside):
        command = [sys.executable, "-m", module, "--data", str(data)]
        started[module] = ended.enter_context(
            subprocess.Popen(command, preexec_fn=_step_back, stdout=subprocess.DEVNULL)
        )
        ended.callback(started[module].terminate)
    return started


def _step_back() -> None:
    os.nice(19)


def _left(seconds: Sequence[float | None]) -> str:
    """How long the rest may take, by how long it took before.

    >>> _left([60.0, 30.0, None])
    'some 1.5 minutes left, and 1 part that was never run'
    """
    new = sum(each is None for each in seconds)
    more = (
        f", and {new} part{'s' if new > 1 else ''} that {'were' if new > 1 else 'was'} never run"
        if new
        else ""
    )
    return f"some {said(sum(each or 0.0 for each in seconds))} left{more}"


def _where() -> str:
    """The day, the machine and its load: what seconds mean depends on them."""
    day = datetime.now(UTC).date().isoformat()
    return f"on {day}, {os.cpu_count()} processors ({platform.machine()}), load {os.getloadavg()[0]:.1f}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
