"""The verifiers' side of verified rows: the first answers one question, the second decides.

Each of them holds one share of the rows and of the pads, a seed from the dealer, and half of the proof. What the first
tells the second is uniform whatever the rows are, given that the claims hold, and nothing flows the other way but
challenges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.folding import (
    AT_ONCE,
    GROUPS,
    MASKED_NODES,
    QUOTIENT_NODES,
    ROW_NODES,
    derived,
    point_of,
    stretched,
)
from colonnade.crypto.row_claims import (
    PADS,
    PROJECTIONS,
    BitWeights,
    RowClaims,
    first_bits,
    target,
)
from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.projections import Projections
from colonnade.numbers.quartic import PRIMES, Floats, loops, packed, product, quartics, reduced, unpacked


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
    point, bits = point_of(third, claims.degree), claims.bits
    mine = stretched(seed, "proof", claims.proof_length)
    half = first_bits(claims, seed)
    out = np.empty((3, 4, claims.answer_length))
    out[:, :, : claims.width] = _rows_at(claims, shares, seed, point, -claims.weight)
    out[:, :, claims.width : -3] = _bits_at(
        claims, half, stretched(seed, "bit masks", claims.projected), point
    )
    weights = BitWeights.from_key(second, claims)
    given = mine[:, :, GROUPS + 1 : GROUPS + 1 + bits]
    out[:, :, -1] = _bit_sum(claims, shares, challenge, half, given, weights, first=True)
    quotient, products = QUOTIENT_NODES.at(point), claims.product_nodes.at(point)
    for q, field in enumerate(quartics()):
        out[q, :, -3] = field.dot(quotient[q], mine[q, :, : GROUPS + 1])
        out[q, :, -2] = field.dot(products[q], mine[q, :, GROUPS + 1 :])
    return packed(out)


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
    2^-`algebraic_bits` + 2^-`wraparound_bits` (docs/proofs/verified-rows.md).
    """
    if (bits > claims.used).any():
        return False
    point, count = point_of(third, claims.degree), claims.count
    theirs, half = unpacked(answered), unpacked(proof)
    rows = theirs[:, :, : claims.width] + _rows_at(claims, shares, seed, point, claims.weight)
    own = _bits_at(claims, bits, stretched(seed, "bit masks", claims.projected), point)
    beta = stretched(challenge, "rows", count * len(claims.claims))
    weights = BitWeights.from_key(second, claims)
    given = half[:, :, GROUPS + 1 : GROUPS + 1 + claims.bits]
    linear = _bit_sum(claims, shares, challenge, bits, given, weights, first=False)
    quotient, products = QUOTIENT_NODES.at(point), claims.product_nodes.at(point)
    groups, vanishing = ROW_NODES.at(point), ROW_NODES.vanishing_at(point)
    holds = True
    for q, field in enumerate(quartics()):
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


def _rows_at(
    claims: RowClaims, shares: tuple[FieldArray, FieldArray], seed: bytes, point: Floats, weight: int
) -> Floats:
    """One side of F(r): columns, then pads, weighted so that both sides add up to the dealer's integers."""
    basis = MASKED_NODES.at(point)
    out = stretched(seed, "row masks", claims.width)
    factors = np.empty((3, GROUPS, 4), dtype=np.int64)
    for q, field in enumerate(quartics()):
        factors[q] = field.scaled(basis[q, :, 1:], weight).T
        out[q] = field.times(out[q], basis[q, :, :1].copy())
    start = 0
    for share in shares:
        width = claims.count * share.shape[1]
        here = out[:, :, start : start + width]
        loops().combine(share.words[0].reshape(-1), width, factors, np.array(PRIMES), here)
        start += width
    return out


def _bits_at(claims: RowClaims, bits: NDArray[np.uint8], masks: Floats, point: Floats) -> Floats:
    """A polynomial through one half of the bits of every projection, at the point."""
    basis, out = claims.bit_nodes.at(point), np.empty((3, 4, claims.projected))
    plain = bits.astype(np.float64)
    for q, field in enumerate(quartics()):
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
    coins = Projections.from_key(derived(challenge, "projections"), rows=claims.rows, count=PROJECTIONS)
    columns = coins.of_shares(*shares, weights.rho)
    powers: Floats = np.ldexp(1.0, np.arange(claims.bits))
    places: Floats = (claims.offsets if first else 0.0) - powers @ bits.astype(np.float64)
    weight = -claims.weight if first else claims.weight
    out = np.empty((3, 4))
    for q, field in enumerate(quartics()):
        prime = field.prime
        projected = field.scaled(field.dot(weights.sigma[q], columns[q]), weight)
        placed = product(weights.whole[q], reduced(places, prime), prime)
        out[q] = reduced(projected + placed + product(given[q], reduced(2.0 * powers, prime), prime), prime)
    return out


def _squares(claims: RowClaims, rows: Floats, q: int) -> Floats:
    """Σ_j κ_j F_uj(r)² of every claim and row of a group: elements of shape (4, claims · count)."""
    field, count = quartics()[q], claims.count
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
            loops().add_ring_squares(
                np.ascontiguousarray(part), scale, field.prime, field.one, field.zero, total
            )
        out[:, c] = total
        start += claim.columns
    return out.reshape(4, -1)
