"""Proofs about products of shares: polynomials through rows, folded until one value is left."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers import quartic
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.numbers.quartic import ORDER, PRIMES, QUARTICS, Floats, Nodes, Quartic, loops, product, reduced
from colonnade.randomness import KeyedRandomness

GROUPS = 64
"""Rows of a block are folded so many times in a proof."""
AT_ONCE = 1024
"""Columns whose squares are added up before they are reduced: the sums fit a double."""
AT_A_TIME = 512
"""Entries of a group that are computed at a time: they stay in the processor's cache, and so many products of 21 and
22 bits add up to an integer that a double holds and `reduced` takes."""
MOST_ROWS = 1 << 16
"""Rows of a block: their projections and products fit the integers and doubles they are computed in."""
_HALF = GROUPS // 2
_AROUND = (*range(1, _HALF + 1), *(-k for k in range(1, _HALF + 1)))
OUTSIDE = (0, *range(_HALF + 1, GROUPS + 1), *(-k for k in range(_HALF + 1, GROUPS + 1)))
"""Where the quotient of a proof is given."""
ROW_NODES = Nodes(_AROUND)
MASKED_NODES = Nodes((0, *_AROUND))
QUOTIENT_NODES = Nodes(OUTSIDE)


def derived(key: bytes, *labels: str) -> bytes:
    """A key for one purpose, bound to everything that is named."""
    whole = hashlib.sha256(b"colonnade verified rows 1")
    for part in (key, *(label.encode() for label in labels)):
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()


def stretched(key: bytes, purpose: str, count: int) -> Floats:
    """Elements of the extensions that a key stands for, for one purpose."""
    return quartic.uniform(count, KeyedRandomness(derived(key, purpose)))


def point_of(key: bytes, degree: int) -> Floats:
    """The powers up to a degree of where a proof is checked: an element that is in the prime field of no extension."""
    source = KeyedRandomness(derived(key, "point"))
    while True:
        point = quartic.uniform(1, source)[:, :, 0]
        if point[:, 1:].any(axis=1).all():
            return quartic.powers_of(point, degree + 1)


@cache
def halves() -> tuple[Floats, Floats]:
    """Even and odd parts of the Lagrange polynomials at 33, …, 64: opposite groups share the work."""
    values = MASKED_NODES.values_at(OUTSIDE[1 : _HALF + 1])
    even, odd = np.empty((3, _HALF, _HALF)), np.empty((3, _HALF, _HALF))
    for q, prime in enumerate(PRIMES):
        half = pow(2, -1, prime)
        upper, lower = values[q, :, 1 : _HALF + 1], values[q, :, _HALF + 1 :]
        even[q] = _centred(reduced(reduced(upper + lower, prime) * half, prime), prime)
        odd[q] = _centred(reduced(reduced(upper - lower, prime) * half, prime), prime)
    return even, odd


def _centred(values: Floats, prime: int) -> Floats:
    return np.where(values > prime // 2, values - prime, values)


def add_crossed(
    weighted: Floats,
    first: int,
    arranged: tuple[Floats, Floats],
    scale: float,
    primes: tuple[int, ...],
    crossed: Floats,
) -> None:
    """Add what masks, weighted, give with entries that `arrange` has put into sums and differences.

    `weighted` has shape (primes, 4, columns, rows of a group), and those rows from `first` on are met; `crossed` has
    shape (primes, 4, groups), as `spread` takes it, and stays reduced.
    """
    _, columns, step = arranged[0].shape
    some = weighted[:, :, :, first : first + step]
    here = np.zeros((4 * len(primes), columns, step))
    here[:, :, : some.shape[3]] = some.reshape(len(here), columns, -1)
    products = np.empty((len(here), GROUPS))
    for at, part in zip((0, _HALF), arranged, strict=True):
        np.matmul(here.reshape(len(here), -1), part.reshape(_HALF, -1).T, out=products[:, at : at + _HALF])
    shape = (len(primes), -1)
    loops().add_reduced(products.reshape(shape), scale, np.array(primes), crossed.reshape(shape))


def spread(crossed: Floats, q: int, prime: int) -> Floats:
    """Σ_g L_g(x) t_g at 33, …, 64 and −33, …, −64, from sums and differences of opposite groups."""
    even, odd = halves()
    upper = reduced(crossed[:, :_HALF] @ even[q].T, prime)
    lower = reduced(crossed[:, _HALF:] @ odd[q].T, prime)
    return reduced(np.concatenate([upper + lower, upper - lower], axis=1), prime)


@cache
def outside() -> tuple[Floats, Floats, Floats]:
    """Where the quotient is given: the weight of the mask, of each group's target, and 1/Z."""
    masked = MASKED_NODES.values_at(OUTSIDE[1:])[:, :, 0]
    known = ROW_NODES.values_at(OUTSIDE)
    inverse = [
        [pow(value, -1, prime) for value in row]
        for row, prime in zip(ROW_NODES.vanishing(OUTSIDE), PRIMES, strict=True)
    ]
    return masked, known, np.array(inverse, dtype=np.float64)


