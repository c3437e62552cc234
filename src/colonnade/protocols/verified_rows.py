"""Rows that are dealt with a proof that they are no longer than agreed, and the check by two computing parties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product_proof import ProductClaim, derived
from colonnade.crypto.row_proofs import RowClaim, RowClaims, RowProof, accepts, answer
from colonnade.crypto.sharing import Shamir
from colonnade.errors import FieldTooSmall, GroupMismatch, RemoteProtocolError, RowsNotProved
from colonnade.numbers.field import FIELD63, Field, FieldArray
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.sharing import MomentSum, Shared, share
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message

NONCE = 32
"""Bytes of a seed or nonce."""
AnyClaims = RowClaims | ProductClaim


def verifiers_of(group: Group, dealer: str) -> tuple[str, str]:
    """The two computing parties who check what a dealer deals: those other than itself, or the first two."""
    first, second = [
        computing_party for computing_party in group.computing_parties if computing_party != dealer
    ][:2]
    return first, second


@dataclass(frozen=True)
class Checking:
    """One party's part in the checks of all dealers at a step; keys and labels are bound to run, step and dealer."""

    party: Party
    step: str
    verifiers: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, party: Party, step: str, dealers: Iterable[str]) -> Checking:
        return cls(party, step, {dealer: verifiers_of(party.group, dealer) for dealer in dealers})

    @property
    def first(self) -> list[str]:
        return [dealer for dealer, pair in self.verifiers.items() if pair[0] == self.party.name]

    @property
    def second(self) -> list[str]:
        return [dealer for dealer, pair in self.verifiers.items() if pair[1] == self.party.name]

    @property
    def checked(self) -> list[str]:
        return [dealer for dealer, pair in self.verifiers.items() if self.party.name in pair]

    def points(self, dealer: str) -> tuple[int, int]:
        at = dict(zip(self.party.group.computing_parties, (0, 1, -1), strict=True))
        first, second = self.verifiers[dealer]
        return at[first], at[second]

    def label(self, what: str, dealer: str | None = None) -> str:
        return f"{self.step}, {what}" if dealer is None else f"{self.step}, {what} about {dealer}"

    def bound(self, key: bytes, dealer: str, *labels: str) -> bytes:
        """A key that stands for this run, this step and this dealer alone."""
        return derived(key, self.party.run, self.step, dealer, *labels)

    async def nonce(self, peer: str, what: str, dealer: str | None = None) -> bytes:
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
        concerned = tuple(dict.fromkeys((*self.verifiers, *party.group.computing_parties)))
        nonces = {}
        if party.keeps_shares:
            # Drawn and told after all that was dealt has come: nobody who deals knows it before.
            nonces[party.name] = party.randomness.bytes(NONCE)
            for member in concerned:
                if member != party.name:
                    await tell(party, member, self.label("challenge"), Message({"nonce": nonces[party.name]}))
        if party.name in concerned:
            for computing_party in party.group.computing_parties:
                if computing_party != party.name:
                    nonces[computing_party] = await self.nonce(computing_party, "challenge")
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

    def check_echo(self, said: Message, challenges: bytes, dealer: str) -> None:
        """Stop unless a dealer was told the challenges that this verifier was told."""
        if said.fields.get("heard") != echo_of(challenges):
            raise self.refused(dealer, "they were not told the same challenges")

    async def proofs(
        self, mine: FieldArray | None, challenges: Mapping[str, bytes], claims: Mapping[str, AnyClaims]
    ) -> dict[str, FieldArray]:
        """Send the proof to the second verifier, if this party deals; returns those that this party decides about."""
        party = self.party
        if mine is not None:
            echo, (first, second) = {"heard": echo_of(challenges[party.name])}, self.verifiers[party.name]
            await tell(party, first, self.label("heard"), Message(echo))
            await tell(party, second, self.label("proof"), Message(echo, {"proof": mine.as_bytes()}))
        proofs = {}
        for dealer in self.checked:
            decides = dealer in self.second
            said = await hear(party, dealer, self.label("proof" if decides else "heard"))
            self.check_echo(said, challenges[dealer], dealer)
            if decides:
                proofs[dealer] = self.words(said, "proof", claims[dealer].proof_length)
        return proofs

    async def settle(
        self,
        answer: Callable[[str, bytes], FieldArray],
        accepts: Callable[[str, bytes, FieldArray], bool],
        claims: Mapping[str, AnyClaims],
    ) -> None:
        """Each first verifier answers at the last challenge; each second one decides that the proof holds, or stops."""
        third = await self.last_challenges()
        for dealer in self.first:
            message = Message(arrays={"answer": answer(dealer, third[dealer]).as_bytes()})
            await tell(self.party, self.verifiers[dealer][1], self.label("answer", dealer), message)
        for dealer in self.second:
            said = await hear(self.party, self.verifiers[dealer][0], self.label("answer", dealer))
            theirs = self.words(said, "answer", claims[dealer].answer_length)
            if not accepts(dealer, third[dealer], theirs):
                raise self.refused(dealer)

    def refused(self, dealer: str, why: str = "the proof does not hold") -> RemoteProtocolError:
        """The error that stops a run: which step, which dealer, which verifiers, and not whose fault it is."""
        first, second = self.verifiers[dealer]
        return RowsNotProved(
            f"{self.party.name} at step {self.step!r}: what {dealer} dealt was not proved to {first} and {second}: "
            f"{why}. It is not what was agreed, or one of {dealer}, {first} and {second} does not follow the "
            "protocol; it cannot be told which. Nothing that rests on it was opened. Ask all three what they run "
            "before another attempt."
        )


