"""BLAKE2s of many short messages (RFC 7693), sixteen side by side: what comes out is what `hashlib.blake2s` gives.

Sixteen states advance in one vector register a word, written as vector instructions because the compiler does not find
them by itself; on a processor without wide vectors the same code splits into narrower ones.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code

LANES = 16
BLOCK_BYTES = 64
#: Where things stand in a work area of vectors: state, message, bytes so far, last block, result.
STATE, MESSAGE, COUNT, LAST, RESULT = 0, 8, 24, 25, 26
WORK = 34 * LANES

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_SIGMA = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
_MIXED = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
_VECTOR = ir.VectorType(ir.IntType(32), LANES)
_ALL = 0xFFFFFFFF


def _compression(_typing_context: Any, _work: Any) -> Any:
    """The compression function on every lane of a work area: reads all but the result, writes the result."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        base = builder.inttoptr(arguments[0], _VECTOR.as_pointer())

        def at(place: int) -> Any:
            return builder.gep(base, [ir.Constant(ir.IntType(64), place)])

        def load(place: int) -> Any:
            loaded = builder.load(at(place))
            loaded.align = 4
            return loaded

        def constant(value: int) -> Any:
            return ir.Constant(_VECTOR, [value] * LANES)

        def rotated(value: Any, bits: int) -> Any:
            right, left = builder.lshr(value, constant(bits)), builder.shl(value, constant(32 - bits))
            return builder.or_(right, left)

        message = [load(MESSAGE + word) for word in range(16)]
        v = [load(STATE + word) for word in range(8)] + [constant(word) for word in IV]
        v[12] = builder.xor(v[12], load(COUNT))
        v[14] = builder.xor(v[14], load(LAST))
        for order in _SIGMA:
            for step, (a, b, c, d) in enumerate(_MIXED):
                for word, first, second in ((order[2 * step], 16, 12), (order[2 * step + 1], 8, 7)):
                    v[a] = builder.add(builder.add(v[a], v[b]), message[word])
                    v[d] = rotated(builder.xor(v[d], v[a]), first)
                    v[c] = builder.add(v[c], v[d])
                    v[b] = rotated(builder.xor(v[b], v[c]), second)
        for word in range(8):
            mixed = builder.xor(load(STATE + word), builder.xor(v[word], v[word + 8]))
            builder.store(mixed, at(RESULT + word)).align = 4
        return context.get_dummy_value()

    return types.void(types.uint64), emit


compress: Any = intrinsic(_compression)


def digests(store: NDArray[np.uint8], ends: NDArray[Any], domain: bytes) -> NDArray[np.uint64]:
    """The 128-bit digest of every text between two ends, as two words; texts of one domain only can agree.

    It is BLAKE2s of the domain, filled up with zeros to 64 bytes, and the text.
    """
    if len(domain) > BLOCK_BYTES:
        domain = hashlib.sha256(domain).digest()
    work = np.zeros((34, LANES), dtype=np.uint32)
    # The state before the first block: the parameters are a digest of 16 bytes, no key, and no tree.
    parameters = np.frombuffer(bytes((16, 0, 1, 1)) + bytes(28), dtype="<u4")
    work[STATE:MESSAGE] = (parameters ^ np.array(IV, dtype=np.uint32))[:, None]
    work[MESSAGE:COUNT] = np.frombuffer(domain.ljust(BLOCK_BYTES, b"\0"), dtype="<u4")[:, None]
    work[COUNT] = BLOCK_BYTES
    _compress_once(work.reshape(-1))
    out = np.empty((len(ends) - 1, 2), dtype=np.uint64)
    # One type of array each, so that the kernel is compiled once.
    content = store if store.flags.writeable and store.flags.c_contiguous else store.copy()
    _digests(content, ends.astype(np.int64), work[RESULT:, 0].copy(), out)
    return out


@machine_code
def _compress_once(work: Any) -> None:
    compress(work.ctypes.data)


@machine_code
def _digests(store: Any, ends: Any, start: Any, out: Any) -> None:
    work = np.zeros(WORK, np.uint32)
    count = len(ends) - 1
    for first in range(0, count, LANES):
        used = min(LANES, count - first)
        blocks = np.int64(1)
        for lane in range(used):
            blocks = max(blocks, (ends[first + lane + 1] - ends[first + lane] + 63) >> 6)
        for word in range(8):
            for lane in range(LANES):
                work[word * LANES + lane] = start[word]
        for block in range(blocks):
            work[MESSAGE * LANES : COUNT * LANES] = 0
            for lane in range(used):
                begin = ends[first + lane]
                length = ends[first + lane + 1] - begin
                left = min(np.int64(64), length - 64 * block)
                for place in range(left):
                    byte = np.uint32(store[begin + 64 * block + place])
                    work[(MESSAGE + (place >> 2)) * LANES + lane] |= byte << np.uint32(8 * (place & 3))
                is_last = length <= 64 * (block + 1)
                work[COUNT * LANES + lane] = np.uint32(64 + min(length, 64 * np.int64(block + 1)))
                work[LAST * LANES + lane] = np.uint32(_ALL) if is_last else np.uint32(0)
            compress(work.ctypes.data)
            for lane in range(used):
                # A lane whose text has ended keeps its digest.
                if block == 0 or ends[first + lane + 1] - ends[first + lane] > 64 * block:
                    for word in range(8):
                        work[word * LANES + lane] = work[(RESULT + word) * LANES + lane]
        for lane in range(used):
            for half in range(2):
                low = np.uint64(work[2 * half * LANES + lane])
                high = np.uint64(work[(2 * half + 1) * LANES + lane])
                out[first + lane, half] = low | (high << np.uint64(32))
