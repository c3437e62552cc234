"""What hides a plaintext from the one who decrypts it: two kinds of mask, for two situations.

`UniformMask` is uniform modulo N and hides perfectly, whatever was masked. What comes out of decryption is
uniform too, so its reader cannot tell an honest value from a packed one; it is for values the reader keeps
to itself as a share.

`BoundedMask` is for values the reader sends back. It covers an ℓ-bit value with ℓ + λ uniform bits, within
2^−λ of perfect, and leaves the high bits of the plaintext empty. The reader refuses a plaintext that uses
them and answers with the lowest ℓ bits only, so that the asker gets ℓ bits a ciphertext and no more: the
auxiliary ciphertexts of the active attack in "Is Vertical Logistic Regression Privacy-Preserving?" (section
5.2) no longer fit (docs/proofs/paillier-masking.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.crypto.paillier import Ciphertexts, InvalidCiphertext, decrypt_any_size
from colonnade.crypto.paillier_keys import PrivateKey, PublicKey
from colonnade.randomness import Randomness, below

LEAST_SECURITY = 40
SECURITY = 80


@dataclass(frozen=True)
class UniformMask:
    """Masks uniform in [0, N): v + r modulo N is uniform for every v."""

    modulus: int

    def draw(self, count: int, randomness: Randomness) -> tuple[int, ...]:
        return tuple(below(self.modulus, randomness) for _ in range(count))

    def unmask(self, masked: Sequence[int], masks: Sequence[int]) -> tuple[int, ...]:
        values = ((m - r) % self.modulus for m, r in zip(masked, masks, strict=True))
        return tuple(value - self.modulus if 2 * value > self.modulus else value for value in values)


@dataclass(frozen=True)
class BoundedMask:
    """Masks for values |v| < 2^(ℓ−1), counting every packed field, and the bound that goes with them.

    Claim: the laws of v + r and v' + r are within 2^−λ in total variation. `answer` returns at most ℓ bits
    a ciphertext, whatever the ciphertext holds.
    """

    value_bits: int
    security: int = SECURITY

    def __post_init__(self) -> None:
        if self.value_bits < 2:
            raise ValueError(f"a signed value has at least 2 bits, not {self.value_bits}")
        if self.security < LEAST_SECURITY:
            raise ValueError(f"a bounded mask needs λ ≥ {LEAST_SECURITY}, not {self.security}")

    @property
    def bound(self) -> int:
        """No masked value exceeds this: 2^(ℓ+λ) + 2^(ℓ−1)."""
        return (1 << (self.value_bits + self.security)) + (1 << (self.value_bits - 1))

    def check_room(self, key: PublicKey) -> None:
        """Raise unless a masked value stays below N/2, so that it is never reduced modulo N."""
        if 2 * self.bound >= key.modulus:
            raise ValueError(
                f"values of {self.value_bits} bits and masks of {self.security} more do not fit in a key of "
                f"{key.bits} bits. Pack fewer fields into a ciphertext."
            )

    def draw(self, count: int, randomness: Randomness) -> tuple[int, ...]:
        """One mask a value, uniform in [0, 2^(ℓ+λ))."""
        return tuple(below(1 << (self.value_bits + self.security), randomness) for _ in range(count))

    def answer(self, private: PrivateKey, ciphertexts: Ciphertexts) -> tuple[int, ...]:
        """What the key's owner may send back: each plaintext's lowest ℓ bits, if its size is as agreed."""
        self.check_room(private.public)
        least = -(1 << (self.value_bits - 1))
        answers = []
        for place, plaintext in enumerate(decrypt_any_size(private, ciphertexts)):
            if not least <= plaintext <= self.bound:
                raise InvalidCiphertext(
                    f"plaintext {place} of {len(ciphertexts)} is larger than a masked value of {self.value_bits} "
                    "bits can be: it holds more than was agreed, and no answer is given"
                )
            answers.append(plaintext % (1 << self.value_bits))
        return tuple(answers)

    def unmask(self, answers: Sequence[int], masks: Sequence[int]) -> tuple[int, ...]:
        """The signed values under their masks, from the answers."""
        span, half = 1 << self.value_bits, 1 << (self.value_bits - 1)
        values = []
        for answer, mask in zip(answers, masks, strict=True):
            if not 0 <= answer < span:
                raise ValueError(f"an answer does not have {self.value_bits} bits")
            values.append((answer - mask + half) % span - half)
        return tuple(values)
