"""The whole functional mechanism on Adult's size among four parties, beside its secure products alone in MPyC.

Every party is a process of its own on loopback. Timed at the server, from the order to begin, given to parties that
have aligned their rows and agreed on the plan, to the model: ledgers, receipts, encoding and rounding, dealing,
products, noise, opening, publishing, minimising. A first training, which also compiles kernels and makes tables of
noise, is not counted. MPyC multiplies integers of the same size, as many columns as features and label make, and does
nothing else; it runs with the same four owners and threshold 1.

    python benchmarks/functional.py --json [--data FOLDER]

FOLDER holds adult_train.parquet and adult_test.parquet; without it, columns are drawn in Adult's shape, 45,222 rows and
41 features. The last line is one JSON object:

* ``times_faster_than_mpyc``: MPyC's seconds over the median of ours;
* ``seconds``, ``mpyc_seconds``, ``processor_seconds`` (of all our processes together), ``coefficients``, ``features``;
* ``session_seconds``: with what comes before, from connected strangers: introductions, alignment of equal ids,
  calibration of the noise, comparison of plans;
* ``accuracy``: of the model on its own rows, and ``majority``, what the larger class alone would give.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from loopback import LOOPBACK, connect
from opponents import measured_against
from players import ONE_THREAD, heard, say
from public_data import adult

from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.labels import ClassLabel, Label
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.functional.method import minimise, opened_objective
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.functional.protocol import integer_rows, open_objective
from colonnade.protocols import plans as specs
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import prepare
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import run_as

OWNERS = ("party1", "party2", "party3", "party4")
GROUP = Group.of(OWNERS, active="party1")
ROWS, FEATURES = 45_222, 41
SPEC = TrainingSpec("classification", 1.0, delta=1e-5, options=FunctionalOptions(domain="box"))


def tables_of(folder: Path | None) -> dict[str, Table]:
    """Adult among four parties, or columns of the same shape; the same in every process that asks."""
    if folder is None:
        draw = np.random.default_rng(1)
        columns: tuple[Column, ...] = tuple(NumericColumn(f"x{i}", -1, 1) for i in range(FEATURES))
        rows = {column.name: draw.uniform(-1, 1, ROWS) for column in columns}
        score = sum(rows[f"x{number}"] * (-1) ** number for number in range(0, FEATURES, 4))
        label: Label = ClassLabel("income", ("low", "high"))
        labels = np.where(score + draw.logistic(size=ROWS) > 1.0, "high", "low")
    else:
        found = adult(folder)
        columns, rows, label, labels = found.columns, found.rows, found.label, found.labels
    tables = {}
    for name, mine in zip(OWNERS, np.array_split(np.arange(len(columns)), len(OWNERS)), strict=True):
        held = tuple(columns[number] for number in mine)
        arrays = {column.name: rows[column.name] for column in held}
        if name == GROUP.active:
            arrays[label.column] = labels
        schema = Schema("row", held, label if name == GROUP.active else None)
        tables[name] = Table.from_arrays(name, arrays, schema)
    return tables


async def play(name: str, ports: dict[str, int], folder: Path | None) -> None:
    """One party: connect, then train once for every line on standard input."""
    channel = await connect(name, ports)
    ledger = Ledger.in_memory(name)
    ledger.set_budget(name, "*", "*", epsilon=1e6, delta=1e-5)
    table = tables_of(folder).get(name)
    party = Party(name=name, group=GROUP, channel=channel, ledger=ledger, dataset=name, timeout=600.0)

    async def program(party: Party) -> None:
        while await asyncio.to_thread(sys.stdin.readline):
            specs._planned.cache_clear()  # so that calibration is done anew
            once = replace(party, numbers={}, opened=set(), run="", seeded=False)
            aligned, plan = await prepare(once, table, SPEC, FunctionalPlan)
            print(json.dumps({"done": time.perf_counter()}), flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            started = time.process_time()
            opened = await open_objective(once, aligned, plan)
            answer: dict[str, Any] = {}
            if once.is_server:
                found = minimise(opened_objective(opened))
                answer = {"weights": found.weights.tolist(), "intercept": found.intercept}
            answer |= {"done": time.perf_counter(), "processor": time.process_time() - started}
            print(json.dumps(answer | {"coefficients": opened.coefficients.tolist()}), flush=True)

    print(json.dumps("ready"), flush=True)
    await run_as(party, program)
    await channel.close()


def trained(
    folder: Path | None, repeats: int
) -> tuple[list[float], list[float], list[float], dict[str, Any]]:
    """Seconds of each training after a first, of what came before it, processor seconds; and the last model."""
    listening = [socket.create_server((LOOPBACK, 0)) for _ in GROUP.members]
    ports = {name: each.getsockname()[1] for name, each in zip(GROUP.members, listening, strict=True)}
    for each in listening:
        each.close()
    command = [sys.executable, str(Path(__file__).resolve()), "--play"]
    data = [] if folder is None else ["--data", str(folder)]
    processes = {
        name: subprocess.Popen(
            [*command, name, json.dumps(ports), *data],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        for name in GROUP.members
    }

    def all_do(verb: str) -> tuple[float, dict[str, Any]]:
        """Seconds until the last, or for training until the server, is done; processes read one monotonic clock."""
        start = time.perf_counter()
        for process in processes.values():
            say(process, verb)
        lines = {name: heard(process) for name, process in processes.items()}
        if not all(lines.values()):
            raise SystemExit(f"{', '.join(name for name, line in lines.items() if not line)} stopped")
        answers = {name: json.loads(line) for name, line in lines.items()}
        last = max(answer["done"] for answer in answers.values())
        return (answers[GROUP.server]["done"] if verb == "train" else last) - start, answers

    seconds, before, processor = [], [], []
    answers: dict[str, Any] = {}
    for name, process in processes.items():
        if not heard(process):
            raise SystemExit(f"{name} could not begin")
    for _ in range(repeats + 1):
        before.append(all_do("prepare")[0])
        used, answers = all_do("train")
        seconds.append(used)
        processor.append(sum(answer["processor"] for answer in answers.values()))
    for process in processes.values():
        process.communicate()
    return seconds[1:], before[1:], processor[1:], answers[GROUP.server]


def checked(folder: Path | None, model: dict[str, Any]) -> dict[str, Any]:
    """What the model is worth, after its coefficients were compared with the exact ones within the noise's reach."""
    tables = tables_of(folder)
    rows = tables[OWNERS[0]].rows
    plan = SPEC.plan(GROUP, tuple(table.public() for table in tables.values()), rows)
    blocks = {owner: next(table.blocks(rows)) for owner, table in tables.items()}
    dealt = [integer_rows(plan, owner, block) for owner, block in blocks.items()]
    joint = np.concatenate(dealt, axis=1).astype(np.float64)
    products = joint.T @ joint
    exact = np.concatenate([products[block.left, block.right] for block in plan.dissection.blocks])
    if np.abs(np.array(model["coefficients"]) - exact).max() > plan.noises[0].extent(GROUP) + 2.0**20:
        raise SystemExit("the opened coefficients are not the objective plus its noise")
    scores = joint[:, plan.dissection.features] / plan.gamma @ np.array(model["weights"]) + model["intercept"]
    positive = joint[:, plan.dissection.label] > 0
    return {
        "rows": rows,
        "features": len(plan.dissection.features),
        "coefficients": plan.dissection.coefficients,
        "noise": str(plan.noises[0]),
        "accuracy": round(float(((scores > 0) == positive).mean()), 4),
        "majority": round(float(max(positive.mean(), 1 - positive.mean())), 4),
        "bits": (2 * plan.row.largest).bit_length(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--data", type=Path, help="the folder with the Adult files")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--alone", action="store_true", help="leave MPyC out")
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        asyncio.run(play(arguments.play[0], json.loads(arguments.play[1]), arguments.data))
        return
    seconds, before, processor, model = trained(arguments.data, arguments.repeats)
    figures = checked(arguments.data, model)
    figures["seconds"] = round(statistics.median(seconds), 4)
    figures["session_seconds"] = round(statistics.median(map(sum, zip(seconds, before, strict=True))), 4)
    figures["processor_seconds"] = round(statistics.median(processor), 4)
    bits = figures.pop("bits")
    if not arguments.alone:
        mpyc = measured_against("mpyc_gram.py", figures["rows"], figures["features"] + 1, len(OWNERS), bits)
        figures["mpyc_seconds"] = round(mpyc["seconds"], 2)
        figures["times_faster_than_mpyc"] = round(mpyc["seconds"] / statistics.median(seconds), 1)
    if not arguments.json:
        for name, value in figures.items():
            print(f"{name:24} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
