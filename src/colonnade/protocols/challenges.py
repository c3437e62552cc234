"""What two keepers who check a third have to settle first: fresh challenges, and that all heard the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from colonnade.crypto.folding import derived
from colonnade.errors import RemoteProtocolError, RowsNotProved
from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.field import FIELD63
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

NONCE = 32
"""Bytes of a seed or nonce."""


def verifiers_of(group: Group, dealer: str) -> tuple[str, str]:
    """The two keepers who check what a dealer deals: those other than itself, or the first two."""
    first, second = [keeper for keeper in group.keepers if keeper != dealer][:2]
    return first, second


@dataclass(frozen=True)
class Checking:
    """One party's part in the checks of all dealers at a step; keys and labels are bound to run, step and dealer."""

    party: Party
    step: str
    verifiers: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, party: Party, step: str, dealers: Iterable[str]) -> Checking:
        """With the verifiers that a group has for each dealer."""
        return cls(party, step, {dealer: verifiers_of(party.group, dealer) for dealer in dealers})

    @property
    def first(self) -> list[str]:
        return [dealer for dealer, pair in self.verifiers.items() if pair[0] == self.party.name]

    @property
    def second(self) -> list[str]:
        return [dealer for dealer, pair in self.verifiers.items() if pair[1] == self.party.name]

    @property
    def checked(self) -> list[str]:
        """Whom this party checks, in the order of dealers."""
        return [dealer for dealer, pair in self.verifiers.items() if self.party.name in pair]

    def points(self, dealer: str) -> tuple[int, int]:
        """Where the verifiers of a dealer stand."""
        at = dict(zip(self.party.group.keepers, (0, 1, -1), strict=True))
        first, second = self.verifiers[dealer]
        return at[first], at[second]

    def label(self, what: str, dealer: str | None = None) -> str:
        return f"{self.step}, {what}" if dealer is None else f"{self.step}, {what} about {dealer}"

    def bound(self, key: bytes, dealer: str, *labels: str) -> bytes:
        """A key that stands for this run, this step and this dealer alone."""
        return derived(key, self.party.run, self.step, dealer, *labels)

    async def nonce(self, peer: str, what: str, dealer: str | None = None) -> bytes:
        """The seed or nonce that a peer sends at a step."""
        said = await hear(self.party, peer, self.label(what, dealer))
        value = said.fields.get("nonce")
        if type(value) is not bytes or len(value) != NONCE:
            raise said.wrong(f"expected 'nonce' to be {NONCE} bytes")
        return value

    async def seeds(self, mine: tuple[bytes, bytes] | None) -> dict[str, bytes]:
        """Send each verifier its seed, if this party deals; returns those of the dealers that it checks."""
        party = self.party
        for verifier, seed in zip(self.verifiers[party.name], mine, strict=True) if mine else ():
            await tell(party, verifier, self.label("seed"), Message({"nonce": seed}))
        return {dealer: self.bound(await self.nonce(dealer, "seed"), dealer) for dealer in self.checked}

    async def challenges(self) -> dict[str, bytes]:
        """The first challenge of every dealer, of its two verifiers' nonces."""
        party = self.party
        concerned = tuple(dict.fromkeys((*self.verifiers, *party.group.keepers)))
        nonces = {}
        if party.keeps_shares:
            # Drawn and told after all that was dealt has come: nobody who deals knows it before.
            nonces[party.name] = party.randomness.bytes(NONCE)
            for member in concerned:
                if member != party.name:
                    await tell(party, member, self.label("challenge"), Message({"nonce": nonces[party.name]}))
        if party.name in concerned:
            for keeper in party.group.keepers:
                if keeper != party.name:
                    nonces[keeper] = await self.nonce(keeper, "challenge")
        return {
            dealer: self.bound(nonces[first] + nonces[second], dealer, "first")
            for dealer, (first, second) in self.verifiers.items()
            if first in nonces and second in nonces
        }

    async def last_challenges(self) -> dict[str, bytes]:
        """Where each proof is checked: drawn by the second verifier, who has it, and told to the first."""
        party, challenges = self.party, {}
        for dealer in self.second:
            nonce = party.randomness.bytes(NONCE)
            challenges[dealer] = self.bound(nonce, dealer, "third")
            peer = self.verifiers[dealer][0]
            await tell(party, peer, self.label("third challenge", dealer), Message({"nonce": nonce}))
        for dealer in self.first:
            nonce = await self.nonce(self.verifiers[dealer][1], "third challenge", dealer)
            challenges[dealer] = self.bound(nonce, dealer, "third")
        return challenges

    def words(self, said: Message, name: str, length: int) -> FieldArray:
        """Elements of the extensions that somebody sent, if they are such."""
        packed = said.arrays.get(name)
        if packed is None or packed.dtype != np.uint8 or packed.ndim != 1:
            raise said.wrong(f"expected an array {name!r} of bytes")
        try:
            return FieldArray.from_bytes(FIELD63, (4, length), packed)
        except ValueError as error:
            raise said.wrong(f"{name}: {error}") from None

    def check_heard(self, said: Message, challenges: bytes, dealer: str) -> None:
        """Stop unless a dealer was told the challenges that this verifier was told."""
        if said.fields.get("heard") != heard(challenges):
            raise self.refused(dealer, "they were not told the same challenges")

    def refused(self, dealer: str, why: str = "the proof does not hold") -> RemoteProtocolError:
        """The error that stops a run: which step, which dealer, which verifiers, and not whose fault it is."""
        first, second = self.verifiers[dealer]
        return RowsNotProved(
            f"{self.party.name} at step {self.step!r}: what {dealer} dealt was not proved to {first} and {second}: "
            f"{why}. It is not what was agreed, or one of {dealer}, {first} and {second} does not follow the "
            "protocol; it cannot be told which. Nothing that rests on it was opened. Ask all three what they run "
            "before another attempt."
        )


def heard(challenges: bytes) -> bytes:
    return derived(challenges, "heard")
