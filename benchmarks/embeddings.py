"""What privacy adds to a step of split training: embeddings quantised, masked and summed, against embeddings as such.

Five parties with six columns each and a label holder, all in this process: three dense layers per party, P = 16,
batches of 100, b = 16. Both steps embed, send, fuse, return the gradient and learn locally over the same channels; the
private one draws binomial counts, masks them and sums modulo 2^k. Runs alternate, and the time between epochs is
divided by their steps, so that meeting, planning and accounting are left out of both.

* ``ratio_to_nonprivate``: seconds of a private step over those of a non-private one, medians.
* ``bytes_over_formula``: bytes on the channels over T·B·M·P(log₂(bM) + F), F = 32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation, Hooks
from colonnade.methods.network.estimators import NeuralClassifier
from colonnade.methods.network.plan import Mechanism

PARTIES, COLUMNS, ROWS, BATCH, EMBEDDING, TRIALS = 5, 6, 2000, 100, 16, 16
LABEL = '[label]\ncolumn = "y"\nkind = "classes"\nclasses = ["0", "1"]\n'


def federation() -> Federation:
    """Random rows: nothing here depends on what they say."""
    generator = np.random.default_rng(0)
    names = [f"x{column}" for column in range(COLUMNS)]
    declared = "".join(f'columns.{name} = {{kind = "numeric", low = 0, high = 1}}\n' for name in names)
    tables = [
        Table.from_arrays("h", {"y": generator.integers(0, 2, ROWS)}, Schema.parse(f'id = "n"\n{LABEL}'))
    ]
    for party in range(PARTIES):
        arrays = {name: generator.random(ROWS) for name in names}
        tables.append(Table.from_arrays(f"p{party}", arrays, Schema.parse(f'id = "n"\n{declared}')))
    return Federation(tables, budget=(1.0, 1e-5), public=True)


def seconds_of_a_step(mechanism: Mechanism, *, epochs: int) -> tuple[float, float]:
    """Median seconds of a step, and the bytes sent over the formula's."""
    stamps: list[float] = []
    hooks = Hooks(
        lambda step, _done, _total: stamps.append(time.perf_counter()) if step == "epochs" else None
    )
    parties = federation().with_hooks(hooks)
    model = NeuralClassifier(
        regime="paper",
        mechanism=mechanism,
        beta=None if mechanism == "none" else 0.25,
        trials=TRIALS,
        embedding=EMBEDDING,
        batch=BATCH,
        epochs=epochs,
    ).fit(parties)
    epoch = statistics.median(np.diff(stamps))
    if model.plan_ is None or model.communication_ is None:
        raise SystemExit("the network was not trained")
    return float(epoch / model.plan_.steps_in_epoch), model.communication_.over_formula


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seconds_of_a_step("poisson-binomial", epochs=2)  # compiles kernels
    private, plain, over = [], [], 0.0
    for _ in range(arguments.repeats):
        plain.append(seconds_of_a_step("none", epochs=arguments.epochs)[0])
        step, over = seconds_of_a_step("poisson-binomial", epochs=arguments.epochs)
        private.append(step)
    figures = {
        "ratio_to_nonprivate": round(statistics.median(private) / statistics.median(plain), 3),
        "bytes_over_formula": round(over, 4),
        "private_step_milliseconds": round(1e3 * statistics.median(private), 3),
        "plain_step_milliseconds": round(1e3 * statistics.median(plain), 3),
        "parties": PARTIES,
        "embedding": EMBEDDING,
        "batch": BATCH,
        "trials": TRIALS,
    }
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