@dataclass(frozen=True)
class ProductClaim:
    """In each of `rows` rows the computing party at `prover` reshared `factor` times the inner product of its shares.

    `points` are where the two verifiers stand.
    """

    rows: int
    columns: int
    factor: int
    prover: int
    points: tuple[int, int]

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MOST_ROWS or self.columns < 1 or len({self.prover, *self.points}) != 3:
            raise ValueError(
                f"there are 1 to {MOST_ROWS} rows, columns, and three computing parties at different points"
            )

    @property
    def count(self) -> int:
        return -(-self.rows // GROUPS)

    @property
    def width(self) -> int:
        return self.count * self.columns

    @cached_property
    def share_weights(self) -> tuple[int, int]:
        first, second = self.points
        inverse, modulus = FIELD63.inverse(first - second), FIELD63.modulus
        return (self.prover - second) * inverse % modulus, (first - self.prover) * inverse % modulus

    @cached_property
    def secret_weights(self) -> tuple[int, int]:
        """The same for the secret of a sharing that the prover dealt at degree 1."""
        inverse = FIELD63.inverse(self.points[1] - self.points[0])
        return -inverse % FIELD63.modulus, inverse

    @property
    def proof_length(self) -> int:
        return GROUPS + 1

    @property
    def answer_length(self) -> int:
        return 2 * self.width + 2

    @property
    def algebraic_bits(self) -> int:
        """s: a wrong product passes with probability at most 2^-s."""
        return ((ORDER - max(FIELD63.primes)) // (2 * GROUPS + 1)).bit_length() - 1


@dataclass(frozen=True, eq=False, repr=False)
class ProductProof:
    """One computing party's proof about one block of products, in the order in which it is asked for."""

    claim: ProductClaim
    left: FieldArray
    right: FieldArray
    dealt: FieldArray
    seeds: tuple[bytes, bytes]

    def proof(self, challenge: bytes) -> FieldArray:
        """The second verifier's half of the proof, as words."""
        claim = self.claim
        beta = stretched(challenge, "rows", claim.count)
        masks = stretched(self.seeds[0], "row masks", 2 * claim.width)
        masks += stretched(self.seeds[1], "row masks", 2 * claim.width)
        dealt = self.dealt.residues
        mine = stretched(self.seeds[0], "proof", GROUPS + 1)
        out = np.empty((3, 4, GROUPS + 1))
        mask_weight, _, inverse = outside()
        for q, field in enumerate(QUARTICS):
            prime, own = field.prime, mask_weight[q]
            sums, crossed, masked = np.zeros((GROUPS, claim.count)), np.zeros((4, GROUPS)), np.zeros(4)
            flat = reduced(masks[q], prime).reshape(4, 2, claim.count, claim.columns)
            whole = np.ascontiguousarray(flat.transpose(1, 0, 3, 2))
            for start in range(0, claim.columns, AT_A_TIME):
                stop = min(start + AT_A_TIME, claim.columns)
                pair = (self.left, self.right)
                if claim.columns > AT_A_TIME:
                    pair = (pair[0].columns(start, stop), pair[1].columns(start, stop))
                some = (whole[0, :, start:stop], whole[1, :, start:stop])
                _add_products(pair, some, beta[q], field, q, (sums, crossed, masked))
            factor = float(claim.factor % prime)
            values = np.empty((4, GROUPS + 1))
            values[:, 0] = reduced(masked, prime)
            cross = spread(crossed, q, prime)
            lifted = reduced(cross * own, prime) + reduced(values[:, :1] * reduced(own * own, prime), prime)
            values[:, 1:] = reduced(product(beta[q], sums.T, prime) + lifted, prime)
            values = reduced(values * factor, prime)
            values[:, 1:] -= spread(_weighted(dealt[q], beta[q], prime), q, prime)
            out[q] = reduced(reduced(reduced(values, prime) * inverse[q], prime) - mine[q], prime)
        return quartic.packed(out)


def _add_products(
    pair: tuple[FieldArray, FieldArray],
    masks: tuple[Floats, Floats],
    beta: Floats,
    field: Quartic,
    q: int,
    totals: tuple[Floats, Floats, Floats],
) -> None:
    """Add what some columns give Σ β F G outside, still without β in the first of three sums.

    They are the products of every row of a group, the products of entries with masks, and the products of masks.
    """
    sums, crossed, masked = totals
    prime, inner = field.prime, loops()
    even, odd = halves()
    columns, count = pair[0].shape[1], beta.shape[1]
    flat = [np.ascontiguousarray(mask).reshape(4, -1) for mask in masks]
    weighted = [field.times(mask, np.tile(beta, columns)) for mask in flat]
    masked += field.dot(weighted[0], flat[1])
    by_column = [mine.reshape(1, 4, columns, count) for mine in weighted]
    step = max(1, min(count, AT_A_TIME // columns))
    shape = (_HALF, columns, step)
    folded = [(np.empty(shape), np.empty(shape)) for _ in pair]
    sides = [(np.empty(shape), np.empty(shape)) for _ in pair]
    for start in range(0, count, step):
        for factor, (plus, minus), (left, right) in zip(pair, folded, sides, strict=True):
            inner.arrange_words(factor.words[0], count, start, q, plus, minus)
            np.matmul(even[q], plus.reshape(_HALF, -1), out=left.reshape(_HALF, -1))
            np.matmul(odd[q], minus.reshape(_HALF, -1), out=right.reshape(_HALF, -1))
        inner.add_pair_products(*sides[0], *sides[1], prime, start, sums)
        # The mask of one factor meets the entries of the other.
        for mine, other in ((by_column[0], folded[1]), (by_column[1], folded[0])):
            add_crossed(mine, start, other, 1.0, (prime,), crossed[None])


def _weighted(dealt: NDArray[np.uint32], beta: Floats, prime: int) -> Floats:
    """Σ_u β_u z_gu as sums and differences of opposite groups, for `spread`."""
    count = beta.shape[1]
    padded = np.zeros(GROUPS * count)
    padded[: dealt.shape[0]] = dealt[:, 0]
    groups = product(beta, padded.reshape(GROUPS, count).T, prime)
    upper, lower = groups[:, :_HALF], groups[:, _HALF:]
    return reduced(np.concatenate([upper + lower, upper - lower], axis=1), prime)


Shares = tuple[FieldArray, FieldArray, FieldArray]
"""A verifier's shares of both factors, and of what the prover dealt."""


def answer(claim: ProductClaim, shares: Shares, *, seed: bytes, challenge: bytes, third: bytes) -> FieldArray:
    """What the first verifier tells the second: its side of every polynomial at the point of the last challenge."""
    point = point_of(third, GROUPS + 1)
    mine = stretched(seed, "proof", GROUPS + 1)
    out = np.empty((3, 4, claim.answer_length))
    out[:, :, :-2] = masked_at(shares[:2], claim.count, seed, point, claim.share_weights[0])
    out[:, :, -2] = _dealt_at(claim, shares[2], challenge, point, 0)
    quotient = QUOTIENT_NODES.at(point)
    for q, field in enumerate(QUARTICS):
        out[q, :, -1] = field.dot(quotient[q], mine[q])
    return quartic.packed(out)


def accepts(
    claim: ProductClaim,
    shares: Shares,
    *,
    seed: bytes,
    proof: FieldArray,
    challenge: bytes,
    third: bytes,
    answered: FieldArray,
) -> bool:
    """Whether the second verifier finds that every product is what it should be.

    Guarantee: if some z_i ≠ λ Σ_k p_ik q_ik, the probability of True is at most 2^-`algebraic_bits`.
    """
    point = point_of(third, GROUPS + 1)
    theirs, half = quartic.unpacked(answered), quartic.unpacked(proof)
    mine = masked_at(shares[:2], claim.count, seed, point, claim.share_weights[1])
    factors = theirs[:, :, :-2] + mine
    dealt = theirs[:, :, -2] + _dealt_at(claim, shares[2], challenge, point, 1)
    beta = stretched(challenge, "rows", claim.count)
    quotient, vanishing = QUOTIENT_NODES.at(point), ROW_NODES.vanishing_at(point)
    holds = True
    for q, field in enumerate(QUARTICS):
        prime = field.prime
        both = reduced(factors[q], prime).reshape(4, 2, -1)
        spread_out = np.repeat(beta[q], claim.columns, axis=1)
        left = field.times(np.ascontiguousarray(both[:, 0]), spread_out)
        dots = field.dot(left, np.ascontiguousarray(both[:, 1]))
        value = reduced(field.dot(quotient[q], half[q]) + theirs[q, :, -1], prime)
        lifted = field.times(vanishing[q][:, None], value[:, None])[:, 0]
        scaled = reduced(dots * float(claim.factor % prime), prime)
        holds &= not reduced(scaled - dealt[q] - lifted, prime).any()
    return holds


def masked_at(
    shares: tuple[FieldArray, FieldArray], count: int, seed: bytes, point: Floats, weight: int
) -> Floats:
    """One side of polynomials through shares and masks at the point; weighted, both sides add up to the prover's."""
    basis = MASKED_NODES.at(point)
    widths = [count * share.shape[1] for share in shares]
    out = stretched(seed, "row masks", sum(widths))
    factors = np.empty((3, GROUPS, 4), dtype=np.int64)
    for q, field in enumerate(QUARTICS):
        factors[q] = field.scaled(basis[q, :, 1:], weight).T
        out[q] = field.times(out[q], basis[q, :, :1].copy())
    start = 0
    for share, width in zip(shares, widths, strict=True):
        here = out[:, :, start : start + width]
        loops().combine(share.words[0].reshape(-1), width, factors, np.array(PRIMES), here)
        start += width
    return out


def _dealt_at(claim: ProductClaim, dealt: FieldArray, challenge: bytes, point: Floats, side: int) -> Floats:
    """One side of Σ β z at the point: shape (3, 4)."""
    basis = MASKED_NODES.at(point)
    beta, residues = stretched(challenge, "rows", claim.count), dealt.residues
    out = np.empty((3, 4))
    for q, field in enumerate(QUARTICS):
        padded = np.zeros(GROUPS * claim.count)
        padded[: claim.rows] = residues[q, :, 0]
        groups = product(beta[q], padded.reshape(GROUPS, claim.count).T, field.prime)
        dots = field.dot(basis[q, :, 1:].copy(), groups)
        out[q] = reduced(dots * float(claim.secret_weights[side] % field.prime), field.prime)
    return out
