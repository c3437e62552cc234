"""Three keepers, of whom any one learns nothing: sharing with additions only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.crypto.dealing import Dealt, InconsistentShares, Seed
from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.field import Field
from colonnade.randomness import Randomness


@dataclass(frozen=True)
class Committee:
    """Three keepers at 0, 1 and −1, threshold 1.

    Guarantee: a share of f(X) = a + sX is uniform, whatever s is; of h(X) = a + bX + sX², any two are
    (docs/proofs/sharing.md), up to what tells AES-256 in counter mode from uniform bits. Any two keepers
    together learn every secret dealt at degree 1.

    The shares of s are a, a + s and a − s: the first keeper receives the seed of a and nothing else. The
    product of two sharings is h(X) with s·t at X², and s·t = (h(1) + h(−1) − 2h(0)) / 2. It is
    `Shamir(3, field)` without a multiplication.
    """

    field: Field

    keepers = 3
    threshold = 1
    points = (0, 1, -1)

    @property
    def weights(self) -> tuple[int, ...]:
        """Σ weights[j] · share[j] is the secret of a sharing of degree 2."""
        half = self.field.inverse(2)
        return (self.field.modulus - 1, half, half)

    def deal(
        self, secret: FieldArray, degree: int, randomness: Randomness, *, dealer: int | None = None
    ) -> tuple[Dealt, ...]:
        """One piece for each keeper; at degree 2 the second keeper's is a seed as well.

        A dealer that is the first keeper itself needs nothing sent, so at degree 1 it leaves the seed to the second.
        """
        _check_degree(degree)
        first = Seed(randomness.bytes(32), secret.shape)
        a = first.expand(self.field)
        if degree == 1 and dealer == 0:
            own = a - secret
            return own, first, own - secret
        if degree == 1:
            return first, a + secret, a - secret
        second = Seed(randomness.bytes(32), secret.shape)
        twice = a + secret
        twice += twice
        return first, second, twice - second.expand(self.field)

    def expand(self, dealt: Dealt) -> FieldArray:
        """The share that a dealt piece stands for."""
        return dealt.expand(self.field) if isinstance(dealt, Seed) else dealt

    def reconstruct(self, shares: Sequence[FieldArray | None], degree: int) -> FieldArray:
        """The secret, from degree + 1 shares at least, in keeper order; None is missing.

        At degree 1 a third share is checked against the other two. At degree 2 all three are needed, so
        a wrong share gives a wrong secret and no warning.
        """
        _check_degree(degree)
        if len(shares) != 3:
            raise ValueError(f"there are 3 keepers, not {len(shares)}; None stands for a missing share")
        zero, plus, minus = shares
        missing = sum(share is None for share in shares)
        if missing > 2 - degree:
            raise ValueError(f"opening at degree {degree} takes {degree + 1} shares, not {3 - missing}")
        if zero is not None and plus is not None and minus is not None:
            if degree == 2:
                return (plus + minus).times(self.field.inverse(2)) - zero
            if not (plus + minus).equals(zero + zero):
                raise InconsistentShares("the three shares do not lie on one line: a keeper's share is wrong")
        if zero is not None:
            return plus - zero if plus is not None else zero - _present(minus)
        return (_present(plus) - _present(minus)).times(self.field.inverse(2))

    def constant(self, values: FieldArray, keeper: int, degree: int) -> FieldArray:
        """This keeper's share of values that everybody knows."""
        _check_degree(degree)
        return values.times(self.points[keeper] ** degree)


def _check_degree(degree: int) -> None:
    if degree not in (1, 2):
        raise ValueError(f"a degree is 1 or 2 here, not {degree}")


def _present(share: FieldArray | None) -> FieldArray:
    if share is None:
        raise ValueError("a share is missing")
    return share
