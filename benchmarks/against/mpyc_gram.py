"""The secure product of `gram.py` with MPyC, on integers of the same size. Runs in the opponents' environment.

MPyC's vectorised way: secure arrays over a prime field that holds the result; owners deal their columns,
`np_matmul` multiplies and reduces the degree, party 0 receives. Only the blocks on and above the diagonal
are multiplied. Two owners: party 0 is the server and owns nothing; four: the parties are the owners.
Timed at the receiver, from a round that everybody joined, with its integers in secure arrays, to the opened matrix.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from itertools import pairwise

import numpy as np

rows, columns, owners, bits = (int(argument) for argument in sys.argv[1:5])
processes = max(3, owners)
# MPyC reads its own options from the command line, and starts the other parties with -M.
sys.argv[5:] = sys.argv[5:] or [f"-M{processes}", "-T1", "--no-log"]

from mpyc.runtime import mpc


async def main() -> None:
    field = mpc.SecFld(min_order=rows << (2 * bits))
    first_owner = processes - owners
    edges = [columns * place // owners for place in range(owners + 1)]
    widths = [right - left for left, right in pairwise(edges)]
    if mpc.pid >= first_owner:
        draw = np.random.default_rng(secrets.randbits(64))
        mine = draw.integers(-(1 << bits - 1), 1 << bits - 1, (rows, widths[mpc.pid - first_owner]))
    places = [field.array(np.zeros((rows, width), dtype=object)) for width in widths]
    if mpc.pid >= first_owner:
        places[mpc.pid - first_owner] = field.array(mine.astype(object))
    await mpc.start()
    await mpc.output(mpc.input(field(1), senders=0))
    start = time.perf_counter()
    shared = [mpc.input(array, senders=first_owner + owner) for owner, array in enumerate(places)]
    opened = [
        mpc.output(mpc.np_matmul(mpc.np_transpose(left), right), receivers=0)
        for index, left in enumerate(shared)
        for right in shared[index:]
    ]
    opened = [await block for block in opened]
    seconds = time.perf_counter() - start
    # Untimed: the owners show their integers, and the receiver compares.
    plain = await mpc.transfer(
        None if mpc.pid < first_owner else mine, senders=range(first_owner, processes), receivers=0
    )
    if mpc.pid == 0:
        exact = [left.T @ right for index, left in enumerate(plain) for right in plain[index:]]
        for ours, theirs in zip(exact, opened, strict=True):
            if not np.array_equal(np.array(theirs.value) % field.field.modulus, ours % field.field.modulus):
                raise SystemExit("MPyC's product is not exact")
        print(
            json.dumps(
                {"seconds": seconds, "processes": processes, "field_bits": field.field.modulus.bit_length()}
            )
        )
    await mpc.shutdown()


mpc.run(main())
