"""What stands beside each other: runs that somebody chose, comparisons of methods, tables of invented people."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from colonnade.board.pages import Board, Form, download, kept_page, kept_text
from colonnade.board.place import Place
from colonnade.cli.runs.listing import run_line
from colonnade.cli.runs.run_folders import RunFolder, readable, release_of, with_facts
from colonnade.data.spreadsheets import csv_text
from colonnade.errors import CannotWrite, FileMissing, InputError
from colonnade.federation.whole_files import make_folder
from colonnade.privacy.words import observer_text
from colonnade.report.beside import section_of
from colonnade.report.html import charts, evaluation_section
from colonnade.report.numbers import size_text, spent_text
from colonnade.report.verdict import verdict

Facts = dict[str, Any]
MOST, OFFERED, SHOWN_BARS = 6, 50, 8
COMPARED = (
    "comparison.html",
    "description.html",
    "synthetic.csv",
    "synthetic.manifest.json",
    "comparison.svg",
)
COMPARISON, TABLE = "comparison.json", "synthetic.csv"
HEADS = ("run", "job", "task", "method", "ε", "largest ε", "for whom", "people", "quality", "sent", "date")


class Beside:
    """The page on which runs, comparisons and invented people stand side by side."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def page(self, request: Request) -> Response:
        """Runs to choose from, those that were chosen side by side, and what lies beside runs."""
        place, chosen = self._board.place, _chosen(request)
        ended = [one for one in place.runs.listed() if not one.open and one.state != "failed"][:OFFERED]
        runs = [_whole(place, name) for name in chosen]
        shown = []
        for run in runs:
            with readable(run):
                shown.append(_side(run))
        return self._board.page(
            request,
            "beside.html",
            title="Compare",
            offered=[(one.name, one.name in chosen) for one in ended],
            chosen=chosen,
            heads=HEADS,
            runs=shown,
            comparisons=list(filter(None, (_comparison(path) for path in _folders(place)))),
            folders=_files(place),
        )

    def table(self, request: Request) -> Response:
        """The runs that were chosen, as a table to keep."""
        runs = [_whole(self._board.place, name) for name in _chosen(request)]
        rows: list[Sequence[object]] = [HEADS]
        for run in runs:
            with readable(run):
                rows.append(_row(run))
        return download(csv_text(rows).encode(), "runs.csv")

    def file(self, request: Request) -> Response:
        """A page or a table that lies beside runs, as it was written; of a comparison also its table."""
        folder, file = request.path_params["folder"], request.path_params["file"]
        place = next((path for path in _folders(self._board.place) if path.name == folder), None)
        if place is not None and file == "comparison.csv":
            comparison = _comparison(place)
            if comparison is not None:
                return download(csv_text(comparison["table"]).encode(), f"{folder}.csv")
        if (
            place is None
            or file not in COMPARED
            or (place / file).is_symlink()
            or not (place / file).is_file()
        ):
            raise FileMissing("there is no such file beside the runs. It may have been removed since.")
        return (
            kept_page(kept_text(place / file))
            if file.endswith(".html")
            else download((place / file).read_bytes(), file)
        )


def synthesize(board: Board, request: Request, form: Form) -> Response:
    """Write a table of invented people that agrees with a run's release, as `colonnade synthesize` does."""
    name, person = request.path_params["run"], request.state.session.person
    text = form.get("rows", "").strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise InputError(f"people: {text[:40]!r} is no number of people from 1.")
    with board.acts.failing(person, "made up people", of=name):
        release = release_of(board.place.runs.read(name).path)
        table = release.synthesize(int(text))
        folder = _free(board.place.runs.folder / f"{name}-synthetic")
        try:
            make_folder(folder)
        except OSError as error:
            raise CannotWrite(f"{folder} cannot be made ({error.strerror}).") from None
        table.save(folder / TABLE)
    board.acts.note(person, "made up people", of=f"{text} of {folder.name}")
    return RedirectResponse(f"/compare#{folder.name}", 303)


def _free(name: Path) -> Path:
    path, number = name, 1
    while path.exists() or path.is_symlink():
        number += 1
        path = name.with_name(f"{name.name}-{number}")
    return path


def _chosen(request: Request) -> list[str]:
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    if len(names) > MOST:
        raise InputError(f"{len(names)} runs are too many to stand side by side. Choose at most {MOST}.")
    return names


def _whole(place: Place, name: str) -> RunFolder:
    run = with_facts(place.runs.read(name))
    if run.failed or run.facts.get("state"):
        raise FileMissing(f"{name} has nothing to compare: it is {run.state}.")
    return run


def _row(run: RunFolder) -> tuple[str, ...]:
    facts, line = run.facts, run_line(run)
    worst = verdict(facts)["worst"]
    sent = sum(flow["bytes"] for flow in facts["traffic"]["flows"])
    return (
        run.path.name,
        str(line["name"]),
        str(line["task"]),
        str(facts.get("method", "")),
        "" if line["epsilon"] is None else f"{line['epsilon']:g}",
        spent_text(worst["epsilon"]) if worst else "",
        observer_text(worst["observer"]) if worst else "",
        str(line["rows"]),
        str(line["score"] or ""),
        size_text(sent),
        str(line["date"]),
    )


def _side(run: RunFolder) -> Facts:
    judged = evaluation_section(run.facts.get("judged"))
    drawn = [{**chart, "bars": chart["bars"][:SHOWN_BARS]} for chart in charts(run.facts["learnt"])]
    return {
        "row": _row(run),
        "name": run.path.name,
        "judged": judged,
        "charts": drawn,
    }


def _folders(place: Place) -> list[Path]:
    """Folders beside runs that are none: comparisons, descriptions, invented people."""
    folders = [place.runs.folder / name for name in place.runs.others()]
    if place.kit is None and place.folder != place.runs.folder:
        folders += [
            path for path in sorted(place.folder.iterdir()) if path.is_dir() and path != place.runs.folder
        ]
    return folders


def _files(place: Place) -> list[Facts]:
    listed = [
        {"folder": path.name, "files": [name for name in COMPARED if (path / name).is_file()]}
        for path in _folders(place)
    ]
    return [one for one in listed if one["files"]]


def _comparison(folder: Path) -> Facts | None:
    """A comparison of methods as a section with a picture and a table; None where there is none that can be read."""
    try:
        facts = json.loads((folder / COMPARISON).read_text(encoding="utf-8"))
        section = section_of(facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if section is None or not all(map(math.isfinite, facts["epsilons"])):
        return None
    return {**section, "folder": folder.name, "name": str(facts.get("name", folder.name))}
