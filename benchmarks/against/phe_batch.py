"""The mini-batch of `paillier.py` done with phe, on the same integers. Runs in the opponents' environment.

phe is given plain integers, its fastest path: its own floating encoding would use longer exponents.
"""

from __future__ import annotations

import json
import random
import sys
import time

from phe import paillier, util


def main(bits: int, samples: int, features: int, fraction_bits: int, repeats: int) -> None:
    draw = random.Random(samples)
    step = 1 << fraction_bits
    scalars = [draw.randrange(-step, step + 1) for _ in range(samples)]
    matrix = [[draw.randrange(-step, step + 1) for _ in range(features)] for _ in range(samples)]
    public, private = paillier.generate_paillier_keypair(n_length=bits)
    wall, cpu = [], []
    for _ in range(repeats):
        start, started = time.perf_counter(), time.process_time()
        encrypted = [public.encrypt(scalar) for scalar in scalars]
        masks = [random.SystemRandom().randrange(public.n) for _ in range(features)]
        leaving = []
        for column, mask in enumerate(masks):
            total = encrypted[0] * matrix[0][column]
            for number, row in zip(encrypted[1:], matrix[1:], strict=True):
                total = total + number * row[column]
            total = total + paillier.EncryptedNumber(public, public.raw_encrypt(mask))
            leaving.append(total.ciphertext(be_secure=True))
        opened = [
            (private.raw_decrypt(value) - mask) % public.n for value, mask in zip(leaving, masks, strict=True)
        ]
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - started)
        for column, value in enumerate(opened):
            expected = sum(scalar * row[column] for scalar, row in zip(scalars, matrix, strict=True))
            if value != expected % public.n:
                raise SystemExit("phe gave another product")
    print(
        json.dumps(
            {"wall": sorted(wall)[repeats // 2], "cpu": sorted(cpu)[repeats // 2], "gmpy2": util.HAVE_GMP}
        )
    )


main(*map(int, sys.argv[1:]))
