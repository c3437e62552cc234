"""Products of two sharings, brought down to degree t by keepers who prove that they multiplied.

Box of the protocol, for rows p_i, q_i shared at degree t = 1:

1. each keeper j multiplies its shares, deals λ_j Σ_k p_ik(x_j) q_ik(x_j) at degree t and sends each of the other two a
   seed; everybody adds up what it received, which is a share of ⟨p_i, q_i⟩ at degree t;
2. every keeper, once it has all of that, tells all a fresh nonce: the challenge of a keeper is made of the other two's;
3. each keeper sends one of them a proof, and both which challenge it heard;
4. the second verifier tells the first where the proof is checked, the first answers, the second goes on or stops.

A keeper that adds an amount to its product of one row would move what is opened later by that amount times another
factor of that row: without the proof it chooses the amount and reads the factor. Proof: docs/proofs/verified-rows.md.
"""

from __future__ import annotations

from colonnade.crypto.product_proof import ProductClaim, ProductProof, accepts, answer
from colonnade.crypto.shares import Scheme
from colonnade.errors import LocalProtocolError
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.challenges import NONCE, Checking, heard
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.shared import Shared, total
from colonnade.protocols.sharing import lower, share_elements
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


async def reshare_products(
    party: Party, left: Shared, right: Shared, *, scheme: Scheme, verify: Verify, step: str
) -> Shared:
    """Shares of Σ_k left_ik·right_ik at degree t, one column, with every keeper's product proved if all is verified.

    Guarantee for `verify = "all"`: if this returns at a keeper, and at most one keeper deviates from the protocol, what
    the shares of the others stand for is the product, except with the probability that `ProductClaim` names.
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
        mine = mine.times(scheme.weights[group.keepers.index(party.name)])
    shapes = dict.fromkeys(group.keepers, shape)
    dealt = await share_elements(party, mine, shapes, scheme=scheme, degree=group.threshold, step=step)
    await _check(party, left, right, mine, dealt, scheme, step)
    # What keepers dealt each other masks nothing that is opened.
    return total(dealt.values()).without_masks()


async def _check(
    party: Party,
    left: Shared,
    right: Shared,
    mine: FieldArray | None,
    dealt: dict[str, Shared],
    scheme: Scheme,
    step: str,
) -> None:
    """Steps 2 to 4, of all keepers at once; whoever keeps no shares has no part in it."""
    if mine is None or left.share is None or right.share is None:
        return
    keepers, factors = party.group.keepers, (left.share, right.share)
    checking = Checking.of(party, step, keepers)
    claims = {
        keeper: ProductClaim(*left.shape, scheme.weights[at], scheme.points[at], checking.points(keeper))
        for at, keeper in enumerate(keepers)
    }
    drawn = party.randomness.bytes(2 * NONCE)
    own = drawn[:NONCE], drawn[NONCE:]
    first, second = (checking.bound(seed, party.name) for seed in own)
    seeds = await checking.seeds(own)
    challenges = await checking.challenges()
    proof = ProductProof(claims[party.name], *factors, mine, seeds=(first, second))
    words = proof.proof(challenges[party.name])
    echo = {"heard": heard(challenges[party.name])}
    one, other = checking.verifiers[party.name]
    await tell(party, one, checking.label("heard"), Message(echo))
    await tell(party, other, checking.label("proof"), Message(echo, {"proof": words.as_bytes()}))
    proofs = {}
    for dealer in checking.checked:
        decides = dealer in checking.second
        said = await hear(party, dealer, checking.label("proof" if decides else "heard"))
        checking.check_heard(said, challenges[dealer], dealer)
        if decides:
            proofs[dealer] = checking.words(said, "proof", claims[dealer].proof_length)
    third = await checking.last_challenges()
    held = {dealer: (*factors, piece) for dealer in keepers if (piece := dealt[dealer].share) is not None}
    for dealer in checking.first:
        answered = answer(
            claims[dealer],
            held[dealer],
            seed=seeds[dealer],
            challenge=challenges[dealer],
            third=third[dealer],
        )
        message = Message(arrays={"answer": answered.as_bytes()})
        await tell(party, checking.verifiers[dealer][1], checking.label("answer", dealer), message)
    for dealer in checking.second:
        said = await hear(party, checking.verifiers[dealer][0], checking.label("answer", dealer))
        if not accepts(
            claims[dealer],
            held[dealer],
            seed=seeds[dealer],
            proof=proofs[dealer],
            challenge=challenges[dealer],
            third=third[dealer],
            answered=checking.words(said, "answer", claims[dealer].answer_length),
        ):
            raise checking.refused(dealer)
