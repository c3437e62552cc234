"""What a moment release and margin descent cost against people, columns and parties: time, bytes and memory."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from colonnade.data.columns import Column, NumericColumn
from colonnade.data.schema import Schema
from colonnade.data.table import Table as DataTable
from colonnade.data.targets import ClassLabel
from colonnade.learn.federation import Federation
from colonnade.methods.method import Asked
from colonnade.methods.table import METHODS, checked_options
from colonnade.report.charts import Axes, Chart, Line, Style, svg
from reproduction.sections import FIGURES, Part, Picture, Section, Table, timed

METHODS_TRIED = ("moments", "margin")
ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
COLUMNS = (10, 20, 50, 100, 200, 400, 800)
PARTIES = (2, 3, 5, 7, 10)
# Where the other two stand while one is varied.
PLAIN = {"rows": 5_000, "columns": 20, "parties": 2}
MOST_MARGIN = 100_000
MEASURES = ("seconds", "bytes", "memory")
WORDS = {"rows": "people", "columns": "columns", "parties": "parties"}


def study(_data: Path, quick: bool) -> list[Part]:
    """One section for each of people, columns and parties."""
    tried: dict[str, Sequence[int]] = {"rows": ROWS, "columns": COLUMNS, "parties": PARTIES}
    if quick:
        tried = {"rows": (500, 1000)}
    return [
        Part(_title(what), lambda what=what, values=values: _section(what, values, quick=quick))
        for what, values in tried.items()
    ]


def _title(what: str) -> str:
    return f"Cost against {WORDS[what]}"


def made_up_tables(rows: int, columns: int, parties: int) -> list[DataTable]:
    """Numbers that say nothing about anybody, dealt out evenly; the label with the first party."""
    generator = np.random.default_rng(0)
    tables = []
    for party, places in enumerate(np.array_split(np.arange(columns), parties)):
        names = [f"x{place}" for place in places]
        mine: tuple[Column, ...] = tuple(NumericColumn(name, 0, 1) for name in names)
        arrays: dict[str, Any] = {name: generator.random(rows) for name in names}
        label = ClassLabel("y", ("0", "1")) if party == 0 else None
        if label is not None:
            arrays["y"] = (arrays[names[0]] > 0.5).astype(np.int8)
        tables.append(DataTable.from_arrays(f"party{party}", arrays, Schema("row", mine, label)))
    return tables


def one_run(method: str, rows: int, columns: int, parties: int) -> dict[str, float]:
    """A whole run of all parties in this process: processor seconds, bytes sent, and peak memory above the tables."""
    asked = Asked("classification", 1.0, 1e-5, 1e-5, options=checked_options(METHODS[method], {}))
    chosen = METHODS[method]
    chosen.train(
        Federation(made_up_tables(300, columns, parties), budget=(10.0, 1e-5)), asked
    )  # compiles kernels
    federation = Federation(made_up_tables(rows, columns, parties), budget=(10.0, 1e-5), timeout=3600)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
    chosen.train(federation, asked)
    seconds = process_time() - start
    traffic = federation.runs[-1].outcome.traffic
    return {
        "seconds": seconds,
        "bytes": float(sum(sum(each.sent.values()) for each in traffic.values())),
        "memory": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024,
        "load": os.getloadavg()[0],
    }


def _section(what: str, values: Sequence[int], *, quick: bool) -> Section:
    found: dict[str, dict[int, dict[str, float]]] = {method: {} for method in METHODS_TRIED}
    with timed() as watch:
        for method in METHODS_TRIED:
            for value in values:
                if method == "margin" and what == "rows" and value > MOST_MARGIN:
                    continue
                asked = PLAIN | {what: value}
                run = _alone(method, asked)
                if run is not None:
                    found[method][value] = run
    tables = tuple(_table(what, measure, found) for measure in MEASURES)
    pictures = () if quick else tuple(_picture(what, measure, found) for measure in MEASURES)
    others = ", ".join(f"{PLAIN[other]:,} {WORDS[other]}" for other in PLAIN if other != what)
    slopes = "\n".join(
        f"- `{method}`: time grows with the {_slope(runs, 'seconds')} power of the {WORDS[what]}, bytes with the "
        f"{_slope(runs, 'bytes')}, over the larger half of what was tried."
        for method, runs in found.items()
    )
    text = f"""
{others[0].upper() + others[1:]}; a process of its own for every run, all parties in it, made-up numbers, ε = 1, with
the default checks. Time is that of the processor, because others shared the machine; bytes are all that parties sent;
memory is the peak of the process above what it had with the tables in it.

