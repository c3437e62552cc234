"""The check of a block of rows by two keepers, as all who take part run it.

Box of the protocol, for a block of rows; all dealers are checked at once:

1. every owner deals its rows and three pads for each claim at degree t, and sends each of its two verifiers a seed;
2. every keeper, once it has all of that, tells all a fresh nonce: the first challenge of a dealer is made of its two
   verifiers' nonces;
3. the dealer sends the second verifier bits of random projections;
4. the second verifier tells dealer and first verifier a second nonce;
5. the dealer sends the second verifier a proof, and each verifier which challenges it heard: a verifier that was told
   others goes no further, because an answer to another question would say something about the rows;
6. the second verifier tells the first a third nonce, the first answers, and the second goes on or stops the run.

The second verifier is a keeper, and without every keeper nothing is opened: whoever stops here, stops the run before
anything is opened. Messages tell the step, the dealer and both verifiers, and not whose fault it is: a verifier that
lies looks like a dealer that lies. Proof: docs/proofs/verified-rows.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.row_check import accepts, answer
from colonnade.crypto.row_claims import Claim, RowClaims
from colonnade.crypto.row_proof import RowProof
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.challenges import NONCE, Checking, heard
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]
Claims = Mapping[str, tuple[Claim, ...]]
"""What each dealer claims about its columns, in the order in which they stand beside each other."""


@dataclass
class _Told:
    """What a verifier was told about one dealer."""

    challenge: bytes = b""
    second: bytes = b""
    bits: NDArray[np.uint8] | None = None
    proof: FieldArray | None = None


class RowCheck:
    """One party's part in the checks of one block, in the order of the box."""

    def __init__(self, party: Party, rows: int, claims: Claims, step: str) -> None:
        self.party = party
        self.checking = Checking.of(party, step, claims)
        self.claims = {
            dealer: RowClaims(rows, listed, self.checking.points(dealer)) for dealer, listed in claims.items()
        }
        self._told = {dealer: _Told() for dealer in self.checking.checked}
        self._proof: RowProof | None = None
        self._seeds: tuple[bytes, bytes] | None = None

    def begin(self, mine: Integers | None) -> Integers | None:
        """The pads of this party's rows, if it deals."""
        name = self.party.name
        if name not in self.claims or mine is None:
            return None
        drawn = self.party.randomness.bytes(2 * NONCE)
        self._seeds = drawn[:NONCE], drawn[NONCE:]
        first, second = (self.checking.bound(seed, name) for seed in self._seeds)
        self._proof = RowProof(self.claims[name], mine, seeds=(first, second))
        return self._proof.pads

    async def run(self, shares: Mapping[str, tuple[FieldArray, FieldArray]]) -> None:
        """Everything after the dealing."""
        seeds = await self.checking.seeds(self._seeds)
        challenges = await self.checking.challenges()
        for dealer, told in self._told.items():
            told.challenge = challenges[dealer]
        await self._bits(challenges)
        second = await self._second_challenges()
        await self._proofs(challenges, second)
        await self._answers(shares, seeds)

    async def _bits(self, challenges: Mapping[str, bytes]) -> None:
        party, checking = self.party, self.checking
        if self._proof is not None:
            mine = challenges[party.name]
            message = Message({"heard": heard(mine)}, {"bits": np.packbits(self._proof.bits(mine))})
            await tell(party, checking.verifiers[party.name][1], checking.label("bits"), message)
        for dealer in checking.second:
            claims, told = self.claims[dealer], self._told[dealer]
            said = await hear(party, dealer, checking.label("bits"))
            checking.check_heard(said, told.challenge, dealer)
            size = claims.bits * claims.projected
            flat = np.unpackbits(said.array("bits", dtype="u1", shape=(-(-size // 8),)))
            if flat[size:].any():
                raise said.wrong("the bits have an end that is not theirs")
            told.bits = flat[:size].reshape(claims.bits, claims.projected)

    async def _second_challenges(self) -> bytes:
        party, checking, own = self.party, self.checking, b""
        for dealer in checking.second:
            nonce = party.randomness.bytes(NONCE)
            self._told[dealer].second = checking.bound(nonce, dealer, "second")
            for peer in (dealer, checking.verifiers[dealer][0]):
                await tell(party, peer, checking.label("second challenge", dealer), Message({"nonce": nonce}))
        for dealer, (first, second) in checking.verifiers.items():
            if party.name in (dealer, first):
                nonce = await checking.nonce(second, "second challenge", dealer)
                if party.name == dealer:
                    own = checking.bound(nonce, dealer, "second")
                else:
                    self._told[dealer].second = checking.bound(nonce, dealer, "second")
        return own

    async def _proofs(self, challenges: Mapping[str, bytes], second: bytes) -> None:
        party, checking = self.party, self.checking
        if self._proof is not None:
            mine = challenges[party.name]
            words = self._proof.proof(mine, second)
            echo = {"heard": heard(mine + second)}
            first, other = checking.verifiers[party.name]
            await tell(party, first, checking.label("heard"), Message(echo))
            await tell(party, other, checking.label("proof"), Message(echo, {"proof": words.as_bytes()}))
        for dealer, told in self._told.items():
            decides = dealer in checking.second
            said = await hear(party, dealer, checking.label("proof" if decides else "heard"))
            checking.check_heard(said, told.challenge + told.second, dealer)
            if decides:
                told.proof = checking.words(said, "proof", self.claims[dealer].proof_length)

    async def _answers(
        self, shares: Mapping[str, tuple[FieldArray, FieldArray]], seeds: Mapping[str, bytes]
    ) -> None:
        party, checking = self.party, self.checking
        third = await checking.last_challenges()
        for dealer in checking.first:
            words = answer(
                self.claims[dealer],
                shares[dealer],
                seed=seeds[dealer],
                challenge=self._told[dealer].challenge,
                second=self._told[dealer].second,
                third=third[dealer],
            )
            message = Message(arrays={"answer": words.as_bytes()})
            await tell(party, checking.verifiers[dealer][1], checking.label("answer", dealer), message)
        for dealer in checking.second:
            told, claims = self._told[dealer], self.claims[dealer]
            said = await hear(party, checking.verifiers[dealer][0], checking.label("answer", dealer))
            answered = checking.words(said, "answer", claims.answer_length)
            if (
                told.bits is None
                or told.proof is None
                or not accepts(
                    claims,
                    shares[dealer],
                    seed=seeds[dealer],
                    bits=told.bits,
                    proof=told.proof,
                    challenge=told.challenge,
                    second=told.second,
                    third=third[dealer],
                    answered=answered,
                )
            ):
                raise checking.refused(dealer)
