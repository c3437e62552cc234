"""What exact shared arithmetic costs beside plain float64 BLAS, in one process and on one thread.

Two owners and a server, 45,222 × 41 integers of 16 bits: encode, deal, pack, unpack and check, expand seeds, three
gram matrices, open. `ratio` is the processor time of all parties together over one XᵀX of the same integers by
BLAS. Exactness is checked on every run.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from colonnade.crypto.sharing import Seed, Shamir
from colonnade.numbers.field import FIELD63, FIELD126, Field, FieldArray, GramSum
from colonnade.randomness import SystemRandomness

ROWS, COLUMNS, BLOCK = 45_222, 41, 4096


def processor_seconds(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return float(np.median(times))


def shared_gram(field: Field, tables: list[np.ndarray], computing_parties: int) -> np.ndarray:
    """Every party's work for one opening, one after the other, through the bytes they would send."""
    scheme, source = Shamir(computing_parties, field), SystemRandomness()
    sums = [GramSum(field, sum(table.shape[1] for table in tables)) for _ in range(computing_parties)]
    for start in range(0, len(tables[0]), BLOCK):
        blocks = [field.encode(table[start : start + BLOCK]) for table in tables]
        dealt = [scheme.deal(block, scheme.threshold, source) for block in blocks]
        for computing_party, running in enumerate(sums):
            received = []
            for pieces in dealt:
                piece = pieces[computing_party]
                if not isinstance(piece, Seed):
                    piece = FieldArray.from_bytes(field, piece.shape, piece.to_bytes())
                received.append(scheme.expand(piece))
            running.add(*received)
    return scheme.reconstruct([running.value() for running in sums], 2 * scheme.threshold).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()

    values = np.random.default_rng(0).integers(-(2**15), 2**15, (ROWS, COLUMNS))
    tables = [np.ascontiguousarray(values[:, :20]), np.ascontiguousarray(values[:, 20:])]
    floats = values.astype(np.float64)
    plain = processor_seconds(lambda: [floats.T @ floats for _ in range(10)], arguments.repeats) / 10
    result: dict[str, float] = {"rows": ROWS, "columns": COLUMNS, "plain_ms": 1e3 * plain}
    for name, field, computing_parties in (
        ("63", FIELD63, 3),
        ("126", FIELD126, 3),
        ("63_five_computing_parties", FIELD63, 5),
    ):
        if not np.array_equal(shared_gram(field, tables, computing_parties), values.T @ values):
            raise SystemExit(f"the shared product over {name} bits is not exact")
        seconds = processor_seconds(partial(shared_gram, field, tables, computing_parties), arguments.repeats)
        result[f"shared_{name}_ms"] = 1e3 * seconds
        result[f"ratio_{name}"] = seconds / plain
    rounded = {name: round(value, 2) for name, value in result.items()}
    if arguments.json:
        print(json.dumps(rounded))
    else:
        for name, value in rounded.items():
            print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
