"""What a dealer claims about the rows it deals, and the numbers with which two keepers check it.

A claim is: in every row, the squared norm of these columns is at most R, as integers. Everything here is public and
follows from the claim, so that prover and verifiers agree on it without a message.

With three keepers and t = 1, what a dealer's rows do to the columns of others is fixed by the shares of two keepers:
for a dealer that keeps a share itself, those of the other two. They are the verifiers (docs/proofs/verified-rows.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.folding import (
    GROUPS,
    MOST_ROWS,
    derived,
    stretched,
)
from colonnade.errors import FieldTooSmall
from colonnade.numbers.field import FIELD63
from colonnade.numbers.quartic import ORDER, Floats, Nodes, quartics
from colonnade.numbers.three_squares import MOST_NORM
from colonnade.randomness import KeyedRandomness

PROJECTIONS = 40
"""L: a row that is long as integers and short modulo M passes with probability at most 2^-L."""
PADS = 3
TAIL_BITS = 75
"""An honest dealer's block stops with probability at most 2^-75, because a projection left its range."""


@dataclass(frozen=True)
class Claim:
    """Columns dealt beside each other whose squared norm is at most `norm_squared` in every row."""

    columns: int
    norm_squared: int

    def __post_init__(self) -> None:
        if self.columns < 1 or self.norm_squared < 0:
            raise ValueError("a claim is about at least one column and a bound that is not negative")


