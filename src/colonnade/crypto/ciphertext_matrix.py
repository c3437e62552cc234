"""Linear algebra on ciphertexts: an encrypted vector times a matrix in the clear, packed and masked.

Every function returns ciphertexts that are right but not fresh: the randomness in them is a function of
the matrix. `rerandomised` is due before they leave, and `masked` does it.
"""

from __future__ import annotations

from collections.abc import Sequence

import gmpy2
import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.modular import Modulus
from colonnade.crypto.multi_product import products_of_powers
from colonnade.crypto.packing import Fields
from colonnade.crypto.paillier import Ciphertexts, rerandomised
from colonnade.randomness import Randomness


def times_matrix(vector: Ciphertexts, matrix: NDArray[np.int64], *, bits: int) -> Ciphertexts:
    """Encryptions of Σ_i v_i · matrix[i, j], one a column; entries in [−2^(bits−1), 2^(bits−1)).

    `bits` is agreed in the plan and not measured, so that the time taken does not depend on the entries.
    """
    modulus = Modulus(vector.key.modulus_squared)
    values = products_of_powers(modulus, vector.values, matrix, bits=bits)
    return Ciphertexts(vector.key, tuple(int(value) for value in values))


def added(left: Ciphertexts, right: Ciphertexts) -> Ciphertexts:
    if left.key != right.key:
        raise ValueError("ciphertexts of two keys cannot be added")
    square = gmpy2.mpz(left.key.modulus_squared)
    return Ciphertexts(
        left.key, tuple(int(a * b % square) for a, b in zip(left.values, right.values, strict=True))
    )


def packed(ciphertexts: Ciphertexts, fields: Fields) -> Ciphertexts:
    """The ciphertexts, `fields.count` at a time in one: Σ_j v_j · 2^(ι·j), by squaring from the top.

    The last one is filled with zeros. Whoever packs guarantees |v_j| < 2^(ι−1).
    """
    if fields.bits >= ciphertexts.key.bits:
        raise ValueError(
            f"{fields.count} fields of {fields.width} bits do not fit in a key of {ciphertexts.key.bits} bits"
        )
    square = gmpy2.mpz(ciphertexts.key.modulus_squared)
    shift = gmpy2.mpz(1) << fields.width
    results = []
    for start in range(0, len(ciphertexts), fields.count):
        together = gmpy2.mpz(1)
        for value in reversed(ciphertexts.values[start : start + fields.count]):
            together = gmpy2.powmod(together, shift, square) * value % square
        results.append(int(together))
    return Ciphertexts(ciphertexts.key, tuple(results))


def masked(ciphertexts: Ciphertexts, masks: Sequence[int], randomness: Randomness) -> Ciphertexts:
    """Fresh encryptions of v + r modulo N, ready to leave.

    The mask hides the plaintext from the key's owner; the fresh random part hides how the ciphertext was
    computed, which the owner could otherwise read from it.
    """
    modulus, square = gmpy2.mpz(ciphertexts.key.modulus), gmpy2.mpz(ciphertexts.key.modulus_squared)
    shifted = (
        int((value + value * int(mask) % modulus * modulus) % square)
        for value, mask in zip(ciphertexts.values, masks, strict=True)
    )
    return rerandomised(Ciphertexts(ciphertexts.key, tuple(shifted)), randomness)
