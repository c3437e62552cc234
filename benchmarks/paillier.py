"""One mini-batch under Paillier beside the same mini-batch with phe, both measured in this run.

256 encrypted scalars times a 256 × 12 matrix of fixed-point numbers (32 fraction bits), masked uniformly modulo N,
re-randomised, decrypted and checked against the exact integers; a 2048-bit key on both sides. Here the twelve results
travel packed in one ciphertext. The table is made once a key and is not part of a batch; `table_seconds` says what it
costs.

* ``times_faster_than_phe``: phe's processor seconds over ours, medians: what a second core adds here does not count.
* ``times_faster_by_the_clock``: the same by wall clock; batches use every core here, phe one.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

import numpy as np
from opponents import measured_against

from colonnade.crypto.paillier import Ciphertexts, Encryptor, PrivateKey, decrypt_any_size
from colonnade.crypto.paillier_vectors import Fields, UniformMask, masked, packed, times_matrix
from colonnade.randomness import SystemRandomness

BITS, SAMPLES, FEATURES, FRACTION_BITS = 2048, 256, 12, 32


def batch(private: PrivateKey, owner: Encryptor, scalars: list[int], matrix: np.ndarray) -> tuple[int, ...]:
    """Everything both sides compute, through the bytes they would send."""
    sent = owner.encrypt(scalars).to_bytes()
    received = Ciphertexts.from_bytes(private.public, sent, count=len(scalars))
    product = times_matrix(received, matrix, bits=FRACTION_BITS + 2)
    # A sum of so many products of two numbers of f fraction bits, with its sign.
    width = 2 * FRACTION_BITS + (len(scalars) - 1).bit_length() + 2
    fields = Fields(width, matrix.shape[1])
    mask = UniformMask(private.public.modulus)
    masks = mask.draw(1, owner.randomness)
    leaving = masked(packed(product, fields), masks, owner.randomness).to_bytes()
    opened = decrypt_any_size(private, Ciphertexts.from_bytes(private.public, leaving, count=1))
    return fields.unpack(mask.unmask(opened, masks)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    draw = random.Random(SAMPLES)
    step = 1 << FRACTION_BITS
    scalars = [draw.randrange(-step, step + 1) for _ in range(SAMPLES)]
    rows = [[draw.randrange(-step, step + 1) for _ in range(FEATURES)] for _ in range(SAMPLES)]
    matrix = np.array(rows, dtype=np.int64)
    exact = tuple(sum(s * row[j] for s, row in zip(scalars, rows, strict=True)) for j in range(FEATURES))

    source = SystemRandomness()
    private = PrivateKey.generate(source, BITS)
    batch(private, Encryptor.for_owner(private, source), scalars, matrix)
    start = time.perf_counter()
    owner = Encryptor.for_owner(private, source)
    table_seconds = time.perf_counter() - start
    wall, cpu = [], []
    for _ in range(arguments.repeats):
        start, started = time.perf_counter(), time.process_time()
        result = batch(private, owner, scalars, matrix)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - started)
        if result != exact:
            raise SystemExit("the decrypted product is not the exact product")
    phe = measured_against("phe_batch.py", BITS, SAMPLES, FEATURES, FRACTION_BITS, 3)
    figures = {
        "times_faster_than_phe": round(phe["cpu"] / statistics.median(cpu), 1),
        "times_faster_by_the_clock": round(phe["wall"] / statistics.median(wall), 1),
        "batch_seconds": round(statistics.median(wall), 4),
        "batch_processor_seconds": round(statistics.median(cpu), 4),
        "phe_seconds": round(phe["wall"], 3),
        "phe_processor_seconds": round(phe["cpu"], 3),
        "phe_uses_gmpy2": phe["gmpy2"],
        "table_seconds": round(table_seconds, 3),
    }
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
