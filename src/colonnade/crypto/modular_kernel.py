"""The Montgomery kernel: four products modulo n side by side.

Limbs have 27 bits in 64-bit lanes. Four unrelated products advance side by side in one vector register, and
two rows of the schoolbook product are taken per pass, so that a loaded limb is used twice. A limb product
stays below 2^54 and at most 2 · `MOST_LIMBS` of them meet in one accumulator, so carries are resolved once,
at the end. Values stay in [0, 2n): with R = 2^(27·limbs) > 4n, (2n·2n + R·n)/R < 2n, and no comparison with
n is needed before a result is read.

The inner loop is written as vector instructions, because the compiler does not find them by itself; on a
processor without wide vectors the same code splits into narrower ones.

Source: P. L. Montgomery, "Modular multiplication without trial division" (1985); C. D. Walter, "Montgomery
exponentiation needs no final subtractions" (1999).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from colonnade.numbers.compiling import machine_code

LIMB_BITS = 27
LANES = 4
# 2 · 256 products below 2^54 sum to less than 2^63.
MOST_LIMBS = 256

_LIMB_MASK = np.uint64((1 << LIMB_BITS) - 1)
_LIMB_SHIFT = np.uint64(LIMB_BITS)
_WORD = ir.IntType(64)
_LANES_OF_WORDS = ir.VectorType(_WORD, LANES)


_Function = TypeVar("_Function", bound=Callable[..., object])
_alloca_once_value: Any = cgutils.alloca_once_value


def compiled(function: _Function) -> _Function:
    """Compile a loop that may run beside other threads."""
    return machine_code(function)


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


@compiled
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
    carry_0 = carry_1 = carry_2 = carry_3 = np.uint64(0)
    for limb in range(modulus.shape[0]):
        carry_0 += scratch[limb, 0]
        carry_1 += scratch[limb, 1]
        carry_2 += scratch[limb, 2]
        carry_3 += scratch[limb, 3]
        out[limb, 0] = carry_0 & _LIMB_MASK
        out[limb, 1] = carry_1 & _LIMB_MASK
        out[limb, 2] = carry_2 & _LIMB_MASK
        out[limb, 3] = carry_3 & _LIMB_MASK
        carry_0 >>= _LIMB_SHIFT
        carry_1 >>= _LIMB_SHIFT
        carry_2 >>= _LIMB_SHIFT
        carry_3 >>= _LIMB_SHIFT


@compiled
def multiply_rows(left: Any, right: Any, modulus: Any, negated_inverse: Any, out: Any) -> None:
    """out[k] := left[k] · right[k] / R for every row."""
    count, limbs = left.shape
    first, second = np.zeros((limbs, LANES), np.uint64), np.zeros((limbs, LANES), np.uint64)
    scratch = np.zeros((limbs, LANES), np.uint64)
    for start in range(0, count, LANES):
        width = min(LANES, count - start)
        for lane in range(width):
            for limb in range(limbs):
                first[limb, lane] = left[start + lane, limb]
                second[limb, lane] = right[start + lane, limb]
        multiply_lanes(first, second, modulus, negated_inverse, scratch, first)
        for lane in range(width):
            for limb in range(limbs):
                out[start + lane, limb] = first[limb, lane]


@compiled
def split(words: Any, out: Any) -> None:
    """64-bit words to limbs, row by row."""
    for row in range(words.shape[0]):
        for limb in range(out.shape[1]):
            bit = limb * LIMB_BITS
            word, offset = bit >> 6, np.uint64(bit & 63)
            value = words[row, word] >> offset
            if (bit & 63) + LIMB_BITS > 64 and word + 1 < words.shape[1]:
                value |= words[row, word + 1] << (np.uint64(64) - offset)
            out[row, limb] = value & _LIMB_MASK


@compiled
def join(limbs: Any, out: Any) -> None:
    """Limbs to 64-bit words, row by row; `out` has one word to spare."""
    out[:] = 0
    for row in range(limbs.shape[0]):
        for limb in range(limbs.shape[1]):
            bit = limb * LIMB_BITS
            word, offset = bit >> 6, np.uint64(bit & 63)
            value = np.uint64(limbs[row, limb])
            out[row, word] |= value << offset
            if (bit & 63) + LIMB_BITS > 64:
                out[row, word + 1] |= value >> (np.uint64(64) - offset)
