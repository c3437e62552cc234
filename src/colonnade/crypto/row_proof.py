"""The prover's side of verified rows: pads, bits, and one proof for a block.

Nothing here sends. The dealer deals pads beside its rows, answers a first challenge with bits of projections and a
second one with a proof; each verifier has half of the bits and half of the proof, and either half alone is uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.folding import (
    AT_A_TIME,
    GROUPS,
    add_crossed,
    derived,
    halves,
    outside,
    spread,
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
from colonnade.errors import LocalProtocolError
from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.projections import Projections
from colonnade.numbers.quartic import PRIMES, Floats, loops, packed, product, quartics, reduced
from colonnade.numbers.three_squares import slack

Integers = NDArray[np.int64]

_HALF = GROUPS // 2


class RowProof:
    """One dealer's proof about one block of rows, in the order in which it is asked for."""

    def __init__(self, claims: RowClaims, rows: Integers, *, seeds: tuple[bytes, bytes]) -> None:
        self.claims, self._rows, self._seeds = claims, rows, seeds
        start, parts = 0, []
        for claim in claims.claims:
            parts.append(slack(rows[:, start : start + claim.columns], claim.norm_squared))
            start += claim.columns
        self.pads: Integers = np.concatenate(parts, axis=1)

    def bits(self, challenge: bytes) -> NDArray[np.uint8]:
        """The second verifier's bits of every projection: shape (K, projections)."""
        claims = self.claims
        coins = Projections.from_key(derived(challenge, "projections"), rows=claims.rows, count=PROJECTIONS)
        values = coins.of_integers(self._rows, self.pads).reshape(-1) + claims.offsets.astype(np.int64)
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
        return packed(np.stack([reduced(part, prime) for part, prime in zip(whole, PRIMES, strict=True)]))

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
        mask_weight, group_weights, inverse = outside()
        for q, field in enumerate(quartics()):
            prime, own = field.prime, mask_weight[q]
            cross = spread(crossed[q], q, prime)
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
        for q, field in enumerate(quartics()):
            prime, t, own = field.prime, tau[q], beyond[q, :, 0]
            f, h = product(beyond[q, :, 1:], first, prime), product(beyond[q, :, 1:], second, prime)
            f_side, h_side = field.times(t, f_mask[q]), field.times(t, h_mask[q])
            mixed = reduced(product(f_side, h.T, prime) + product(h_side, f.T, prime), prime)
            both = field.dot(f_side, h_mask[q])
            corner = reduced(both[:, None] * reduced(own * own, prime), prime)
            f *= h
            loops().reduce(f.reshape(-1), prime)
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
    even, odd = halves()
    inner, weighted = loops(), np.empty((3, 4, columns, count))
    masks = np.ascontiguousarray(masks.transpose(0, 1, 3, 2))
    for q, field in enumerate(quartics()):
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
        add_crossed(weighted, start, (plus, minus), float(scale), PRIMES, crossed)
