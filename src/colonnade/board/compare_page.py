"""Runs that somebody chose, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from colonnade.board.pages import Board, download
from colonnade.data.spreadsheets import csv_text
from colonnade.errors import FileMissing, InputError
from colonnade.privacy.words import observer_text
from colonnade.report.html import charts, evaluation_section
from colonnade.report.numbers import size_text, spent_text
from colonnade.report.verdict import verdict
from colonnade.runs.run_folders import RunFolder, readable, run_line, with_facts

MOST, OFFERED, SHOWN_BARS = 6, 50, 8
HEADS = ("run", "job", "task", "method", "ε", "largest ε", "for whom", "people", "quality", "sent", "date")


def compare_page(board: Board, request: Request) -> Response:
    """Runs to choose from, and those that were chosen side by side."""
    chosen = _chosen(board, request)
    ended = [one for one in board.workspace.runs.listed() if not one.open and one.state != "failed"]
    shown = []
    for run in chosen:
        with readable(run):
            shown.append(_side(run))
    names = [run.path.name for run in chosen]
    return board.page(
        request,
        "compare.html",
        title="Compare",
        offered=[(one.name, one.name in names) for one in ended[:OFFERED]],
        chosen=names,
        heads=HEADS,
        runs=shown,
    )


def compare_table(board: Board, request: Request) -> Response:
    """The runs that were chosen, as a table to keep."""
    rows: list[Sequence[object]] = [HEADS]
    for run in _chosen(board, request):
        with readable(run):
            rows.append(_row(run))
    return download(csv_text(rows).encode(), "runs.csv")


def _chosen(board: Board, request: Request) -> list[RunFolder]:
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    if len(names) > MOST:
        raise InputError(f"{len(names)} runs are too many to stand side by side. Choose at most {MOST}.")
    chosen = []
    for name in names:
        run = with_facts(board.workspace.runs.read(name))
        if run.failed or run.facts.get("state"):
            raise FileMissing(f"{name} has nothing to compare: it is {run.state}.")
        chosen.append(run)
    return chosen


def _side(run: RunFolder) -> dict[str, Any]:
    return {
        "row": _row(run),
        "name": run.path.name,
        "judged": evaluation_section(run.facts.get("judged")),
        "charts": [{**chart, "bars": chart["bars"][:SHOWN_BARS]} for chart in charts(run.facts["learnt"])],
    }


def _row(run: RunFolder) -> tuple[str, ...]:
    facts, line = run.facts, run_line(run)
    worst = verdict(facts)["worst"]
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
        size_text(sum(flow["bytes"] for flow in facts["traffic"]["flows"])),
        str(line["date"]),
    )
