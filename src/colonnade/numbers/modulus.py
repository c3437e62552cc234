"""A public number and the integers modulo it: how many there are, and their arithmetic on 64-bit words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from colonnade.numbers.mersenne import MERSENNE, MersenneWords
from colonnade.numbers.residues import ResidueWords


@dataclass(frozen=True)
class Modulus:
    """The product of `primes`: 3, 6, … distinct primes between 2^21 − 2^10 and 2^21, or 2^61 − 1 alone."""

    primes: tuple[int, ...]

    def __post_init__(self) -> None:
        _ = self.words

    @cached_property
    def words(self) -> ResidueWords | MersenneWords:
        """The arithmetic of this field on 64-bit words."""
        return MersenneWords() if self.primes == (MERSENNE,) else ResidueWords(self.primes)

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
