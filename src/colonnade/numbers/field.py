"""Fields of integers modulo a public number, arrays of their elements, and exact matrix products through BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import FieldTooSmall
from colonnade.numbers.residues import Floats, ResidueWords, Words, kernels
from colonnade.randomness import Randomness

#: The most rows whose digit products sum exactly in a double.
EXACT_ROWS = 2048

# Long enough to keep BLAS busy, short enough for a chunk of three float blocks to stay near the processor.
_CHUNK_ENTRIES = 1 << 16


def _chunk_rows(columns: int) -> int:
    # Not below 512: with fewer rows, reducing the product would cost as much as computing it.
    return max(512, min(EXACT_ROWS, _CHUNK_ENTRIES // max(columns, 1)))


class TransposedProduct:
    """A running Σ AᵀB over row blocks; memory is one chunk of rows and the result."""

    def __init__(self, arithmetic: ResidueWords, left_columns: int, right_columns: int | None = None) -> None:
        self._arithmetic = arithmetic
        self._columns = left_columns, right_columns
        right = left_columns if right_columns is None else right_columns
        self._total = arithmetic.empty_sum(left_columns, right)
        self._chunk = _chunk_rows(max(left_columns, right))
        self._left = np.empty((3, self._chunk, left_columns))
        # Without a right factor the product is AᵀA, and one buffer is both.
        self._right = self._left if right_columns is None else np.empty((3, self._chunk, right_columns))

    def add(self, left: Sequence[Words], right: Sequence[Words] | None = None) -> None:
        """Add AᵀB for blocks of the same rows; the words of a factor stand beside each other."""
        rows = left[0].shape[1]
        for start in range(0, rows, self._chunk):
            stop = min(start + self._chunk, rows)
            size = stop - start
            for limb in range(self._arithmetic.limbs):
                _unpack(left, limb, start, stop, self._left)
                if right is not None:
                    _unpack(right, limb, start, stop, self._right)
                # A product of an array with its own transpose is seen by numpy only if they are one array.
                first = self._left[:, :size]
                second = first if right is None else self._right[:, :size]
                self._arithmetic.fold(self._total, limb, first, second)

    def words(self) -> Words:
        """The sum so far, in words of its own."""
        return self._arithmetic.sum_words(self._total)


def _unpack(blocks: Sequence[Words], limb: int, start: int, stop: int, out: Floats) -> None:
    at = 0
    for block in blocks:
        kernels().unpack(block[limb, start:stop], out, at)
        at += block.shape[2]


@dataclass(frozen=True, eq=False, repr=False)
class FieldArray:
    """An array of elements of one field.

    `words` has shape (limbs, *shape), contiguous; in `FIELD63` a word is an element, three residues of
    21 bits. It is also the form on the wire, so sending packs nothing and receiving only checks.
    """

    field: Field
    words: Words

    def __post_init__(self) -> None:
        if self.words.shape[0] != self.field.words.limbs or not self.words.flags.c_contiguous:
            raise ValueError(f"words of shape {self.words.shape} are not elements of {self.field.bits} bits")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.words.shape[1:]

    @property
    def residues(self) -> NDArray[Any]:
        """The residue modulo every prime, in an array of shape (primes, *shape)."""
        return self.field.words.digits(self.words)

    def __repr__(self) -> str:
        # A share or a secret is not for logs.
        return f"FieldArray({self.field.bits} bits, shape={self.shape})"

    def __bool__(self) -> NoReturn:
        raise TypeError("field elements have no truth value: compare with `equals`")

    def _match(self, other: FieldArray) -> None:
        if other.field != self.field or other.shape != self.shape:
            raise ValueError(f"{self!r} and {other!r} do not match")

    def __add__(self, other: FieldArray) -> FieldArray:
        self._match(other)
        out = np.empty_like(self.words)
        self.field.words.add(self.words, other.words, out)
        return FieldArray(self.field, out)

    def __sub__(self, other: FieldArray) -> FieldArray:
        self._match(other)
        out = np.empty_like(self.words)
        self.field.words.subtract(self.words, other.words, out)
        return FieldArray(self.field, out)

    def __neg__(self) -> FieldArray:
        return FieldArray(self.field, np.zeros_like(self.words)) - self

    def times(self, factor: int) -> FieldArray:
        """Every element times one integer of any size and sign."""
        if factor == 1:
            return self
        out = np.empty_like(self.words)
        self.field.words.multiply(self.words, self._one_element(factor), out)
        return FieldArray(self.field, out)

    def plus_times(self, factor: int, other: FieldArray) -> FieldArray:
        """This plus factor · other. Never in place: loops that write where they read are not vectorised."""
        if factor in (1, -1):
            return self + other if factor == 1 else self - other
        self._match(other)
        out = np.empty_like(self.words)
        self.field.words.add_scaled(self.words, other.words, self._one_element(factor), out)
        return FieldArray(self.field, out)

    def _one_element(self, value: int) -> Words:
        ones = (1,) * len(self.shape)
        words = np.empty((self.words.shape[0], *ones), dtype=np.uint64)
        self.field.words.encode_exact(
            np.array([value % self.field.modulus], dtype=object).reshape(ones), words
        )
        return words

    def multiply(self, other: FieldArray) -> FieldArray:
        """Products of elements at the same place."""
        self._match(other)
        out = np.empty_like(self.words)
        self.field.words.multiply(self.words, other.words, out)
        return FieldArray(self.field, out)

    def row_products(self, other: FieldArray) -> FieldArray:
        """The inner product of every row with the same row of another matrix, as a column."""
        self._match(other)
        self._columns()
        out = np.empty(self.words.shape[:2], dtype=np.uint64)
        self.field.words.row_products(self.words, other.words, out)
        return FieldArray(self.field, out[:, :, None])

    def gram(self) -> FieldArray:
        """AᵀA of a matrix A, exactly."""
        total = GramSum(self.field, self._columns())
        total.add(self)
        return total.value()

    def transpose_times(self, other: FieldArray) -> FieldArray:
        """AᵀB of matrices with the same rows, exactly."""
        if other.field != self.field or self.shape[:1] != other.shape[:1]:
            raise ValueError(f"{self!r} and {other!r} have no rows in common")
        if other._columns() == 1:
            out = np.empty((self.words.shape[0], self._columns()), dtype=np.uint64)
            self.field.words.weighted_rows(self.words, np.ascontiguousarray(other.words[:, :, 0]), out)
            return FieldArray(self.field, out[:, :, None])
        product = TransposedProduct(self.field.words, self._columns(), other._columns())
        product.add([self.words], [other.words])
        return FieldArray(self.field, product.words())

    def __matmul__(self, other: FieldArray) -> FieldArray:
        """AB of matrices, exactly, by blocks of A's rows."""
        if self._columns() != other.shape[0]:
            raise ValueError(f"{self!r} and {other!r} cannot be multiplied")
        starts = range(0, max(self.shape[0], 1), EXACT_ROWS)
        blocks = [self.rows(at, at + EXACT_ROWS).transpose().transpose_times(other) for at in starts]
        return blocks[0].stack_rows(blocks[1:])

    def transpose(self) -> FieldArray:
        self._columns()
        return FieldArray(self.field, np.ascontiguousarray(self.words.transpose(0, 2, 1)))

    def _columns(self) -> int:
        if len(self.shape) != 2:
            raise ValueError(f"{self!r} is not a matrix")
        return self.shape[1]

    def decode(self) -> NDArray[Any]:
        """Signed integers nearest to zero: an int64 array if all fit, else an object array."""
        return self.field.words.decode(self.words)

    def rows(self, start: int, stop: int) -> FieldArray:
        """A block of rows, in words of its own."""
        return FieldArray(self.field, np.ascontiguousarray(self.words[:, start:stop]))

    def columns(self, start: int, stop: int) -> FieldArray:
        """A block of columns, in words of its own."""
        return FieldArray(self.field, np.ascontiguousarray(self.words[:, :, start:stop]))

    def picked(self, places: Sequence[int]) -> FieldArray:
        """Some columns in this order, any of them more than once."""
        return FieldArray(self.field, np.ascontiguousarray(self.words[:, :, list(places)]))

    def reshape(self, shape: tuple[int, ...]) -> FieldArray:
        """The same elements, in row order, in another shape."""
        return FieldArray(self.field, self.words.reshape(self.words.shape[0], *shape))

    def upper_triangle(self) -> FieldArray:
        """The entries on and above the diagonal of a square matrix, row by row, as a vector."""
        if len(self.shape) != 2 or self.shape[0] != self.shape[1]:
            raise ValueError(f"{self!r} is not a square matrix")
        above = np.triu_indices(self.shape[0])
        return FieldArray(self.field, np.ascontiguousarray(self.words[:, above[0], above[1]]))

    def stack_columns(self, others: Sequence[FieldArray]) -> FieldArray:
        blocks = [self, *others]
        if any(block.field != self.field or block.shape[:1] != self.shape[:1] for block in blocks):
            raise ValueError("matrices beside each other need one field and the same rows")
        return FieldArray(self.field, np.concatenate([block.words for block in blocks], axis=2))

    def stack_rows(self, others: Sequence[FieldArray]) -> FieldArray:
        blocks = [self, *others]
        if any(block.field != self.field or block.shape[1:] != self.shape[1:] for block in blocks):
            raise ValueError("arrays below each other need one field and the same columns")
        return FieldArray(self.field, np.concatenate([block.words for block in blocks], axis=1))

    def equals(self, other: FieldArray) -> bool:
        """Whether these are the same elements of the same field in the same shape."""
        return self.field == other.field and np.array_equal(self.words, other.words)

    def as_bytes(self) -> NDArray[np.uint8]:
        """The words in little-endian order: `field.word_bytes` for an element, no header, nothing copied.

        63 bits of information in 64: the tightest that stays aligned.
        """
        return self.words.astype("<u8", copy=False).reshape(-1).view(np.uint8)

    def to_bytes(self) -> bytes:
        """The same in bytes of its own."""
        return self.as_bytes().tobytes()

    @classmethod
    def from_bytes(cls, field: Field, shape: tuple[int, ...], data: bytes | NDArray[np.uint8]) -> FieldArray:
        """What `as_bytes` shows, copied and checked: the exact length, every residue below its prime."""
        count = 1
        for length in shape:
            # Python integers: a hostile shape must not wrap around.
            if length < 0:
                raise ValueError(f"an array cannot have shape {shape}")
            count *= length
        if len(data) != count * field.word_bytes:
            raise ValueError(
                f"{count} elements of {field.bits} bits take {count * field.word_bytes} bytes, not {len(data)}"
            )
        words = np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(field.words.limbs, *shape)
        if wrong := field.words.invalid(words):
            raise ValueError(f"{wrong} of {count} elements of {field.bits} bits are out of range")
        return cls(field, words)


