"""Arrays of field elements: the form in which shares are stored, added, multiplied and sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.kernels import Words
from colonnade.numbers.modulus import Modulus
from colonnade.numbers.products import EXACT_ROWS, TransposedProduct


@dataclass(frozen=True, eq=False, repr=False)
class FieldArray:
    """An array of elements of one field.

    `words` has shape (limbs, *shape), contiguous; in `FIELD63` a word is an element, three residues of
    21 bits. It is also the form on the wire, so sending packs nothing and receiving only checks.
    """

    field: Modulus
    words: Words

    def __post_init__(self) -> None:
        if self.words.shape[0] != self.field.words.limbs or not self.words.flags.c_contiguous:
            raise ValueError(f"words of shape {self.words.shape} are no elements of {self.field.bits} bits")

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

    def __iadd__(self, other: FieldArray) -> Self:
        self._match(other)
        self.field.words.add(self.words, other.words, self.words)
        return self

    def __sub__(self, other: FieldArray) -> FieldArray:
        self._match(other)
        out = np.empty_like(self.words)
        self.field.words.subtract(self.words, other.words, out)
        return FieldArray(self.field, out)

    def __neg__(self) -> FieldArray:
        return FieldArray(self.field, np.zeros_like(self.words)) - self

    def times(self, factor: int) -> FieldArray:
        """Every element times one integer of any size and sign."""
        out = np.empty_like(self.words)
        self.field.words.multiply(self.words, self._one_element(factor), out)
        return FieldArray(self.field, out)

    def add_times(self, factor: int, other: FieldArray) -> None:
        """Add factor · other in place: for running sums that nobody else holds."""
        self._match(other)
        if factor == 1:
            self.field.words.add(self.words, other.words, self.words)
        elif factor == -1:
            self.field.words.subtract(self.words, other.words, self.words)
        else:
            self.field.words.add_scaled(self.words, other.words, self._one_element(factor))

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
            raise ValueError(f"{self!r} is no matrix")
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
            raise ValueError(f"{self!r} is no square matrix")
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
    def from_bytes(
        cls, field: Modulus, shape: tuple[int, ...], data: bytes | NDArray[np.uint8]
    ) -> FieldArray:
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

    def __init__(self, field: Modulus, columns: int) -> None:
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
