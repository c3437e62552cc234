"""Receivers that ask for more than was agreed: packing further answers into a plaintext, and claiming more columns.

"Is Vertical Logistic Regression Privacy-Preserving?", section 5.2. A receiver multiplies each encrypted number by
features it invents, shifts every product into a field of its own, and has the owner of the key read all of them out.
Here the invented features are the records themselves: field j holds the number of record j, which is as narrow as a
field can be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.ciphertext_matrix import packed
from colonnade.crypto.packing import Fields
from colonnade.crypto.paillier import Ciphertexts
from colonnade.methods.encrypted.plan import EncryptedPlan

Integers = NDArray[np.int64]


class PackedQuestion:
    """Asks for the others' number of every record, as many to a ciphertext as the key has room for.

    `captured` holds, batch by batch, what was read: the messages of the first records, in units of the grid.
    """

    def __init__(self, plan: EncryptedPlan, receiver: str) -> None:
        self._questions = plan.questions(receiver)
        self._width = plan.width(receiver)
        # Wide enough for a number and its sign, or a field would reach its neighbour.
        number = sum(plan.reach(owner) for owner in plan.relay(receiver)).bit_length() + 2
        self.fields = Fields(number, Fields.most(number, plan.options.keys.bits))
        self._integers: Integers = np.zeros((0, self._width), dtype=np.int64)
        self.captured: list[tuple[int, ...]] = []

    @property
    def reads(self) -> int:
        return self._questions * self.fields.count

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        """As many ciphertexts as were agreed, each holding a stretch of the batch."""
        self._integers = integers
        wanted = Ciphertexts(numbers.key, numbers.values[: self.reads])
        asked = packed(wanted, self.fields).values
        # A short batch leaves questions over; the neutral ciphertext holds 0.
        return Ciphertexts(numbers.key, asked + (1,) * (self._questions - len(asked)))

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        """The sums it should have asked for, computed from what it read, so that the run goes on unnoticed."""
        values = [value for answer in answers for value in self.fields.unpack(answer)][:records]
        self.captured.append(tuple(values))
        return tuple(
            sum(int(x) * value for x, value in zip(column, values, strict=False))
            for column in self._integers.T
        )


class WideQuestion:
    """Claims a column for every record: sends each number back by itself to be decrypted."""

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        return numbers

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        return ()
