"""Shamir's secret sharing, with the secret as leading coefficient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from colonnade.errors import PlanError
from colonnade.numbers.field import Field, FieldArray
from colonnade.randomness import KeyedRandomness, Randomness


class InconsistentShares(ValueError):
    """The shares do not lie on one polynomial of the stated degree: a computing party erred or lied."""


@dataclass(frozen=True)
class Seed:
    """A share that is uniform, sent as the 32 bytes it is expanded from.

    The key is drawn for this one share. Expansion is AES-256 in counter mode, so a party without the key
    cannot tell the share from a uniform one.
    """

    key: bytes = field(repr=False)
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"a seed has 32 bytes, this one has {len(self.key)}")
        if any(length < 0 for length in self.shape):
            raise ValueError(f"a share cannot have shape {self.shape}")

    def expand(self, field: Field) -> FieldArray:
        return field.uniform(self.shape, KeyedRandomness(self.key))


Dealt = FieldArray | Seed


def party_points(computing_parties: int) -> tuple[int, ...]:
    """Where the computing parties stand: 0, 1, −1, 2, −2, …

    Every first few of these are consecutive integers, which makes the weights between them integers.
    """
    return tuple((j + 1) // 2 * (1 if j % 2 else -1) for j in range(computing_parties))


def spread(points: Sequence[int], at: int) -> int:
    """∏ (x_at − x_m) over all other points: 1/spread is the weight of this share in the leading coefficient."""
    return prod(points[at] - other for m, other in enumerate(points) if m != at)


def value_weights(points: Sequence[int], at: int, field: Field) -> tuple[int, ...]:
    """Weights that give f(at) from the values of f at `points`, for a degree below their number."""
    weights = []
    for i in range(len(points)):
        top = prod(at - other for m, other in enumerate(points) if m != i)
        bottom = spread(points, i)
        whole, rest = divmod(top, bottom)
        weights.append(whole if rest == 0 else top * field.inverse(bottom) % field.modulus)
    return tuple(weights)


def combine(terms: Iterable[tuple[int, FieldArray]]) -> FieldArray:
    """Σ weight · array; weights of 1 and −1 cost one addition."""
    total: FieldArray | None = None
    for weight, array in terms:
        total = array.times(weight) if total is None else total.plus_times(weight, array)
    if total is None:
        raise ValueError("a sum needs at least one term")
    return total


@dataclass(frozen=True)
class Shamir:
    """2t + 1 computing parties, of whom any t learn nothing and any t + 1 learn everything.

    Guarantee: at degree d (t or 2t), any d shares are jointly uniform and independent of the secret
    (docs/proofs/sharing.md), up to what tells AES-256 in counter mode from uniform bits.

    The secret is the coefficient of X^d and the computing parties stand at 0, 1, −1, 2, −2, … Products of shares of
    degree t are shares of the product at degree 2t, which exactly all computing parties together can open.
    """

    computing_parties: int
    field: Field

    def __post_init__(self) -> None:
        if self.computing_parties < 3 or self.computing_parties % 2 == 0:
            raise PlanError(
                f"{self.computing_parties} computing parties were asked for; a sharing needs an odd number, 3 at "
                "least, because products open with 2t + 1 shares. Add or remove a computing party: the server counts "
                "as one if it keeps shares."
            )

    @property
    def threshold(self) -> int:
        return self.computing_parties // 2

    @cached_property
    def points(self) -> tuple[int, ...]:
        return party_points(self.computing_parties)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Σ weights[j] · share[j] over all computing parties is the secret of a sharing of degree 2t."""
        return tuple(self.field.inverse(spread(self.points, j)) for j in range(self.computing_parties))

    def _check_degree(self, degree: int) -> None:
        if degree not in (self.threshold, 2 * self.threshold):
            raise ValueError(f"a degree is {self.threshold} or {2 * self.threshold} here, not {degree}")

    def deal(
        self, secret: FieldArray, degree: int, randomness: Randomness, *, dealer: int | None = None
    ) -> tuple[Dealt, ...]:
        """One piece for each computing party: seeds for the first `degree`, field elements for the rest.

        A dealer that is a computing party itself needs nothing sent, so it leaves the seeds to others.
        """
        self._check_degree(degree)
        seeded = [at for at in range(self.computing_parties) if at != dealer][:degree]
        seeds = {at: Seed(randomness.bytes(32), secret.shape) for at in seeded}
        drawn = tuple(seed.expand(self.field) for seed in seeds.values())
        base = tuple(self.points[at] for at in seeded)
        pieces: list[Dealt] = []
        for at, point in enumerate(self.points):
            if at in seeds:
                pieces.append(seeds[at])
                continue
            # f = s·∏(X − x_i) + the polynomial of lower degree through the drawn values.
            of_secret = spread((*base, point), degree)
            weights = value_weights(base, point, self.field)
            pieces.append(combine([*zip(weights, drawn, strict=True), (of_secret, secret)]))
        return tuple(pieces)

    def expand(self, dealt: Dealt) -> FieldArray:
        return dealt.expand(self.field) if isinstance(dealt, Seed) else dealt

    def reconstruct(self, shares: Sequence[FieldArray | None], degree: int) -> FieldArray:
        """The secret, from the shares of at least degree + 1 computing parties, in their order; None is missing.

        More shares than degree + 1 are checked against each other. At degree 2t there are never more, so
        a wrong share gives a wrong secret and no warning.
        """
        self._check_degree(degree)
        if len(shares) != self.computing_parties:
            raise ValueError(
                f"there are {self.computing_parties} computing parties, not {len(shares)}; None is a missing share"
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
                    "at least one computing party's share is wrong"
                )
        weights = [self.field.inverse(spread(points, j)) for j in range(degree + 1)]
        return combine(zip(weights, used, strict=True))

    def constant(self, values: FieldArray, computing_party: int, degree: int) -> FieldArray:
        """This computing party's share of values that everybody knows."""
        self._check_degree(degree)
        return values.times(self.points[computing_party] ** degree)


def total(scheme: Shamir, pieces: Sequence[Dealt]) -> FieldArray:
    """The sum of what several dealers dealt to one computing party: its share of the sum of their secrets."""
    if not pieces:
        raise ValueError("a sum needs at least one piece")
    return combine((1, scheme.expand(piece)) for piece in pieces)


def reshare(
    scheme: Shamir, computing_party: int, share: FieldArray, randomness: Randomness
) -> tuple[Dealt, ...]:
    """What this computing party deals so that all together bring a value of degree 2t down to degree t.

    Every computing party deals its weighted share at degree t and adds what it received with `total`: the secrets dealt
    are weights[j] · share[j], whose sum is the secret (Gennaro, Rabin and Rabin 1998). Nobody learns anything, because
    each piece comes from a fresh sharing of degree t.
    """
    return scheme.deal(
        share.times(scheme.weights[computing_party]), scheme.threshold, randomness, dealer=computing_party
    )
