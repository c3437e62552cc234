"""One epoch of the encrypted gradient beside the same protocol written with phe, both measured in this run.

30,000 people, 13 columns at the owner of the label and 10 at the other, batches of 256, keys of 2048 bits. Ours is
the whole session in one process, from greeting to farewell, with keys, proofs, noise, masks, checks of every
ciphertext and the sound defence; planning is not counted. phe does the arithmetic of Protocol 1 only (encrypt,
multiply, add, mask, decrypt) on integers of the same size; it is timed on `--phe-batches` of the batches and scaled
to all of them, because an epoch takes it about a quarter of an hour.

* ``times_faster_than_phe``: phe's processor seconds over ours, so that a second core does not count.
* ``times_faster_by_the_clock``: the same by wall clock; we use every core, phe one.
"""

from __future__ import annotations

import argparse
import json
import math
import time

import numpy as np
from opponents import measured_against

from colonnade import Federation, Schema, Table
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.encrypted.protocol import encrypted_session
from colonnade.protocols.plans import TrainingSpec

ROWS, FIRST, SECOND, BATCH, BITS = 30_000, 13, 10, 256, 2048


def table(party: str, width: int, rows: int, *, label: bool) -> Table:
    rng = np.random.default_rng(width)
    columns = {f"{party}{i}": rng.uniform(0, 1, rows) for i in range(width)}
    text = 'id = "n"\n' + "".join(
        f'columns.{name} = {{kind = "numeric", low = 0, high = 1}}\n' for name in columns
    )
    arrays: dict[str, np.ndarray] = dict(columns)
    if label:
        text += 'label = {column = "y", kind = "classes", classes = ["no", "yes"]}'
        arrays["y"] = np.where(columns[f"{party}0"] > 0.5, "yes", "no")
    return Table.from_arrays(party, arrays, Schema.parse(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--phe-batches", type=int, default=4)
    arguments = parser.parse_args()
    tables = [
        table("bank", FIRST, arguments.rows, label=True),
        table("insurer", SECOND, arguments.rows, label=False),
    ]
    federation = Federation(tables, budget=(10.0, 1e-5), alignment="equal")
    request = TrainingSpec(
        "classification", 1.0, delta=1e-5, options=EncryptedOptions(epochs=1, batch=BATCH), alignment="equal"
    )
    schemas = tuple(item.public() for item in tables)
    small = TrainingSpec(
        "classification", 1.0, delta=1e-5, options=EncryptedOptions(epochs=1, batch=8), alignment="equal"
    )
    warm = [table("bank", FIRST, 16, label=True), table("insurer", SECOND, 16, label=False)]
    Federation(warm, budget=(10.0, 1e-5), alignment="equal").run(
        encrypted_session, small
    )  # compiles the kernels
    plan = request.plan(federation.group, schemas, arguments.rows)
    start, started = time.perf_counter(), time.process_time()
    run = federation.run(encrypted_session, request)
    wall, cpu = time.perf_counter() - start, time.process_time() - started
    batches = plan.schedule.steps
    message = max(plan.clips.values())
    entry = max(math.isqrt(quantizer.norm_squared_bound) for quantizer in plan.quantizers.values())
    entry = max(1, entry // math.isqrt(max(FIRST, SECOND)))  # a column's part of the longest row
    phe = measured_against(
        "phe_gradient.py", BITS, BATCH, SECOND, FIRST, message, entry, arguments.phe_batches
    )
    figures = {
        "times_faster_than_phe": round(phe["cpu"] * batches / cpu, 1),
        "times_faster_by_the_clock": round(phe["wall"] * batches / wall, 1),
        "epoch_seconds": round(wall, 2),
        "epoch_processor_seconds": round(cpu, 2),
        "phe_epoch_seconds": round(phe["wall"] * batches, 1),
        "phe_epoch_processor_seconds": round(phe["cpu"] * batches, 1),
        "phe_batches_measured": arguments.phe_batches,
        "batches": batches,
        "bytes_sent": run.outcome.bytes_sent,
        "phe_uses_gmpy2": phe["gmpy2"],
    }
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