@dataclass(frozen=True)
class RowClaims:
    """The claims of one dealer about a block of rows, checked by keepers who stand at two points."""

    rows: int
    claims: tuple[Claim, ...]
    points: tuple[int, int]

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MOST_ROWS or not self.claims or self.points[0] == self.points[1]:
            raise ValueError(
                f"there are 1 to {MOST_ROWS} rows, claims about them, and two different keepers who check them"
            )
        for claim, bits in zip(self.claims, self.window_bits, strict=True):
            reach = 1 << (bits + 1)
            # Entries below 2T and pads below 4T: then a congruence modulo M is an equality of integers.
            most = 4 * claim.columns * reach**2 + PADS * (2 * reach) ** 2 + 4 * claim.norm_squared + 1
            if claim.norm_squared > MOST_NORM or most >= FIELD63.modulus:
                raise FieldTooSmall(
                    f"rows of {claim.columns} columns with entries up to {isqrt(claim.norm_squared)} cannot be "
                    f"checked {self.rows} at a time: they leave no room in a field of {FIELD63.bits} bits. Take a "
                    "smaller gamma, or verify = 'none'."
                )

    @property
    def columns(self) -> int:
        return sum(claim.columns for claim in self.claims)

    @property
    def pads(self) -> int:
        """How many integers a row is filled up with: three a claim."""
        return PADS * len(self.claims)

    @property
    def lanes(self) -> int:
        return self.columns + self.pads

    @property
    def weight(self) -> int:
        """w with z = w·(second share − first share)."""
        return FIELD63.inverse(self.points[1] - self.points[0])

    @property
    def count(self) -> int:
        return -(-self.rows // GROUPS)

    @property
    def width(self) -> int:
        return self.count * self.lanes

    @cached_property
    def window_bits(self) -> tuple[int, ...]:
        """For each claim log2 T, where projections of honest columns lie in [−T, T) and those of pads in [−2T, 2T).

        Σ_i c_i v_i with c_i = ±1 or 0 is at least T with probability at most 2·exp(−T²/Σv_i²), and Σ v_i² is at most
        rows times the bound.
        """
        nats = (TAIL_BITS + 1 + (PROJECTIONS * self.lanes).bit_length()) * 694 // 1000 + 1
        return tuple(isqrt(self.rows * (claim.norm_squared + 1) * nats).bit_length() for claim in self.claims)

    @cached_property
    def lane_bits(self) -> NDArray[np.int64]:
        """Bits of a projection of each lane, columns before pads."""
        columns = [
            bits + 1
            for claim, bits in zip(self.claims, self.window_bits, strict=True)
            for _ in range(claim.columns)
        ]
        pads = [bits + 2 for bits in self.window_bits for _ in range(PADS)]
        return np.array(columns + pads, dtype=np.int64)

    @cached_property
    def bits(self) -> int:
        """K: the most bits of a projection."""
        return int(self.lane_bits.max())

    @property
    def projected(self) -> int:
        return PROJECTIONS * self.lanes

    @cached_property
    def offsets(self) -> Floats:
        """T of each projection, so that T + projection is not negative."""
        return np.tile(2.0 ** (self.lane_bits - 1), PROJECTIONS)

    @cached_property
    def used(self) -> NDArray[np.uint8]:
        """Which of K bits each projection has: shape (K, projections)."""
        places = np.arange(self.bits)[:, None] < np.tile(self.lane_bits, PROJECTIONS)[None, :]
        return places.astype(np.uint8)

    @property
    def bit_nodes(self) -> Nodes:
        """Where a polynomial through bits is known: a mask at 0, bits at 1, …, K."""
        return _bit_nodes(self.bits)[0]

    @property
    def product_nodes(self) -> Nodes:
        """Where the product of two such polynomials is given."""
        return _bit_nodes(self.bits)[1]

    @property
    def proof_length(self) -> int:
        """Elements of a proof."""
        return GROUPS + 1 + 2 * self.bits + 1

    @property
    def degree(self) -> int:
        return max(GROUPS, 2 * self.bits) + 1

    @property
    def answer_length(self) -> int:
        return self.width + self.projected + 3

    @cached_property
    def rows_in_group(self) -> NDArray[np.int64]:
        """How many of each group's rows there are; groups are in the order of `ROW_NODES`."""
        return np.clip(self.rows - self.count * np.arange(GROUPS), 0, self.count)

    @property
    def algebraic_bits(self) -> int:
        """s: a false statement about residues passes with probability at most 2^-s.

        Of p⁴ − p points a polynomial of degree 2·64 and one of degree 2K may vanish at as many, and two random
        combinations of false equations may be 0: that of rows with probability at most 1/p⁴, that of projections,
        whose weights are products of two, at most 2/p⁴.
        """
        wrong = 2 * GROUPS + 2 * self.bits + 3
        return ((ORDER - max(FIELD63.primes)) // wrong).bit_length() - 1

    @property
    def wraparound_bits(self) -> int:
        """Bits of the check that entries are small as integers."""
        return PROJECTIONS


@cache
def _bit_nodes(bits: int) -> tuple[Nodes, Nodes]:
    some = range(1, bits + 1)
    return Nodes((0, *some)), Nodes((*some, *(-k for k in some), 0))


@dataclass(frozen=True, eq=False)
class BitWeights:
    """The random weights with which projections and their bits are compared: ρ_k σ_j of projection k of lane j.

    Whoever has shares adds up Σ_k ρ_k of a row's coins first, and never looks at a projection by itself.
    """

    rho: Floats
    sigma: Floats

    @classmethod
    def from_key(cls, key: bytes, claims: RowClaims) -> BitWeights:
        drawn = stretched(key, "bits", PROJECTIONS + claims.lanes)
        return cls(drawn[:, :, :PROJECTIONS], drawn[:, :, PROJECTIONS:])

    @cached_property
    def whole(self) -> Floats:
        """The weight of every projection: elements of shape (3, 4, projections)."""
        lanes = self.sigma.shape[2]
        return np.stack(
            [
                field.times(np.repeat(self.rho[q], lanes, axis=1), np.tile(self.sigma[q], PROJECTIONS))
                for q, field in enumerate(quartics())
            ]
        )


def first_bits(claims: RowClaims, seed: bytes) -> NDArray[np.uint8]:
    """The first verifier's bits of every projection: uniform, from its seed."""
    size = claims.bits * claims.projected
    drawn = KeyedRandomness(derived(seed, "bits")).bytes(-(-size // 8))
    flat = np.unpackbits(np.frombuffer(drawn, np.uint8))[:size]
    out: NDArray[np.uint8] = flat.reshape(claims.bits, claims.projected) & claims.used
    return out


def target(claims: RowClaims, beta: Floats, q: int, prime: int) -> Floats:
    """What the weighted squares of each group add up to if all claims hold: elements of shape (4, groups)."""
    total = np.zeros((4, GROUPS))
    for c, claim in enumerate(claims.claims):
        mine = beta[q, :, c * claims.count : (c + 1) * claims.count]
        sums = np.concatenate([np.zeros((4, 1)), np.cumsum(mine, axis=1)], axis=1)
        total += sums[:, claims.rows_in_group] % prime * float((4 * claim.norm_squared + 1) % prime) % prime
    return total % prime