def echo_of(challenges: bytes) -> bytes:
    return derived(challenges, "heard")


Integers = NDArray[np.int64]
Claims = Mapping[str, tuple[RowClaim, ...]]
"""What each dealer claims about its columns, in the order in which they stand beside each other."""


class RowCheck:
    def __init__(self, party: Party, rows: int, claims: Claims, step: str) -> None:
        self.party = party
        self.checking = Checking.of(party, step, claims)
        self.claims = {
            dealer: RowClaims(rows, listed, self.checking.points(dealer)) for dealer, listed in claims.items()
        }
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
        checking, claims, name = self.checking, self.claims, self.party.name
        seeds = await checking.seeds(self._seeds)
        first = await checking.challenges()
        bits = await self._bits(first)
        second = await self._second_challenges()
        mine = None if self._proof is None else self._proof.proof(first[name], second[name])
        both = {dealer: first[dealer] + nonce for dealer, nonce in second.items()}
        proofs = await checking.proofs(mine, both, claims)

        def answered(dealer: str, third: bytes) -> FieldArray:
            return answer(
                claims[dealer],
                shares[dealer],
                seed=seeds[dealer],
                challenge=first[dealer],
                second=second[dealer],
                third=third,
            )

        def holds(dealer: str, third: bytes, theirs: FieldArray) -> bool:
            return accepts(
                claims[dealer],
                shares[dealer],
                seed=seeds[dealer],
                bits=bits[dealer],
                proof=proofs[dealer],
                challenge=first[dealer],
                second=second[dealer],
                third=third,
                answered=theirs,
            )

        await checking.settle(answered, holds, claims)

    async def _bits(self, challenges: Mapping[str, bytes]) -> dict[str, NDArray[np.uint8]]:
        """Send the second verifier its bits, if this party deals; returns those that this party decides about."""
        party, checking, received = self.party, self.checking, {}
        if self._proof is not None:
            mine = challenges[party.name]
            message = Message({"heard": echo_of(mine)}, {"bits": np.packbits(self._proof.bits(mine))})
            await tell(party, checking.verifiers[party.name][1], checking.label("bits"), message)
        for dealer in checking.second:
            claims = self.claims[dealer]
            said = await hear(party, dealer, checking.label("bits"))
            checking.check_echo(said, challenges[dealer], dealer)
            size = claims.bits * claims.projected
            flat = np.unpackbits(said.array("bits", dtype="u1", shape=(-(-size // 8),)))
            if flat[size:].any():
                raise said.wrong("the bits have an end that is not theirs")
            received[dealer] = flat[:size].reshape(claims.bits, claims.projected)
        return received

    async def _second_challenges(self) -> dict[str, bytes]:
        """The second challenge of every dealer that this party is or checks, drawn by the dealer's second verifier."""
        party, checking, challenges = self.party, self.checking, {}
        for dealer in checking.second:
            nonce = party.randomness.bytes(NONCE)
            challenges[dealer] = checking.bound(nonce, dealer, "second")
            for peer in (dealer, checking.verifiers[dealer][0]):
                await tell(party, peer, checking.label("second challenge", dealer), Message({"nonce": nonce}))
        for dealer, (first, second) in checking.verifiers.items():
            if party.name in (dealer, first):
                nonce = await checking.nonce(second, "second challenge", dealer)
                challenges[dealer] = checking.bound(nonce, dealer, "second")
        return challenges


def chosen_verify(requested: Verify | None, group: Group, claims: Claims, *, rows: int) -> Verify:
    """What a plan checks: what was asked for, if it can be done; else rows where there are two owners.

    Three or more owners have to ask: a party's ε is larger where it does without another part of the noise.
    """
    if requested == "none" or (requested is None and len(group.owners) > 2):
        return "none"
    # With t = 1 at most one of the three computing parties deviates, with t = 2 two might, and hide each other.
    if group.threshold != 1 or len(group.computing_parties) != 3:
        if requested is None:
            return "none"
        raise GroupMismatch(
            f"verify = {requested!r} was asked for; two computing parties check each dealer, which shows something "
            f"only where at most one member deviates, and this group has t = {group.threshold}. Write verify = 'none', "
            "or threshold = 1."
        )
    try:
        _check_room(claims, rows)
    except FieldTooSmall:
        if requested is None:
            return "none"
        raise
    return requested or "rows"


def checked_block(claims: Claims, block: int) -> int:
    """Rows dealt at a time where they are checked: up to three times as many, since a proof costs much the same."""
    for times in (3, 2):
        try:
            _check_room(claims, times * block)
        except FieldTooSmall:
            continue
        return times * block
    return block


def _check_room(claims: Claims, rows: int) -> None:
    """Raise `FieldTooSmall` unless so many rows can be checked at a time."""
    for listed in claims.values():
        if listed:
            RowClaims(rows, listed, (0, 1))


class VerifiedPlan(Protocol):
    """What a plan says about the rows that its owners deal, and the field where sums of their products do not wrap."""

    @property
    def verify(self) -> Verify: ...

    @property
    def dealt(self) -> Mapping[str, int]: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def scheme(self) -> Shamir: ...

    @property
    def rows(self) -> int: ...

    @property
    def block(self) -> int: ...

    @property
    def field(self) -> Field: ...


async def sum_products(
    party: Party, blocks: Iterable[tuple[int, Integers | None]], plan: VerifiedPlan, *, columns: int
) -> Shared:
    """Owners deal their rows block by block; each computing party adds up the products of all columns, at degree 2t."""
    products = MomentSum(plan.field, columns, keeps_shares=party.keeps_shares)
    for number, (rows, mine) in enumerate(blocks):
        dealt = await share_rows(party, mine, rows, plan, step=f"columns {number}")
        products.add([dealt[owner] for owner in party.group.owners])
        party.progress("columns", min((number + 1) * plan.block, plan.rows), plan.rows)
    return products.upper_triangle()


async def share_rows(
    party: Party, mine: Integers | None, rows: int, plan: VerifiedPlan, *, step: str
) -> dict[str, Shared]:
    """Every owner deals a block of its rows at degree t, with the proofs that the plan asks for."""
    if plan.verify != "none":
        return await share_verified(party, mine, rows, plan.claims, scheme=plan.scheme, step=step)
    shapes = {owner: (rows, width) for owner, width in plan.dealt.items()}
    return await share(party, mine, shapes, scheme=plan.scheme, degree=party.group.threshold, step=step)


async def share_verified(
    party: Party, mine: Integers | None, rows: int, claims: Claims, *, scheme: Shamir, step: str
) -> dict[str, Shared]:
    """As `share` at degree t, with every dealer's claims about these rows checked before this returns.

    Guarantee: if this returns at the second verifier of a dealer, and at most one of dealer and verifiers deviates, in
    every row the squared norm of the columns of each claim is at most what it says, as integers, except with the
    probability that `RowClaims` names. A verifier learns nothing about honest rows.
    """
    widths = {owner: sum(claim.columns for claim in listed) for owner, listed in claims.items()}
    shapes = {owner: (rows, width) for owner, width in widths.items()}
    dealt = await share(party, mine, shapes, scheme=scheme, degree=party.group.threshold, step=step)
    await check_rows(party, mine, dealt, claims, scheme=scheme, step=step)
    return dealt


async def check_rows(
    party: Party,
    mine: Integers | None,
    dealt: Mapping[str, Shared],
    claims: Claims,
    *,
    scheme: Shamir,
    step: str,
) -> None:
    """The check of rows that were dealt, or that everybody computes of what was dealt: `mine` are this party's."""
    rows, degree = next(iter(dealt.values())).shape[0], party.group.threshold
    claims = {owner: listed for owner, listed in claims.items() if listed}
    check = RowCheck(party, rows, claims, step)
    pads = await share(
        party,
        check.begin(mine),
        {owner: (rows, check.claims[owner].pads) for owner in claims},
        scheme=scheme,
        degree=degree,
        step=f"{step}, pads",
    )
    shares = {}
    for owner in claims:
        columns, filled = dealt[owner].share, pads[owner].share
        if columns is not None and filled is not None:
            shares[owner] = (columns, filled)
    await check.run(shares)
