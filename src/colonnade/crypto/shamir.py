"""Shamir's sharing with the secret as the leading coefficient, for any threshold t and 2t + 1 keepers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from colonnade.crypto.dealing import (
    Dealt,
    InconsistentShares,
    Seed,
    combine,
    keeper_points,
    spread,
    value_weights,
)
from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.field import Field
from colonnade.randomness import Randomness


@dataclass(frozen=True)
class Shamir:
    """2t + 1 keepers, of whom any t learn nothing and any t + 1 learn everything.

    Guarantee: at degree d (t or 2t), any d shares are jointly uniform and independent of the secret
    (docs/proofs/sharing.md), up to what tells AES-256 in counter mode from uniform bits.

    The secret is the coefficient of X^d and the keepers stand at 0, 1, −1, 2, −2, … Products of shares of
    degree t are shares of the product at degree 2t, which exactly all keepers together can open.
    """

    keepers: int
    field: Field

    def __post_init__(self) -> None:
        if self.keepers < 3 or self.keepers % 2 == 0:
            raise ValueError(f"there are 2t + 1 keepers, t at least 1, not {self.keepers}")

    @property
    def threshold(self) -> int:
        return self.keepers // 2

    @cached_property
    def points(self) -> tuple[int, ...]:
        """Where the keepers stand."""
        return keeper_points(self.keepers)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Σ weights[j] · share[j] over all keepers is the secret of a sharing of degree 2t."""
        return tuple(self.field.inverse(spread(self.points, j)) for j in range(self.keepers))

    def _check_degree(self, degree: int) -> None:
        if degree not in (self.threshold, 2 * self.threshold):
            raise ValueError(f"a degree is {self.threshold} or {2 * self.threshold} here, not {degree}")

    def deal(
        self, secret: FieldArray, degree: int, randomness: Randomness, *, dealer: int | None = None
    ) -> tuple[Dealt, ...]:
        """One piece for each keeper: seeds for the first `degree`, field elements for the rest.

        A dealer that is a keeper itself needs nothing sent, so it leaves the seeds to others.
        """
        self._check_degree(degree)
        seeded = [keeper for keeper in range(self.keepers) if keeper != dealer][:degree]
        seeds = {keeper: Seed(randomness.bytes(32), secret.shape) for keeper in seeded}
        drawn = tuple(seed.expand(self.field) for seed in seeds.values())
        base = tuple(self.points[keeper] for keeper in seeded)
        pieces: list[Dealt] = []
        for keeper, point in enumerate(self.points):
            if keeper in seeds:
                pieces.append(seeds[keeper])
                continue
            # f = s·∏(X − x_i) + the polynomial of lower degree through the drawn values.
            of_secret = spread((*base, point), degree)
            weights = value_weights(base, point, self.field)
            pieces.append(combine([(of_secret, secret), *zip(weights, drawn, strict=True)]))
        return tuple(pieces)

    def expand(self, dealt: Dealt) -> FieldArray:
        """The share that a dealt piece stands for."""
        return dealt.expand(self.field) if isinstance(dealt, Seed) else dealt

    def reconstruct(self, shares: Sequence[FieldArray | None], degree: int) -> FieldArray:
        """The secret, from the shares of at least degree + 1 keepers, in keeper order; None is missing.

        More shares than degree + 1 are checked against each other. At degree 2t there are never more, so
        a wrong share gives a wrong secret and no warning.
        """
        self._check_degree(degree)
        if len(shares) != self.keepers:
            raise ValueError(
                f"there are {self.keepers} keepers, not {len(shares)}; None stands for a missing share"
            )
        present = [(x, share) for x, share in zip(self.points, shares, strict=True) if share is not None]
        if len(present) <= degree:
            raise ValueError(f"opening at degree {degree} takes {degree + 1} shares, not {len(present)}")
        points = [x for x, _ in present[: degree + 1]]
        used = [share for _, share in present[: degree + 1]]
        for x, share in present[degree + 1 :]:
            expected = combine(zip(value_weights(points, x, self.field), used, strict=True))
            if not expected.equals(share):
                raise InconsistentShares(
                    f"the {len(present)} shares do not lie on one polynomial of degree {degree}: "
                    "at least one keeper's share is wrong"
                )
        weights = [self.field.inverse(spread(points, j)) for j in range(degree + 1)]
        return combine(zip(weights, used, strict=True))

    def constant(self, values: FieldArray, keeper: int, degree: int) -> FieldArray:
        """This keeper's share of values that everybody knows."""
        self._check_degree(degree)
        return values.times(self.points[keeper] ** degree)
