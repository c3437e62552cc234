"""Arithmetic modulo a large odd number on many values at once: products, powers, products of powers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code


def usable_cores() -> int:
    """How many cores the operating system lets this process use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def pieces(count: int, *, smallest: int = 1) -> list[slice]:
    """Contiguous parts of `range(count)`, at most one a core, each but the last a multiple of `smallest`."""
    share = -(-count // usable_cores())
    share = max(smallest, -(-share // smallest) * smallest)
    return [slice(start, min(start + share, count)) for start in range(0, count, share)]


LIMB_BITS = 27
LANES = 4
# 2 · 256 products below 2^54 sum to less than 2^63.
MOST_LIMBS = 256

_LIMB_MASK = np.uint64((1 << LIMB_BITS) - 1)
_LIMB_SHIFT = np.uint64(LIMB_BITS)
_WORD = ir.IntType(64)
_LANES_OF_WORDS = ir.VectorType(_WORD, LANES)

_alloca_once_value: Any = cgutils.alloca_once_value


def _spread(builder: Any, scalar: Any) -> Any:
    vector = ir.Constant(_LANES_OF_WORDS, ir.Undefined)
    for lane in range(LANES):
        vector = builder.insert_element(vector, scalar, ir.Constant(ir.IntType(32), lane))
    return vector


def _rows(
    _typing_context: Any,
    _target: Any,
    _left: Any,
    _right: Any,
    _modulus: Any,
    _negated_inverse: Any,
    _limbs: Any,
) -> Any:
    """target := left · right / R modulo n, limbs not yet carried; every argument but the last two an address."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        target, left, right, modulus, negated_inverse, limbs = arguments
        lanes_pointer = _LANES_OF_WORDS.as_pointer()
        target, left, right = (builder.inttoptr(address, lanes_pointer) for address in (target, left, right))
        modulus = builder.inttoptr(modulus, _WORD.as_pointer())
        limb_mask = ir.Constant(_LANES_OF_WORDS, [(1 << LIMB_BITS) - 1] * LANES)
        low_half = ir.Constant(_LANES_OF_WORDS, [(1 << 32) - 1] * LANES)
        limb_shift = ir.Constant(_LANES_OF_WORDS, [LIMB_BITS] * LANES)
        zero = ir.Constant(_LANES_OF_WORDS, [0] * LANES)

        def index(value: int) -> Any:
            return ir.Constant(_WORD, value)

        def load(pointer: Any, at: Any) -> Any:
            loaded = builder.load(builder.gep(pointer, [at]))
            loaded.align = 8
            return loaded

        def store(value: Any, at: Any) -> None:
            builder.store(value, builder.gep(target, [at])).align = 8

        def times(first: Any, second: Any) -> Any:
            # Masked to 32 bits, the product compiles to one widening multiplication per vector.
            return builder.mul(builder.and_(first, low_half), builder.and_(second, low_half))

        def total(*terms: Any) -> Any:
            result = terms[0]
            for term in terms[1:]:
                result = builder.add(result, term)
            return result

        inverse = _spread(builder, negated_inverse)
        modulus_0 = _spread(builder, load(modulus, index(0)))
        modulus_1 = _spread(builder, load(modulus, index(1)))
        with cgutils.for_range(builder, builder.lshr(limbs, index(1))) as rows:
            row = builder.shl(rows.index, index(1))
            right_0, right_1 = load(right, row), load(right, builder.add(row, index(1)))
            left_0, left_1 = load(left, index(0)), load(left, index(1))
            first = total(load(target, index(0)), times(left_0, right_0))
            quotient_0 = builder.and_(times(first, inverse), limb_mask)
            first = total(first, times(quotient_0, modulus_0))
            second = total(
                load(target, index(1)),
                times(left_1, right_0),
                times(quotient_0, modulus_1),
                builder.lshr(first, limb_shift),
                times(left_0, right_1),
            )
            quotient_1 = builder.and_(times(second, inverse), limb_mask)
            second = total(second, times(quotient_1, modulus_0))
            left_before = _alloca_once_value(builder, left_1)
            modulus_before = _alloca_once_value(builder, modulus_1)
            builder.store(left_1, left_before)
            builder.store(modulus_1, modulus_before)
            with cgutils.for_range(builder, builder.sub(limbs, index(2))) as columns:
                column = builder.add(columns.index, index(2))
                left_here, modulus_here = load(left, column), _spread(builder, load(modulus, column))
                value = total(
                    load(target, column),
                    total(times(left_here, right_0), times(quotient_0, modulus_here)),
                    total(
                        times(builder.load(left_before), right_1),
                        times(quotient_1, builder.load(modulus_before)),
                    ),
                )
                store(value, columns.index)
                builder.store(left_here, left_before)
                builder.store(modulus_here, modulus_before)
            store(total(load(target, index(0)), builder.lshr(second, limb_shift)), index(0))
            last = total(
                times(builder.load(left_before), right_1), times(quotient_1, builder.load(modulus_before))
            )
            store(last, builder.sub(limbs, index(2)))
            store(zero, builder.sub(limbs, index(1)))
        return context.get_dummy_value()

    address = types.uint64
    return types.void(address, address, address, address, types.uint64, types.intp), emit


_accumulate_rows: Any = intrinsic(_rows)


@machine_code
def multiply_lanes(left: Any, right: Any, modulus: Any, negated_inverse: Any, scratch: Any, out: Any) -> None:
    """out := left · right / R, four lanes at once; `out` may be `left` or `right`. Arrays are (limbs, 4)."""
    scratch[:] = 0
    _accumulate_rows(
        scratch.ctypes.data,
        left.ctypes.data,
        right.ctypes.data,
        modulus.ctypes.data,
        negated_inverse,
        modulus.shape[0],
    )
    for lane in range(LANES):
        carry = np.uint64(0)
        for limb in range(modulus.shape[0]):
            carry += scratch[limb, lane]
            out[limb, lane] = carry & _LIMB_MASK
            carry >>= _LIMB_SHIFT


@machine_code
def multiply_rows(left: Any, right: Any, modulus: Any, negated_inverse: Any, out: Any) -> None:
    """out[k] := left[k] · right[k] / R for every row."""
    count, limbs = left.shape
    first, second = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    for start in range(0, count, LANES):
        width = min(LANES, count - start)
        first[:, :width] = left[start : start + width].T
        second[:, :width] = right[start : start + width].T
        multiply_lanes(first, second, modulus, negated_inverse, scratch, first)
        out[start : start + width] = first[:, :width].T


Residues = NDArray[np.uint32]
"""Numbers in Montgomery form, one a row, 27 bits an entry."""


@dataclass(frozen=True)
class MontgomeryModulus:
    """An odd number to calculate modulo."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 3 or self.value % 2 == 0:
            raise ValueError("a modulus must be odd and at least 3")
        if self.limbs > MOST_LIMBS:
            raise ValueError(
                f"a modulus of {self.value.bit_length()} bits is too long: the accumulators could overflow"
            )

    @cached_property
    def limbs(self) -> int:
        """How many 27-bit limbs a number takes: even, and with two bits to spare."""
        limbs = -(-(self.value.bit_length() + 2) // LIMB_BITS)
        return max(4, limbs + limbs % 2)

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        words: NDArray[np.uint64] = self._limbs_of([self.value])[0].astype(np.uint64)
        return words

    @cached_property
    def negated_inverse(self) -> np.uint64:
        """−n⁻¹ modulo 2^27."""
        return np.uint64(-pow(self.value, -1, 1 << LIMB_BITS) % (1 << LIMB_BITS))

    @cached_property
    def one(self) -> Residues:
        """The number 1 in Montgomery form, one row."""
        one: Residues = self._limbs_of([(1 << (LIMB_BITS * self.limbs)) % self.value])[0]
        return one

    @cached_property
    def _entry(self) -> Residues:
        return self._limbs_of([(1 << (2 * LIMB_BITS * self.limbs)) % self.value])

    def _limbs_of(self, values: Sequence[int]) -> Residues:
        bits = LIMB_BITS * self.limbs
        packed = b"".join(int(value).to_bytes(-(-bits // 8), "little") for value in values)
        octets = np.frombuffer(packed, dtype=np.uint8).reshape(len(values), -(-bits // 8))
        single = np.unpackbits(octets, axis=1, count=bits, bitorder="little")
        limbs = np.packbits(single.reshape(-1, self.limbs, LIMB_BITS), axis=2, bitorder="little")
        return limbs.view("<u4")[:, :, 0].astype(np.uint32)

    def enter(self, values: Sequence[int]) -> Residues:
        """The values, each in [0, n), in Montgomery form."""
        plain = self._limbs_of(values)
        return self.multiply(plain, np.broadcast_to(self._entry, plain.shape))

    def leave(self, residues: Residues) -> list[int]:
        """The values in [0, n) that rows in Montgomery form stand for."""
        unit = np.zeros_like(residues)
        unit[:, 0] = 1
        plain = self.multiply(residues, unit)
        octets = plain.astype("<u4").view(np.uint8).reshape(len(plain), self.limbs, 4)
        single = np.unpackbits(octets, axis=2, count=LIMB_BITS, bitorder="little").reshape(len(plain), -1)
        numbers = np.packbits(single, axis=1, bitorder="little")
        modulus = gmpy2.mpz(self.value)
        return [gmpy2.mpz(int.from_bytes(number.tobytes(), "little")) % modulus for number in numbers]

    def multiply(self, left: Residues, right: Residues) -> Residues:
        if left.shape != right.shape or left.shape[1] != self.limbs:
            raise ValueError(f"cannot multiply rows of shapes {left.shape} and {right.shape}")
        out = np.empty(left.shape, dtype=np.uint32)
        multiply_rows(left, np.ascontiguousarray(right), self.words, self.negated_inverse, out)
        return out


_DIGITS = 256


@machine_code
def _fill_tables(steps: Any, one: Any, modulus: Any, negated_inverse: Any, tables: Any) -> None:
    """tables[i, d] := steps[i]^d; four windows side by side."""
    windows, _, limbs = tables.shape
    factor, power = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    for start in range(0, windows, LANES):
        width = min(LANES, windows - start)
        factor[:, :width] = steps[start : start + width].T
        for lane in range(width):
            power[:, lane] = one
        for digit in range(_DIGITS):
            tables[start : start + width, digit] = power[:, :width].T
            multiply_lanes(power, factor, modulus, negated_inverse, scratch, power)


@machine_code
def _multiply_entries(tables: Any, exponents: Any, modulus: Any, negated_inverse: Any, out: Any) -> None:
    """out[k] := Π_i tables[i, exponents[k, i]]; four exponents side by side."""
    count, windows = exponents.shape
    limbs = tables.shape[2]
    entry, product = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    for start in range(0, count, LANES):
        width = min(LANES, count - start)
        for lane in range(width):
            product[:, lane] = tables[0, exponents[start + lane, 0]]
        for window in range(1, windows):
            for lane in range(width):
                entry[:, lane] = tables[window, exponents[start + lane, window]]
            multiply_lanes(product, entry, modulus, negated_inverse, scratch, product)
        out[start : start + width] = product[:, :width].T


@dataclass(frozen=True)
class FixedBase:
    """Powers of one base for exponents of a fixed length in bytes.

    Claim: `powers` takes one product per byte of the exponent and none for squaring, because entry
    (i, d) of the table is base^(d · 256^i).
    """

    modulus: MontgomeryModulus
    tables: NDArray[np.uint32]

    @classmethod
    def prepare(cls, modulus: MontgomeryModulus, base: int, *, exponent_bytes: int) -> FixedBase:
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
        return self.modulus.leave(out)


_LARGEST_GROUP = 10
# int64 holds a two's complement number of at most this many bits.
MOST_BITS = 64


def group_size(outputs: int) -> int:
    """How many bases to take together for so many outputs: the least (2^g + outputs)/g."""
    return min(range(1, _LARGEST_GROUP + 1), key=lambda size: ((1 << size) + outputs) / size)


@machine_code
def _accumulate(
    bases: Any, matrix: Any, bits: int, group: int, one: Any, modulus: Any, negated_inverse: Any, outputs: Any
) -> None:
    """outputs[j·bits + s] := Π of the bases i whose entry matrix[i, j] has bit s."""
    count, limbs = bases.shape
    columns = matrix.shape[1]
    total = columns * bits
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
                right[:, lane] = bases[start + member]
            for first in range(1, 1 << member, LANES):
                width = min(LANES, (1 << member) - first)
                left[:, :width] = subsets[first : first + width].T
                multiply_lanes(left, right, modulus, negated_inverse, scratch, left)
                beyond = (1 << member) + first
                subsets[beyond : beyond + width] = left[:, :width].T
        for first in range(0, total, LANES):
            width = min(LANES, total - first)
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
                left[:, lane] = outputs[first + lane]
                right[:, lane] = subsets[picks[lane]]
            multiply_lanes(left, right, modulus, negated_inverse, scratch, left)
            outputs[first : first + width] = left[:, :width].T


def products_of_powers(
    modulus: MontgomeryModulus, bases: Sequence[int], matrix: NDArray[np.int64], *, bits: int
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
        numbers = modulus.one, modulus.words, modulus.negated_inverse
        _accumulate(entered[piece], matrix[piece], bits, group, *numbers, partial)
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
