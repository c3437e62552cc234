"""Verified rows: what a dealer claims about its rows, its proof, and the verifiers' check."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto import product_proof
from colonnade.crypto.product_proof import AT_A_TIME, AT_ONCE, GROUPS, MOST_ROWS, derived, stretched
from colonnade.errors import FieldTooSmall, LocalProtocolError
from colonnade.numbers import quartic
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.numbers.quartic import MOST_NORM, PRIMES, QUARTICS, Floats, Projections, product, reduced
from colonnade.randomness import KeyedRandomness

PROJECTIONS = 40
"""L: a row that is long as integers and short modulo M passes with probability at most 2^-L."""
PADS = 3
TAIL_BITS = 75
"""An honest dealer's block stops with probability at most 2^-75, because a projection left its range."""


@dataclass(frozen=True)
class RowClaim:
    """Columns dealt beside each other whose squared norm is at most `norm_squared` in every row."""

    columns: int
    norm_squared: int

    def __post_init__(self) -> None:
        if self.columns < 1 or self.norm_squared < 0:
            raise ValueError("a claim is about at least one column and a bound that is not negative")


@dataclass(frozen=True)
class RowClaims:
    """The claims of one dealer about a block of rows, checked by computing parties who stand at two points."""

    rows: int
    claims: tuple[RowClaim, ...]
    points: tuple[int, int]

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MOST_ROWS or not self.claims or self.points[0] == self.points[1]:
            raise ValueError(
                f"there are 1 to {MOST_ROWS} rows, claims about them, and two different computing parties who "
                f"check them"
            )
        for claim, bits in zip(self.claims, self.window_bits, strict=True):
            extent = 1 << (bits + 1)
            # Entries below 2T and pads below 4T: then a congruence modulo M is an equality of integers.
            most = 4 * claim.columns * extent**2 + PADS * (2 * extent) ** 2 + 4 * claim.norm_squared + 1
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
    def bit_nodes(self) -> quartic.Nodes:
        """Where a polynomial through bits is known: a mask at 0, bits at 1, …, K."""
        return _bit_nodes(self.bits)[0]

    @property
    def product_nodes(self) -> quartic.Nodes:
        """Where the product of two such polynomials is given."""
        return _bit_nodes(self.bits)[1]

    @property
    def proof_length(self) -> int:
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
        return ((quartic.ORDER - max(FIELD63.primes)) // wrong).bit_length() - 1


@cache
def _bit_nodes(bits: int) -> tuple[quartic.Nodes, quartic.Nodes]:
    some = range(1, bits + 1)
    return quartic.Nodes((0, *some)), quartic.Nodes((*some, *(-k for k in some), 0))


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
                for q, field in enumerate(QUARTICS)
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


Integers = NDArray[np.int64]

_HALF = GROUPS // 2


class RowProof:
    """One dealer's proof about one block of rows, in the order in which it is asked for."""

    def __init__(self, claims: RowClaims, rows: Integers, *, seeds: tuple[bytes, bytes]) -> None:
        self.claims, self._rows, self._seeds = claims, rows, seeds
        start, parts = 0, []
        for claim in claims.claims:
            parts.append(quartic.slack(rows[:, start : start + claim.columns], claim.norm_squared))
            start += claim.columns
        self.pads: Integers = np.concatenate(parts, axis=1)

    def bits(self, challenge: bytes) -> NDArray[np.uint8]:
        """The second verifier's bits of every projection: shape (K, projections)."""
        claims = self.claims
        draws = Projections.from_key(derived(challenge, "projections"), rows=claims.rows, count=PROJECTIONS)
        values = draws.of_integers(self._rows, self.pads).reshape(-1) + claims.offsets.astype(np.int64)
        if int(values.min()) < 0 or (values >= 2 * claims.offsets).any():
            raise LocalProtocolError(
                "a random projection of honest rows left its range, which happens less than once in 2^75 blocks. "
                "Run again."
            )
        whole = ((values[None, :] >> np.arange(claims.bits)[:, None]) & 1).astype(np.uint8)
        self._first = first_bits(claims, self._seeds[0])
        self._second = whole ^ self._first
        return self._second

    def proof(self, challenge: bytes, second: bytes) -> FieldArray:
        """The second verifier's half of the proof, as words."""
        claims = self.claims
        beta = stretched(challenge, "rows", claims.count * len(claims.claims))
        tau = BitWeights.from_key(second, claims).whole
        whole = np.empty((3, 4, claims.proof_length))
        whole[:, :, : GROUPS + 1] = self._quotient(beta)
        whole[:, :, GROUPS + 1 :] = self._bit_products(tau)
        whole -= stretched(self._seeds[0], "proof", claims.proof_length)
        return quartic.packed(
            np.stack([reduced(part, prime) for part, prime in zip(whole, PRIMES, strict=True)])
        )

    def _quotient(self, beta: Floats) -> Floats:
        """(P − C)/Z where it is given, for P(X) = Σ β κ F(X)²."""
        claims, count = self.claims, self.claims.count
        mask = stretched(self._seeds[0], "row masks", claims.width)
        mask += stretched(self._seeds[1], "row masks", claims.width)
        squares, crossed, masked = np.zeros((3, 4, GROUPS)), np.zeros((3, 4, GROUPS)), np.zeros((3, 4))
        first = 0
        for c, claim in enumerate(claims.claims):
            columns = slice(first, first + claim.columns)
            pads = slice(PADS * c, PADS * (c + 1))
            weights, sums = beta[:, :, c * count : (c + 1) * count], np.zeros((3, GROUPS, count))
            for array, chosen, scale in ((self._rows, columns, 4), (self.pads, pads, 1)):
                offset = 0 if array is self._rows else count * claims.columns
                whole = mask[:, :, offset : offset + count * array.shape[1]].reshape(3, 4, count, -1)
                for at in range(chosen.start, chosen.stop, AT_A_TIME):
                    some = slice(at, min(at + AT_A_TIME, chosen.stop))
                    _add_columns(
                        array[:, some], whole[:, :, :, some], weights, scale, (sums, crossed, masked)
                    )
            for q, prime in enumerate(PRIMES):
                squares[q] += product(weights[q], sums[q].T, prime)
            first += claim.columns
        out = np.empty((3, 4, GROUPS + 1))
        mask_weight, group_weights, inverse = product_proof.outside()
        for q, field in enumerate(QUARTICS):
            prime, own = field.prime, mask_weight[q]
            cross = product_proof.spread(crossed[q], q, prime)
            values = np.empty((4, GROUPS + 1))
            values[:, 0] = reduced(masked[q], prime)
            lifted = reduced(2.0 * cross * own, prime)
            values[:, 1:] = squares[q] + lifted + reduced(values[:, :1] * reduced(own * own, prime), prime)
            known = product(target(claims, beta, q, prime), group_weights[q].T.copy(), prime)
            out[q] = reduced(reduced(values - known, prime) * inverse[q], prime)
        return out

    def _bit_products(self, tau: Floats) -> Floats:
        """Σ τ f h at 1, …, K, −1, …, −K and 0, for polynomials f and h through the two halves of the bits."""
        claims, bits = self.claims, self.claims.bits
        first, second = self._first.astype(np.float64), self._second.astype(np.float64)
        there = (self._first & self._second).astype(np.float64)
        f_mask = stretched(self._seeds[0], "bit masks", claims.projected)
        h_mask = stretched(self._seeds[1], "bit masks", claims.projected)
        beyond = claims.bit_nodes.values_at(tuple(-k for k in range(1, bits + 1)))
        out = np.empty((3, 4, 2 * bits + 1))
        for q, field in enumerate(QUARTICS):
            prime, t, own = field.prime, tau[q], beyond[q, :, 0]
            f, h = product(beyond[q, :, 1:], first, prime), product(beyond[q, :, 1:], second, prime)
            f_side, h_side = field.times(t, f_mask[q]), field.times(t, h_mask[q])
            mixed = reduced(product(f_side, h.T, prime) + product(h_side, f.T, prime), prime)
            both = field.dot(f_side, h_mask[q])
            corner = reduced(both[:, None] * reduced(own * own, prime), prime)
            f *= h
            quartic.loops().reduce(f.reshape(-1), prime)
            plain = product(t, f.T, prime)
            out[q, :, :bits] = product(t, there.T, prime)
            out[q, :, bits : 2 * bits] = reduced(plain + reduced(mixed * own, prime) + corner, prime)
            out[q, :, 2 * bits] = both
        return out


def _add_columns(
    rows: Integers, masks: Floats, beta: Floats, scale: int, totals: tuple[Floats, Floats, Floats]
) -> None:
    """Add what columns of one claim and scale give P outside, still without β in the first of three sums.

    They are the squares of every row of a group, the products of entries with masks, and the squares of masks.
    """
    sums, crossed, masked = totals
    columns, count = rows.shape[1], beta.shape[2]
    even, odd = product_proof.halves()
    inner, weighted = quartic.loops(), np.empty((3, 4, columns, count))
    masks = np.ascontiguousarray(masks.transpose(0, 1, 3, 2))
    for q, field in enumerate(QUARTICS):
        mine = masks[q].reshape(4, -1)
        inner.reduce(mine.reshape(-1), field.prime)
        weighed = field.times(mine, np.tile(beta[q], columns))
        masked[q] += scale * field.dot(weighed, mine)
        weighted[q] = weighed.reshape(4, columns, count)
    step = max(1, min(count, AT_A_TIME // columns))
    shape = (_HALF, columns, step)
    plus, minus, left, right = (np.empty(shape) for _ in range(4))
    flat = [part.reshape(_HALF, -1) for part in (plus, minus, left, right)]
    for start in range(0, count, step):
        inner.arrange(rows, count, start, plus, minus)
        for q, prime in enumerate(PRIMES):
            np.matmul(even[q], flat[0], out=flat[2])
            np.matmul(odd[q], flat[1], out=flat[3])
            inner.add_pair_squares(left, right, float(scale), prime, start, sums[q])
        product_proof.add_crossed(weighted, start, (plus, minus), float(scale), PRIMES, crossed)


def answer(
    claims: RowClaims,
    shares: tuple[FieldArray, FieldArray],
    *,
    seed: bytes,
    challenge: bytes,
    second: bytes,
    third: bytes,
) -> FieldArray:
    """What the first verifier tells the second: its side of every polynomial at the point of the third challenge."""
    point, bits = product_proof.point_of(third, claims.degree), claims.bits
    mine = stretched(seed, "proof", claims.proof_length)
    half = first_bits(claims, seed)
    out = np.empty((3, 4, claims.answer_length))
    out[:, :, : claims.width] = product_proof.masked_at(shares, claims.count, seed, point, -claims.weight)
    out[:, :, claims.width : -3] = _bits_at(
        claims, half, stretched(seed, "bit masks", claims.projected), point
    )
    weights = BitWeights.from_key(second, claims)
    given = mine[:, :, GROUPS + 1 : GROUPS + 1 + bits]
    out[:, :, -1] = _bit_sum(claims, shares, challenge, half, given, weights, first=True)
    quotient, products = product_proof.QUOTIENT_NODES.at(point), claims.product_nodes.at(point)
    for q, field in enumerate(QUARTICS):
        out[q, :, -3] = field.dot(quotient[q], mine[q, :, : GROUPS + 1])
        out[q, :, -2] = field.dot(products[q], mine[q, :, GROUPS + 1 :])
    return quartic.packed(out)


def accepts(
    claims: RowClaims,
    shares: tuple[FieldArray, FieldArray],
    *,
    seed: bytes,
    bits: NDArray[np.uint8],
    proof: FieldArray,
    challenge: bytes,
    second: bytes,
    third: bytes,
    answered: FieldArray,
) -> bool:
    """Whether the second verifier, who has heard the first one's answer, finds that every claim holds.

    Guarantee: for rows that break a claim, as integers, whatever the dealer sent, the probability of True is at most
    2^-`algebraic_bits` + 2^-`PROJECTIONS` (docs/proofs/verified-rows.md).
    """
    if (bits > claims.used).any():
        return False
    point, count = product_proof.point_of(third, claims.degree), claims.count
    theirs, half = quartic.unpacked(answered), quartic.unpacked(proof)
    rows = theirs[:, :, : claims.width] + product_proof.masked_at(
        shares, claims.count, seed, point, claims.weight
    )
    own = _bits_at(claims, bits, stretched(seed, "bit masks", claims.projected), point)
    beta = stretched(challenge, "rows", count * len(claims.claims))
    weights = BitWeights.from_key(second, claims)
    given = half[:, :, GROUPS + 1 : GROUPS + 1 + claims.bits]
    linear = _bit_sum(claims, shares, challenge, bits, given, weights, first=False)
    quotient, products = product_proof.QUOTIENT_NODES.at(point), claims.product_nodes.at(point)
    groups, vanishing = product_proof.ROW_NODES.at(point), product_proof.ROW_NODES.vanishing_at(point)
    holds = True
    for q, field in enumerate(QUARTICS):
        prime = field.prime
        squares = _squares(claims, reduced(rows[q], prime), q)
        left = field.dot(squares, beta[q])
        value = reduced(field.dot(quotient[q], half[q, :, : GROUPS + 1]) + theirs[q, :, -3], prime)
        known = field.dot(groups[q], target(claims, beta, q, prime))
        lifted = field.times(vanishing[q][:, None], value[:, None])[:, 0]
        holds &= bool((left == reduced(known + lifted, prime)).all())
        pairs = reduced(field.dot(products[q], half[q, :, GROUPS + 1 :]) + theirs[q, :, -2], prime)
        both = field.dot(
            field.times(weights.whole[q], np.ascontiguousarray(theirs[q, :, claims.width : -3])), own[q]
        )
        holds &= bool((both == pairs).all())
        holds &= not reduced(linear[q] + theirs[q, :, -1], prime).any()
    return holds


def _bits_at(claims: RowClaims, bits: NDArray[np.uint8], masks: Floats, point: Floats) -> Floats:
    """A polynomial through one half of the bits of every projection, at the point."""
    basis, out = claims.bit_nodes.at(point), np.empty((3, 4, claims.projected))
    plain = bits.astype(np.float64)
    for q, field in enumerate(QUARTICS):
        through = product(np.ascontiguousarray(basis[q, :, 1:]), plain, field.prime)
        out[q] = reduced(through + field.times(masks[q], basis[q, :, :1].copy()), field.prime)
    return out


def _bit_sum(
    claims: RowClaims,
    shares: tuple[FieldArray, FieldArray],
    challenge: bytes,
    bits: NDArray[np.uint8],
    given: Floats,
    weights: BitWeights,
    *,
    first: bool,
) -> Floats:
    """One side of Σ τ(projection + T − Σ_k 2^k bit_k) + Σ_k 2^(k + 1) P′(k), as elements of shape (3, 4).

    The two sides of it cancel where bits are those of projections.
    """
    draws = Projections.from_key(derived(challenge, "projections"), rows=claims.rows, count=PROJECTIONS)
    columns = draws.of_shares(*shares, weights.rho)
    powers: Floats = np.ldexp(1.0, np.arange(claims.bits))
    places: Floats = (claims.offsets if first else 0.0) - powers @ bits.astype(np.float64)
    weight = -claims.weight if first else claims.weight
    out = np.empty((3, 4))
    for q, field in enumerate(QUARTICS):
        prime = field.prime
        projected = field.scaled(field.dot(weights.sigma[q], columns[q]), weight)
        placed = product(weights.whole[q], reduced(places, prime), prime)
        out[q] = reduced(projected + placed + product(given[q], reduced(2.0 * powers, prime), prime), prime)
    return out


def _squares(claims: RowClaims, rows: Floats, q: int) -> Floats:
    """Σ_j κ_j F_uj(r)² of every claim and row of a group: elements of shape (4, claims · count)."""
    field, count = QUARTICS[q], claims.count
    out = np.zeros((4, len(claims.claims), count))
    columns = rows[:, : count * claims.columns].reshape(4, count, claims.columns)
    pads = rows[:, count * claims.columns :].reshape(4, count, claims.pads)
    start = 0
    for c, claim in enumerate(claims.claims):
        total = np.zeros((4, count))
        parts = [(pads[:, :, PADS * c : PADS * (c + 1)], 1.0)]
        for at in range(start, start + claim.columns, AT_ONCE):
            parts.append((columns[:, :, at : min(at + AT_ONCE, start + claim.columns)], 4.0))
        for part, scale in parts:
            quartic.loops().add_ring_squares(
                np.ascontiguousarray(part), scale, field.prime, field.one, field.zero, total
            )
        out[:, c] = total
        start += claim.columns
    return out.reshape(4, -1)
