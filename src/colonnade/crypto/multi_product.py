"""Many products of powers of the same bases: Π_i base_i^(x_ij) for every column j of an integer matrix.

Every (column, bit position) pair is one output, a product of the subset of bases whose exponent has that
bit. The bases are taken in small groups; all 2^g subset products of a group are made once, one product each,
and every output then picks the one it needs (Pippenger's multi-product; for one column of bits it is the
method of the four Russians). Exponents are read in two's complement, so the top bit of a column has weight
−2^(bits−1) and one inversion a column serves all its negative entries.

Source: N. Pippenger, "On the evaluation of powers and monomials" (1980).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.cores import pieces, usable_cores
from colonnade.crypto.modular import Modulus, Residues
from colonnade.crypto.modular_kernel import LANES, compiled, multiply_lanes

_LARGEST_GROUP = 10
# int64 holds a two's complement number of at most this many bits.
MOST_BITS = 64


def group_size(outputs: int) -> int:
    """How many bases to take together for so many outputs: the least (2^g + outputs)/g."""
    return min(range(1, _LARGEST_GROUP + 1), key=lambda size: ((1 << size) + outputs) / size)


@compiled
def _accumulate(
    bases: Any, matrix: Any, bits: int, group: int, one: Any, modulus: Any, negated_inverse: Any, outputs: Any
) -> None:
    """outputs[j·bits + s] := Π of the bases i whose entry matrix[i, j] has bit s."""
    count, limbs = bases.shape
    columns = matrix.shape[1]
    wanted = columns * bits
    subsets = np.zeros((1 << group, limbs), np.uint32)
    left, right = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    picks = np.zeros(LANES, np.int64)
    for start in range(0, count, group):
        size = min(group, count - start)
        subsets[0] = one
        for member in range(size):
            subsets[1 << member] = bases[start + member]
            for lane in range(LANES):
                for limb in range(limbs):
                    right[limb, lane] = bases[start + member, limb]
            for first in range(1, 1 << member, LANES):
                width = min(LANES, (1 << member) - first)
                for lane in range(width):
                    for limb in range(limbs):
                        left[limb, lane] = subsets[first + lane, limb]
                multiply_lanes(left, right, modulus, negated_inverse, scratch, left)
                for lane in range(width):
                    for limb in range(limbs):
                        subsets[(1 << member) + first + lane, limb] = left[limb, lane]
        for first in range(0, wanted, LANES):
            width = min(LANES, wanted - first)
            for lane in range(width):
                column, bit = (first + lane) // bits, (first + lane) % bits
                pick = 0
                for member in range(size):
                    pick |= ((matrix[start + member, column] >> bit) & 1) << member
                picks[lane] = pick
            if start == 0:
                for lane in range(width):
                    outputs[first + lane] = subsets[picks[lane]]
                continue
            for lane in range(width):
                for limb in range(limbs):
                    left[limb, lane] = outputs[first + lane, limb]
                    right[limb, lane] = subsets[picks[lane], limb]
            multiply_lanes(left, right, modulus, negated_inverse, scratch, left)
            for lane in range(width):
                for limb in range(limbs):
                    outputs[first + lane, limb] = left[limb, lane]


def products_of_powers(
    modulus: Modulus, bases: Sequence[int], matrix: NDArray[np.int64], *, bits: int
) -> list[int]:
    """Π_i bases[i]^matrix[i, j] modulo n for every column j; entries in [−2^(bits−1), 2^(bits−1)).

    The running time depends on the shape and on `bits`, not on the entries.
    """
    rows, columns = matrix.shape
    if rows != len(bases) or rows == 0 or columns == 0:
        raise ValueError(f"{len(bases)} bases cannot meet a matrix of shape {matrix.shape}")
    if not 2 <= bits <= MOST_BITS:
        raise ValueError(f"an exponent has 2 to {MOST_BITS} bits, not {bits}")
    limit = 1 << (bits - 1)
    if int(matrix.min()) < -limit or int(matrix.max()) >= limit:
        raise ValueError(f"an exponent does not fit in {bits} bits with its sign")
    entered, matrix = modulus.enter(bases), np.ascontiguousarray(matrix, dtype=np.int64)
    group = group_size(columns * bits)

    def work(piece: slice) -> Residues:
        partial = np.empty((columns * bits, modulus.limbs), dtype=np.uint32)
        _accumulate(
            entered[piece],
            matrix[piece],
            bits,
            group,
            modulus.one,
            modulus.words,
            modulus.negated_inverse,
            partial,
        )
        return partial

    with ThreadPoolExecutor(usable_cores()) as threads:
        partials = list(threads.map(work, pieces(rows, smallest=group)))
    outputs = partials[0]
    for partial in partials[1:]:
        outputs = modulus.multiply(outputs, partial)
    by_bit = outputs.reshape(columns, bits, modulus.limbs)
    top = modulus.leave(by_bit[:, bits - 1])
    result = modulus.enter([int(gmpy2.invert(value, modulus.value)) for value in top])
    for bit in range(bits - 2, -1, -1):
        result = modulus.multiply(modulus.multiply(result, result), by_bit[:, bit])
    return modulus.leave(result)
