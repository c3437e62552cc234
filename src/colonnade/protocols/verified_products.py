"""Products of shared numbers, real and complex, by computing parties who prove what they reshared."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.crypto.product_proof import ProductClaim, ProductProof, accepts, answer
from colonnade.crypto.sharing import Shamir
from colonnade.errors import LocalProtocolError
from colonnade.numbers.field import FieldArray
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.sharing import Shared, alongside, lower, share_elements, total
from colonnade.protocols.verified_rows import NONCE, Checking
from colonnade.runtime.party import Party


async def reshare_products(
    party: Party, left: Shared, right: Shared, *, scheme: Shamir, verify: Verify, step: str
) -> Shared:
    """Shares of Σ_k left_ik·right_ik at degree t, one column; if all is verified, each computing party proves its part.

    Guarantee for `verify = "all"`: if this returns and at most one computing party deviates from the protocol, the
    others' shares stand for the product, except with the probability that `ProductClaim` names.
    """
    group = party.group
    if left.shape != right.shape or {left.degree, right.degree} != {group.threshold}:
        raise LocalProtocolError(f"{party.name} at step {step!r}: factors need one shape and degree t")
    mine = None
    if left.share is not None and right.share is not None:
        mine = left.share.row_products(right.share)
    shape = (left.shape[0], 1)
    if verify != "all":
        return await lower(party, Shared(mine, shape, 2 * group.threshold), scheme=scheme, step=step)
    if mine is not None:
        mine = mine.times(scheme.weights[group.computing_parties.index(party.name)])
    shapes = dict.fromkeys(group.computing_parties, shape)
    dealt = await share_elements(party, mine, shapes, scheme=scheme, degree=group.threshold, step=step)
    await _check(party, left, right, mine, dealt, scheme, step)
    # What computing parties dealt each other masks nothing that is opened.
    return total(dealt.values()).without_masks()


async def _check(
    party: Party,
    left: Shared,
    right: Shared,
    mine: FieldArray | None,
    dealt: dict[str, Shared],
    scheme: Shamir,
    step: str,
) -> None:
    """Steps 2 to 4, of all computing parties at once; whoever keeps no shares has no part in it."""
    if mine is None or left.share is None or right.share is None:
        return
    computing_parties, factors = party.group.computing_parties, (left.share, right.share)
    checking = Checking.of(party, step, computing_parties)
    claims = {
        computing_party: ProductClaim(
            *left.shape, scheme.weights[at], scheme.points[at], checking.points(computing_party)
        )
        for at, computing_party in enumerate(computing_parties)
    }
    drawn = party.randomness.bytes(2 * NONCE)
    own = drawn[:NONCE], drawn[NONCE:]
    first, second = (checking.bound(seed, party.name) for seed in own)
    seeds = await checking.seeds(own)
    challenges = await checking.challenges()
    proof = ProductProof(claims[party.name], *factors, mine, seeds=(first, second))
    proofs = await checking.proofs(proof.proof(challenges[party.name]), challenges, claims)
    shares = {
        dealer: (*factors, piece)
        for dealer in computing_parties
        if (piece := dealt[dealer].share) is not None
    }

    def answered(dealer: str, third: bytes) -> FieldArray:
        seed, challenge = seeds[dealer], challenges[dealer]
        return answer(claims[dealer], shares[dealer], seed=seed, challenge=challenge, third=third)

    def holds(dealer: str, third: bytes, theirs: FieldArray) -> bool:
        return accepts(
            claims[dealer],
            shares[dealer],
            seed=seeds[dealer],
            proof=proofs[dealer],
            challenge=challenges[dealer],
            third=third,
            answered=theirs,
        )

    await checking.settle(answered, holds, claims)


async def rotated(
    party: Party,
    phasors: Sequence[Shared],
    *,
    scheme: Shamir,
    groups: int,
    step: str,
    verify: Verify = "none",
) -> Shared:
    """Shares of the product of all, at degree t, proved if all is verified; columns are real, then imaginary parts."""
    level, depth, width = list(phasors), 0, phasors[0].shape[1]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        whole = [pair for pair in pairs if len(pair) == 2]
        left, right = (alongside([pair[side] for pair in whole]) for side in (0, 1))
        label = f"{step}.{depth}"
        if verify == "all":
            factors = paired(left, right, groups * len(whole))
            products = await reshare_products(party, *factors, scheme=scheme, verify=verify, step=label)
            low = products.in_rows_of(left.shape[1])
        else:
            low = await lower(party, _product(left, right, groups * len(whole)), scheme=scheme, step=label)
        level = [
            *(low.columns(range(at * width, (at + 1) * width)) for at in range(len(whole))),
            *(pair[0] for pair in pairs if len(pair) == 1),
        ]
        depth += 1
    return level[0]


def complex_products(left: FieldArray, right: FieldArray, groups: int) -> FieldArray:
    """Products of complex numbers: every group of columns holds real parts, then as many imaginary parts."""
    half = left.shape[1] // (2 * groups)
    parts = []
    for start in range(0, left.shape[1], 2 * half):
        a, c = (one.columns(start, start + half) for one in (left, right))
        b, d = (one.columns(start + half, start + 2 * half) for one in (left, right))
        parts += [a.multiply(c) - b.multiply(d), a.multiply(d) + b.multiply(c)]
    return parts[0].stack_columns(parts[1:])


def paired(left: Shared, right: Shared, groups: int) -> tuple[Shared, Shared]:
    """(a, −b)·(c, d) and (a, b)·(d, c), one a row, for every product (a + ib)(c + id) of `complex_products`."""
    width = left.shape[1]
    both, half = alongside([left, left.times(-1)]), width // (2 * groups)
    mine: list[int] = []
    theirs: list[int] = []
    for start in range(0, width, 2 * half):
        for real in range(start, start + half):
            mine += [real, width + real + half]
            theirs += [real, real + half]
        for real in range(start, start + half):
            mine += [real, real + half]
            theirs += [real + half, real]
    return both.columns(mine).in_rows_of(2), right.columns(theirs).in_rows_of(2)


def _product(left: Shared, right: Shared, groups: int) -> Shared:
    """A product of shares: its degree is the sum of both, and no mask is left."""
    share = None
    if left.share is not None and right.share is not None:
        share = complex_products(left.share, right.share, groups)
    return Shared(share, left.shape, left.degree + right.degree)