class GramSum:
    """A running Σ AᵀA over blocks of rows, in the memory of one chunk and the result."""

    def __init__(self, field: Field, columns: int) -> None:
        self.field = field
        self.columns = columns
        self._product = TransposedProduct(field.words, columns)

    def add(self, *blocks: FieldArray) -> None:
        """Add AᵀA, where A is these blocks beside each other; they are not copied together."""
        if any(block.field != self.field or len(block.shape) != 2 for block in blocks):
            raise ValueError("blocks of a gram matrix are matrices of its field")
        if len({block.shape[0] for block in blocks}) != 1:
            raise ValueError("blocks beside each other need the same rows")
        if sum(block.shape[1] for block in blocks) != self.columns:
            raise ValueError(f"the blocks have other than {self.columns} columns together")
        self._product.add([block.words for block in blocks])

    def value(self) -> FieldArray:
        return FieldArray(self.field, self._product.words())


@dataclass(frozen=True)
class Field:
    """The integers modulo the product of 3, 6, … distinct primes between 2^21 − 2^10 and 2^21, and arrays of them."""

    primes: tuple[int, ...]

    def __post_init__(self) -> None:
        _ = self.words

    @cached_property
    def words(self) -> ResidueWords:
        """The arithmetic of this field on 64-bit words."""
        return ResidueWords(self.primes)

    @cached_property
    def modulus(self) -> int:
        return prod(self.primes)

    @property
    def bits(self) -> int:
        """The size of the modulus in bits, rounded up."""
        return self.modulus.bit_length()

    @property
    def capacity(self) -> int:
        return (self.modulus - 1) // 2

    @property
    def word_bytes(self) -> int:
        """Bytes an element takes in memory and on the wire."""
        return 8 * self.words.limbs

    def inverse(self, value: int) -> int:
        """1/value in this field, for a value that no prime of the field divides."""
        return pow(value, -1, self.modulus)

    def encode(self, values: NDArray[Any]) -> FieldArray:
        """Integers as field elements; `decode` gives them back.

        Takes any integer array, or an object array of Python integers. An integer past the capacity is
        refused: it would decode to another one.
        """
        if values.dtype == object:
            return self._encode_exact(values)
        if values.dtype.kind not in "iu":
            raise TypeError(f"a field holds integers, not {values.dtype}: round first")
        if values.dtype == np.uint64:
            return self._encode_exact(values.astype(object))
        integers = np.asarray(values, dtype=np.int64, order="C")
        words = np.empty((self.words.limbs, *integers.shape), dtype=np.uint64)
        # The loop reports the bits it met, so that only integers near the capacity are looked at twice.
        if self.words.encode(integers, words) >= self.capacity:
            self._check(max(int(integers.max()), -int(integers.min())))
        return FieldArray(self, words)

    def _encode_exact(self, values: NDArray[np.object_]) -> FieldArray:
        if not all(isinstance(value, int | np.integer) for value in values.flat):
            raise TypeError("a field holds integers: round first")
        self._check(max((abs(int(value)) for value in values.flat), default=0))
        words = np.empty((self.words.limbs, *values.shape), dtype=np.uint64)
        self.words.encode_exact(values, words)
        return FieldArray(self, words)

    def _check(self, largest: int) -> None:
        if largest > self.capacity:
            raise FieldTooSmall(
                f"an integer of {largest.bit_length()} bits and a sign was to be encoded; a field of "
                f"{self.bits} bits holds {self.capacity.bit_length()} bits and a sign. Take a larger field, "
                "or a coarser grid."
            )

    def uniform(self, shape: tuple[int, ...], randomness: Randomness) -> FieldArray:
        """Elements uniform over the whole field, exactly: what is not below its prime is drawn again."""
        return FieldArray(self, self.words.uniform(shape, randomness))

    def zeros(self, shape: tuple[int, ...]) -> FieldArray:
        return FieldArray(self, np.zeros((self.words.limbs, *shape), dtype=np.uint64))


