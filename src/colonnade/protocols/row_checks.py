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
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.row_check import accepts, answer
from colonnade.crypto.row_claims import Claim, RowClaims, derived
from colonnade.crypto.row_proof import RowProof
from colonnade.errors import RemoteProtocolError, RowsNotProved
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]
Claims = Mapping[str, tuple[Claim, ...]]
"""What each dealer claims about its columns, in the order in which they stand beside each other."""
_NONCE = 32


def verifiers_of(group: Group, dealer: str) -> tuple[str, str]:
    """The two keepers who check what a dealer deals: those other than itself, or the first two.

    >>> verifiers_of(Group.of(("bank", "insurer")), "bank")
    ('server', 'insurer')
    >>> verifiers_of(Group.of(("a", "b", "c", "d")), "d")
    ('a', 'b')
    """
    first, second = [keeper for keeper in group.keepers if keeper != dealer][:2]
    return first, second


@dataclass
class _Heard:
    """What a verifier has of one dealer."""

    seed: bytes = b""
    challenge: bytes = b""
    second: bytes = b""
    bits: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    proof: FieldArray | None = None
    third: bytes = b""


class RowCheck:
    """One party's part in the checks of one block, in the order of the box."""

    def __init__(self, party: Party, rows: int, claims: Claims, step: str) -> None:
        self.party, self.step = party, step
        group = party.group
        self.verifiers = {dealer: verifiers_of(group, dealer) for dealer in claims}
        points = dict(zip(group.keepers, (0, 1, -1), strict=True))
        self.claims = {
            dealer: RowClaims(rows, listed, (points[first], points[second]))
            for (dealer, listed), (first, second) in zip(claims.items(), self.verifiers.values(), strict=True)
        }
        self._first = [dealer for dealer, pair in self.verifiers.items() if pair[0] == party.name]
        self._second = [dealer for dealer, pair in self.verifiers.items() if pair[1] == party.name]
        self._heard = {dealer: _Heard() for dealer in (*self._first, *self._second)}
        self._proof: RowProof | None = None
        self._seeds = (b"", b"")

    def begin(self, mine: Integers | None) -> Integers | None:
        """The pads of this party's rows, if it deals."""
        if self.party.name not in self.claims or mine is None:
            return None
        drawn = self.party.randomness.bytes(2 * _NONCE)
        self._seeds = (drawn[:_NONCE], drawn[_NONCE:])
        bound = tuple(self._bound(seed, self.party.name) for seed in self._seeds)
        self._proof = RowProof(self.claims[self.party.name], mine, seeds=(bound[0], bound[1]))
        return self._proof.pads

    async def run(self, shares: Mapping[str, tuple[FieldArray, FieldArray]]) -> None:
        """Steps 1 (seeds) to 6."""
        me = self.party.name
        if self._proof is not None:
            for verifier, seed in zip(self.verifiers[me], self._seeds, strict=True):
                await tell(self.party, verifier, self._label("seed"), Message({"seed": seed}))
        for dealer, heard in self._in_order():
            heard.seed = self._bound(await self._nonce(dealer, "seed", "seed"), dealer)
        challenges = await self._first_challenges()
        for dealer, heard in self._in_order():
            heard.challenge = challenges[dealer]
        await self._bits(challenges)
        second = await self._second_challenges()
        await self._proofs(challenges, second)
        await self._answers(shares)

    def _in_order(self) -> list[tuple[str, _Heard]]:
        return [(dealer, self._heard[dealer]) for dealer in self.claims if dealer in self._heard]

    def _label(self, what: str, dealer: str | None = None) -> str:
        return f"{self.step}, {what}" if dealer is None else f"{self.step}, {what} about {dealer}"

    def _bound(self, key: bytes, dealer: str, *labels: str) -> bytes:
        """A key that stands for this run, this step and this dealer alone."""
        return derived(key, self.party.run, self.step, dealer, *labels)

    async def _nonce(self, peer: str, what: str, name: str, dealer: str | None = None) -> bytes:
        said = await hear(self.party, peer, self._label(what, dealer))
        value = said.fields.get(name)
        if type(value) is not bytes or len(value) != _NONCE:
            raise said.wrong(f"expected {name!r} to be {_NONCE} bytes")
        return value

    async def _first_challenges(self) -> dict[str, bytes]:
        party = self.party
        nonces = {}
        if party.keeps_shares:
            # Drawn and told after all that was dealt has come: nobody who deals knows it before.
            nonces[party.name] = party.randomness.bytes(_NONCE)
            for member in self._concerned():
                if member != party.name:
                    await tell(
                        party, member, self._label("challenge"), Message({"nonce": nonces[party.name]})
                    )
        if party.name in self._concerned():
            for keeper in party.group.keepers:
                if keeper != party.name:
                    nonces[keeper] = await self._nonce(keeper, "challenge", "nonce")
        return {
            dealer: self._bound(nonces[first] + nonces[second], dealer, "first")
            for dealer, (first, second) in self.verifiers.items()
            if first in nonces and second in nonces
        }

    def _concerned(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.claims, *self.party.group.keepers)))

    async def _bits(self, challenges: Mapping[str, bytes]) -> None:
        party = self.party
        if self._proof is not None:
            bits = self._proof.bits(challenges[party.name])
            message = Message({"heard": self._echo(challenges[party.name])}, {"bits": np.packbits(bits)})
            await tell(party, self.verifiers[party.name][1], self._label("bits"), message)
        for dealer in self._second:
            claims, heard = self.claims[dealer], self._heard[dealer]
            said = await hear(party, dealer, self._label("bits"))
            self._same(said, self._echo(heard.challenge), dealer)
            size = claims.bits * claims.projected
            flat = np.unpackbits(said.array("bits", dtype="u1", shape=(-(-size // 8),)))
            if flat[size:].any():
                raise said.wrong("the bits have an end that is not theirs")
            heard.bits = flat[:size].reshape(claims.bits, claims.projected)

    async def _second_challenges(self) -> bytes:
        """The second challenge of this party's own rows; those of others are kept with what else was heard."""
        party, own = self.party, b""
        for dealer in self._second:
            nonce = party.randomness.bytes(_NONCE)
            self._heard[dealer].second = self._bound(nonce, dealer, "second")
            for peer in (dealer, self.verifiers[dealer][0]):
                await tell(party, peer, self._label("second challenge", dealer), Message({"nonce": nonce}))
        for dealer, (first, second) in self.verifiers.items():
            if party.name in (dealer, first) and (party.name != dealer or self._proof is not None):
                nonce = await self._nonce(second, "second challenge", "nonce", dealer)
                if party.name == dealer:
                    own = self._bound(nonce, dealer, "second")
                else:
                    self._heard[dealer].second = self._bound(nonce, dealer, "second")
        return own

    async def _proofs(self, challenges: Mapping[str, bytes], second: bytes) -> None:
        party, me = self.party, self.party.name
        if self._proof is not None:
            words = self._proof.proof(challenges[me], second)
            echo = self._echo(challenges[me] + second)
            await tell(party, self.verifiers[me][0], self._label("heard"), Message({"heard": echo}))
            message = Message({"heard": echo}, {"proof": words.as_bytes()})
            await tell(party, self.verifiers[me][1], self._label("proof"), message)
        for dealer, heard in self._in_order():
            said = await hear(party, dealer, self._label("heard" if dealer in self._first else "proof"))
            self._same(said, self._echo(heard.challenge + heard.second), dealer)
            if dealer in self._second:
                heard.proof = self._words(said, "proof", self.claims[dealer].proof_length)

    async def _answers(self, shares: Mapping[str, tuple[FieldArray, FieldArray]]) -> None:
        party = self.party
        for dealer in self._second:
            nonce = party.randomness.bytes(_NONCE)
            self._heard[dealer].third = self._bound(nonce, dealer, "third")
            message = Message({"nonce": nonce})
            await tell(party, self.verifiers[dealer][0], self._label("third challenge", dealer), message)
        for dealer in self._first:
            heard = self._heard[dealer]
            nonce = await self._nonce(self.verifiers[dealer][1], "third challenge", "nonce", dealer)
            words = answer(
                self.claims[dealer],
                shares[dealer],
                seed=heard.seed,
                challenge=heard.challenge,
                second=heard.second,
                third=self._bound(nonce, dealer, "third"),
            )
            message = Message(arrays={"answer": words.as_bytes()})
            await tell(party, self.verifiers[dealer][1], self._label("answer", dealer), message)
        for dealer in self._second:
            heard, claims = self._heard[dealer], self.claims[dealer]
            said = await hear(party, self.verifiers[dealer][0], self._label("answer", dealer))
            if heard.proof is None or not accepts(
                claims,
                shares[dealer],
                seed=heard.seed,
                bits=heard.bits,
                proof=heard.proof,
                challenge=heard.challenge,
                second=heard.second,
                third=heard.third,
                answered=self._words(said, "answer", claims.answer_length),
            ):
                raise self._refused(dealer)

    def _words(self, said: Message, name: str, length: int) -> FieldArray:
        packed = said.arrays.get(name)
        if packed is None or packed.dtype != np.uint8 or packed.ndim != 1:
            raise said.wrong(f"expected an array {name!r} of bytes")
        try:
            return FieldArray.from_bytes(FIELD63, (4, length), packed)
        except ValueError as error:
            raise said.wrong(f"{name}: {error}") from None

    def _echo(self, challenges: bytes) -> bytes:
        return derived(challenges, "heard")

    def _same(self, said: Message, expected: bytes, dealer: str) -> None:
        if said.fields.get("heard") != expected:
            raise self._refused(dealer, "they were not told the same challenges")

    def _refused(self, dealer: str, why: str = "the proof does not hold") -> RemoteProtocolError:
        first, second = self.verifiers[dealer]
        return RowsNotProved(
            f"{self.party.name} at step {self.step!r}: what {dealer} dealt was not proved to {first} and {second}: "
            f"{why}. A row is longer than agreed, or one of {dealer}, {first} and {second} does not follow the "
            "protocol; it cannot be told which. Nothing was opened. Ask all three what they run before another attempt."
        )
