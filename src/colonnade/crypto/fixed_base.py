"""Many powers of one base: a table holds every power a single byte of an exponent can ask for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.cores import pieces, usable_cores
from colonnade.crypto.modular import Modulus, Residues
from colonnade.crypto.modular_kernel import LANES, compiled, multiply_lanes

_DIGITS = 256


@compiled
def _fill_tables(steps: Any, one: Any, modulus: Any, negated_inverse: Any, tables: Any) -> None:
    """tables[i, d] := steps[i]^d; four windows side by side."""
    windows, _, limbs = tables.shape
    factor, power = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    for start in range(0, windows, LANES):
        width = min(LANES, windows - start)
        for lane in range(width):
            for limb in range(limbs):
                factor[limb, lane] = steps[start + lane, limb]
                power[limb, lane] = one[limb]
        for digit in range(_DIGITS):
            for lane in range(width):
                for limb in range(limbs):
                    tables[start + lane, digit, limb] = power[limb, lane]
            multiply_lanes(power, factor, modulus, negated_inverse, scratch, power)


@compiled
def _multiply_entries(tables: Any, exponents: Any, modulus: Any, negated_inverse: Any, out: Any) -> None:
    """out[k] := Π_i tables[i, exponents[k, i]]; four exponents side by side."""
    count, windows = exponents.shape
    limbs = tables.shape[2]
    entry, product = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    for start in range(0, count, LANES):
        width = min(LANES, count - start)
        for lane in range(width):
            row = tables[0, exponents[start + lane, 0]]
            for limb in range(limbs):
                product[limb, lane] = row[limb]
        for window in range(1, windows):
            for lane in range(width):
                row = tables[window, exponents[start + lane, window]]
                for limb in range(limbs):
                    entry[limb, lane] = row[limb]
            multiply_lanes(product, entry, modulus, negated_inverse, scratch, product)
        for lane in range(width):
            for limb in range(limbs):
                out[start + lane, limb] = product[limb, lane]


@dataclass(frozen=True)
class FixedBase:
    """Powers of one base for exponents of a fixed length in bytes.

    Claim: `powers` takes one product per byte of the exponent and none for squaring, because entry
    (i, d) of the table is base^(d · 256^i).
    """

    modulus: Modulus
    tables: NDArray[np.uint32]

    @classmethod
    def prepare(cls, modulus: Modulus, base: int, *, exponent_bytes: int) -> FixedBase:
        """The table for a base: 256 products a byte of exponent."""
        steps = [base % modulus.value]
        for _ in range(exponent_bytes - 1):
            steps.append(pow(steps[-1], _DIGITS, modulus.value))
        tables = np.empty((exponent_bytes, _DIGITS, modulus.limbs), dtype=np.uint32)
        entered = modulus.enter(steps)

        def fill(piece: slice) -> None:
            _fill_tables(entered[piece], modulus.one, modulus.words, modulus.negated_inverse, tables[piece])

        with ThreadPoolExecutor(usable_cores()) as threads:
            list(threads.map(fill, pieces(exponent_bytes, smallest=LANES)))
        return cls(modulus, tables)

    def powers(self, exponents: NDArray[np.uint8]) -> list[int]:
        """base^e for every row e of little-endian bytes, over all cores."""
        return self.modulus.leave(self.power_residues(exponents))

    def power_residues(self, exponents: NDArray[np.uint8]) -> Residues:
        """As `powers`, in Montgomery form."""
        if exponents.ndim != 2 or exponents.shape[1] != len(self.tables):
            raise ValueError(
                f"exponents must have {len(self.tables)} bytes each, not shape {exponents.shape}"
            )
        out = np.empty((len(exponents), self.modulus.limbs), dtype=np.uint32)

        def work(piece: slice) -> None:
            _multiply_entries(
                self.tables, exponents[piece], self.modulus.words, self.modulus.negated_inverse, out[piece]
            )

        with ThreadPoolExecutor(usable_cores()) as threads:
            list(threads.map(work, pieces(len(exponents), smallest=LANES)))
        return out
