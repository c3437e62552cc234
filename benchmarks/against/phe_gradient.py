"""Some batches of the encrypted gradient of `encrypted.py` written with phe, on integers of the same size.

Two owners with a key each; per batch each encrypts one number a record, the other multiplies by its integer columns,
sums, masks uniformly modulo N, and has the sums decrypted. phe is given plain integers, its fastest path: its own
floating encoding would use longer exponents. It has no packing. Runs in the opponents' environment.
"""

from __future__ import annotations

import json
import random
import sys
import time

from phe import paillier, util


def one_way(public, private, messages, columns) -> None:
    """Σ m·x for every column of the receiver, under the sender's key."""
    encrypted = [public.encrypt(message) for message in messages]
    width = len(columns[0])
    masks = [random.SystemRandom().randrange(public.n) for _ in range(width)]
    leaving = []
    for column, mask in enumerate(masks):
        total = encrypted[0] * columns[0][column]
        for number, row in zip(encrypted[1:], columns[1:], strict=True):
            total = total + number * row[column]
        total = total + paillier.EncryptedNumber(public, public.raw_encrypt(mask))
        leaving.append(total.ciphertext(be_secure=True))
    opened = [
        (private.raw_decrypt(value) - mask) % public.n for value, mask in zip(leaving, masks, strict=True)
    ]
    for column, value in enumerate(opened):
        exact = sum(message * row[column] for message, row in zip(messages, columns, strict=True))
        if value != exact % public.n:
            raise SystemExit("phe gave another sum")


def main(bits: int, batch: int, first: int, second: int, message: int, entry: int, batches: int) -> None:
    draw = random.Random(batch)
    keys = [paillier.generate_paillier_keypair(n_length=bits) for _ in range(2)]
    wall, cpu = 0.0, 0.0
    for _ in range(batches):
        both = [
            (
                [draw.randrange(-message, message + 1) for _ in range(batch)],
                [[draw.randrange(-entry, entry + 1) for _ in range(width)] for _ in range(batch)],
            )
            for width in (first, second)
        ]
        start, started = time.perf_counter(), time.process_time()
        for (public, private), (messages, columns) in zip(keys, both, strict=True):
            one_way(public, private, messages, columns)
        wall += time.perf_counter() - start
        cpu += time.process_time() - started
    print(json.dumps({"wall": wall / batches, "cpu": cpu / batches, "gmpy2": util.HAVE_GMP}))


main(*map(int, sys.argv[1:]))