# The six largest primes below 2^21: the closer to a power of two, the fewer words are drawn again.
FIELD63 = Field((2097143, 2097133, 2097131))
FIELD126 = Field((2097143, 2097133, 2097131, 2097097, 2097091, 2097083))


def largest_rows(field: Field, *, per_row: int, noise: int = 0) -> int:
    """The most rows whose sum cannot wrap around, each adding at most `per_row` in absolute value."""
    if per_row < 1 or noise < 0:
        raise ValueError(f"a row adds at least 1 and noise at least 0, not {per_row} and {noise}")
    return max(field.capacity - noise, 0) // per_row


def largest_per_row(field: Field, *, rows: int, noise: int = 0) -> int:
    """The most that each of `rows` rows may add, in absolute value, to any one sum."""
    if rows < 1 or noise < 0:
        raise ValueError(f"there is at least 1 row and noise of at least 0, not {rows} and {noise}")
    return max(field.capacity - noise, 0) // rows


def check_fits(field: Field, *, rows: int, per_row: int, noise: int = 0, what: str = "a sum") -> None:
    """Raise `FieldTooSmall` unless rows · per_row + noise ≤ capacity, in exact integers.

    `per_row` bounds what one row adds to any one entry: for second moments, the bound on ‖z̃‖² or the
    square of the largest entry. `noise` bounds the sum of all noise parts; where noise is unbounded, the
    caller takes a quantile and accounts for its probability.
    """
    needed = rows * per_row + noise
    if needed <= field.capacity:
        return
    most_per_row = largest_per_row(field, rows=max(rows, 1), noise=noise)
    raise FieldTooSmall(
        f"{what} over {rows} rows needs {needed.bit_length()} bits; a field of {field.bits} bits holds "
        f"{field.capacity.bit_length()}. What fits: at most {largest_rows(field, per_row=per_row, noise=noise)} "
        f"rows on this grid, or {most_per_row} a row (entries up to {isqrt(most_per_row)}) for this many rows: "
        f"a grid about {(per_row / most_per_row) ** 0.5 if most_per_row else float('inf'):.3g} times coarser. "
        "Or take a larger field."
    )


def smallest_field(*, rows: int, per_row: int, noise: int = 0, what: str = "a sum") -> Field:
    """`FIELD63` if these sums fit it, else `FIELD126`, else `FieldTooSmall` saying what fits that one."""
    if rows * per_row + noise <= FIELD63.capacity:
        return FIELD63
    check_fits(FIELD126, rows=rows, per_row=per_row, noise=noise, what=what)
    return FIELD126
