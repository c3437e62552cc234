"""Secret sharing for protocols, which need not know which scheme they run on.

A secret is the leading coefficient of a polynomial of known degree: dealt at degree t it is the coefficient
of X^t, and the product of two such polynomials carries the product of the secrets at X^2t. Keeper j holds
the value at its own small integer. Sums of shares of one degree share the sum; shares of different degrees
do not add up.

Any d shares of a sharing dealt at degree d are uniform, so the dealer draws the first d from seeds and sends
those keepers 32 bytes each (docs/proofs/sharing.md). A product is *not* a dealt sharing: its lower
coefficients depend on the secrets, and it may be opened only after a sharing dealt at degree 2t, or a zero
share, was added to it (docs/proofs/noise-degree.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from colonnade.crypto.committee import Committee
from colonnade.crypto.dealing import Dealt, InconsistentShares, Seed
from colonnade.crypto.shamir import Shamir
from colonnade.errors import PlanError
from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.field import Field
from colonnade.randomness import Randomness



class Scheme(Protocol):
    """Sharing among exactly 2t + 1 keepers, of whom any t learn nothing."""

    @property
    def keepers(self) -> int:
        """2t + 1."""
        ...

    @property
    def threshold(self) -> int: ...

    @property
    def field(self) -> Field:
        """Where secrets and shares live."""
        ...

    @property
    def points(self) -> tuple[int, ...]:
        """Where the keepers stand."""
        ...

    @property
    def weights(self) -> tuple[int, ...]:
        """Σ weights[j] · share[j] over all keepers is the secret of a sharing of degree 2t."""
        ...

    def deal(
        self, secret: FieldArray, degree: int, randomness: Randomness, *, dealer: int | None = None
    ) -> tuple[Dealt, ...]:
        """One piece for each keeper; `degree` is t, or 2t for what is opened together with products.

        Whoever deals and keeps says which keeper it is, where it is to spare itself a seed.
        """
        ...

    def expand(self, dealt: Dealt) -> FieldArray:
        """The share that a dealt piece stands for."""
        ...

    def reconstruct(self, shares: Sequence[FieldArray | None], degree: int) -> FieldArray:
        """The secret, from degree + 1 shares at least; `InconsistentShares` if more disagree."""
        ...

    def constant(self, values: FieldArray, keeper: int, degree: int) -> FieldArray:
        """This keeper's share of values that everybody knows."""
        ...


def make_scheme(keepers: int, field: Field) -> Scheme:
    if keepers < 3 or keepers % 2 == 0:
        raise PlanError(
            f"{keepers} keepers were asked for; a sharing needs an odd number, 3 at least, because products "
            "open with 2t + 1 shares. Add or remove a keeper: the server counts as one if it keeps shares."
        )
    return Committee(field) if keepers == 3 else Shamir(keepers, field)


def total(scheme: Scheme, pieces: Sequence[Dealt]) -> FieldArray:
    """The sum of what several dealers dealt to one keeper: its share of the sum of their secrets."""
    if not pieces:
        raise ValueError("a sum needs at least one piece")
    first, *rest = (scheme.expand(piece) for piece in pieces)
    out = scheme.field.zeros(first.shape) + first
    for piece in rest:
        out += piece
    return out


def reshare(scheme: Scheme, keeper: int, share: FieldArray, randomness: Randomness) -> tuple[Dealt, ...]:
    """What this keeper deals so that all together bring a value of degree 2t down to degree t.

    Every keeper deals its weighted share at degree t, and every keeper adds what it received with `total`:
    the secrets dealt are weights[j] · share[j], whose sum is the secret (Gennaro, Rabin and Rabin 1998).
    Nobody learns anything, because each piece comes from a fresh sharing of degree t.
    """
    return scheme.deal(share.times(scheme.weights[keeper]), scheme.threshold, randomness, dealer=keeper)