{slopes}

{_BENDS[what]}
"""
    facts = {method: {str(value): run for value, run in runs.items()} for method, runs in found.items()}
    return Section(_title(what), text, tables, pictures, watch.seconds, facts={"runs": facts})


_BENDS = {
    "rows": "Rows are dealt in blocks, so memory stays where it is; below some ten thousand people the fixed cost of "
    "meeting, planning and drawing noise is most of the time, and the line bends there.",
    "columns": "A moment matrix has d(d + 1)/2 entries: multiplying is quadratic in d, dealing linear, so time bends "
    "from one to the other where products overtake what is dealt; bytes bend where the matrix of noise overtakes the "
    "rows. Margin descent deals its moments once and a gradient a step.",
    "parties": "With three owners or more they keep the shares themselves, and every owner deals to every keeper: "
    "bytes grow with owners times keepers, and time with them. From two to three owners the server stops keeping "
    "shares, which is where the line bends. Margin descent multiplies a rounded factor of every owner; with ten it has "
    "no plan, and says so.",
}


def _alone(method: str, asked: dict[str, int]) -> dict[str, float] | None:
    """A run in a process of its own; None if the method has no plan for it."""
    command = [sys.executable, "-W", "ignore", "-m", "reproduction.scale", method, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(f"{method} {asked}: {done.stderr.strip().splitlines()[-1][:200]}\n")
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _slope(runs: dict[int, dict[str, float]], measure: str) -> str:
    """The exponent of a straight line through logarithms, over the larger half."""
    larger = sorted(runs)[len(runs) // 2 :] if len(runs) > 3 else sorted(runs)
    if len(larger) < 2:
        return "unknown"
    logs = [[math.log(value), math.log(max(runs[value][measure], 1e-9))] for value in larger]
    slope = np.polyfit(*np.array(logs).T, 1)[0]
    return f"{slope:.2f}"


def _shown(measure: str, value: float) -> str:
    return f"{value:.2f} s" if measure == "seconds" else f"{value / 1e6:,.1f} MB"


def _table(what: str, measure: str, found: dict[str, dict[int, dict[str, float]]]) -> Table:
    values = sorted({value for runs in found.values() for value in runs})
    rows = tuple(
        (
            method,
            *(_shown(measure, runs[value][measure]) if value in runs else "not run" for value in values),
        )
        for method, runs in found.items()
    )
    caption = {"seconds": "Processor seconds", "bytes": "Sent by all", "memory": "Memory above the tables"}[
        measure
    ]
    return Table(caption, ("method", *(f"{value:,} {WORDS[what]}" for value in values)), rows)


def _picture(what: str, measure: str, found: dict[str, dict[int, dict[str, float]]]) -> Picture:
    styles = (Style("#1f5fa8", (), "circle"), Style("#b5472f", (5, 2), "square"))
    unit = 1.0 if measure == "seconds" else 1e6
    lines = tuple(
        Line(
            f"{method}, slope {_slope(runs, measure)}",
            tuple(float(value) for value in sorted(runs)),
            tuple(max(runs[value][measure] / unit, 1e-3) for value in sorted(runs)),
            (),
            style,
        )
        for (method, runs), style in zip(found.items(), styles, strict=True)
        if runs
    )
    up = {"seconds": "processor seconds", "bytes": "MB sent", "memory": "MB of memory"}[measure]
    chart = Chart(f"{up} against {WORDS[what]}", Axes(WORDS[what], up, log_x=True, log_y=True), lines)
    name = f"scale-{what}-{measure}.svg"
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / name).write_text(svg(chart), encoding="utf-8")
    return Picture(name, f"{up[0].upper() + up[1:]} against {WORDS[what]}, for moments and margin")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(one_run(sys.argv[1], **json.loads(sys.argv[2]))) + "\n")
