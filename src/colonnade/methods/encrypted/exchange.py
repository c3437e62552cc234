"""Sums of others' numbers times one's own columns, under somebody's key: how a receiver comes to its gradient.

Scores travel encrypted from owner to owner, each adding its own; the receiver multiplies the sum by its integers, masks
the result and makes it fresh; the key's owner decrypts what it cannot read, and the receiver takes the mask off
("Is Vertical Logistic Regression Privacy-Preserving?", protocol 1, for any number of owners).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.ciphertext_matrix import added, masked, packed, times_matrix
from colonnade.crypto.paillier import Ciphertexts, Encryptor, InvalidCiphertext, decrypt, decrypt_any_size
from colonnade.crypto.paillier_keys import PrivateKey, PublicKey
from colonnade.crypto.paillier_masks import UniformMask
from colonnade.methods.encrypted.plan import EncryptedPlan
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.paillier import (
    ciphertext_message,
    hear_key,
    heard_ciphertexts,
    make_key,
)
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]


class Question(Protocol):
    """What a receiver asks of encrypted numbers, and how it reads the answer. An attack asks something else."""

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        """As many ciphertexts as were agreed, from one number a record and the receiver's own integers."""
        ...

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        """The sums, one for each of the receiver's columns."""
        ...


class AgreedQuestion:
    """Σ m·x̃ for each column, packed as planned: what an honest receiver asks."""

    def __init__(self, plan: EncryptedPlan, receiver: str) -> None:
        self._fields, self._bits = plan.packing(receiver), plan.entry_bits(receiver)
        self._width, self._most = plan.width(receiver), plan.largest_sum(receiver)

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        return packed(times_matrix(numbers, integers, bits=self._bits), self._fields)

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        """The sums; ValueError if one is larger than any can be."""
        sums = [value for answer in answers for value in self._fields.unpack(answer)]
        if any(sums[self._width :]) or any(abs(value) > self._most for value in sums):
            raise ValueError("an answer is no sum over these rows")
        return tuple(sums[: self._width])


class Exchange:
    """One owner's keys and its part in every sum of one run."""

    def __init__(self, party: Party, plan: EncryptedPlan, question: Question | None = None) -> None:
        self._party, self._plan = party, plan
        self._question = question or AgreedQuestion(plan, party.name)
        self._private: PrivateKey | None = None
        self._keys: dict[str, PublicKey] = {}
        self._encryptors: dict[str, Encryptor] = {}

    async def begin(self) -> None:
        """Make a key if this owner holds one, hear the others', and prepare to encrypt under each."""
        party, plan = self._party, self._plan
        others = [owner for owner in plan.group.owners if owner != party.name]
        for holder in plan.key_holders:
            if holder == party.name:
                self._private = await make_key(party, plan.options.keys, others)
                self._keys[holder] = self._private.public
                own = await asyncio.to_thread(Encryptor.for_owner, self._private, party.randomness)
                self._encryptors[holder] = own
                continue
            self._keys[holder] = await hear_key(party, holder, plan.options.keys)
            if self._adds_under(holder):
                made = await asyncio.to_thread(Encryptor.for_key, self._keys[holder], party.randomness)
                self._encryptors[holder] = made
        if len(others) > 1:
            # One owner adds to what another encrypted, so all must hold the same keys.
            await agree_on_public(party, "keys", plan.group.owners, *map(self._key_bytes, plan.key_holders))

    def _key_bytes(self, holder: str) -> NDArray[np.uint8]:
        key = self._keys[holder]
        return np.frombuffer(key.modulus.to_bytes(-(-key.bits // 8), "little"), dtype=np.uint8)

    def _adds_under(self, holder: str) -> bool:
        plan, name = self._plan, self._party.name
        if not plan.splits:
            return True
        return any(
            plan.relay(receiver)[0] == holder and name in plan.relay(receiver)
            for receiver in plan.group.owners
        )

    async def contribute(self, receiver: str, mine: Integers, step: str) -> None:
        """Add one's numbers to what is on its way to a receiver, and send it on."""
        chain = self._plan.relay(receiver)
        holder = self._holder(receiver)
        place = chain.index(self._party.name)
        numbers = await asyncio.to_thread(self._encryptors[holder].encrypt, mine.tolist())
        if place:
            said = await hear(self._party, chain[place - 1], f"{step} for {receiver}")
            numbers = added(await heard_ciphertexts(said, self._keys[holder], len(mine)), numbers)
        following = chain[place + 1] if place + 1 < len(chain) else receiver
        await tell(self._party, following, f"{step} for {receiver}", ciphertext_message(numbers))

    async def collect(self, count: int, step: str) -> Ciphertexts:
        """What everybody added up for this owner, encrypted."""
        return (await self._collected(count, step))[1]

    async def read_sums(self, count: int, step: str) -> tuple[int, ...]:
        """What everybody added up under this owner's own key, each number within what was agreed."""
        if self._private is None:
            raise ValueError(f"{self._party.name} holds no key and reads nothing")
        said, numbers = await self._collected(count, step)
        most = sum(self._plan.reach(owner) for owner in self._plan.relay(self._party.name))
        try:
            return await asyncio.to_thread(decrypt, self._private, numbers, at_most=most)
        except InvalidCiphertext as error:
            raise said.wrong(error) from None

    async def _collected(self, count: int, step: str) -> tuple[Message, Ciphertexts]:
        name = self._party.name
        said = await hear(self._party, self._plan.relay(name)[-1], f"{step} for {name}")
        return said, await heard_ciphertexts(said, self._keys[self._holder(name)], count)

    async def ask(self, numbers: Ciphertexts, integers: Integers, step: str) -> list[int]:
        """Multiply, mask, make fresh, send to the key's owner; returns the masks."""
        party, plan = self._party, self._plan
        asked = await asyncio.to_thread(self._question.ask, numbers, integers)
        if plan.bounded:
            masks = plan.mask(party.name).draw(len(asked), party.randomness)
        else:
            masks = UniformMask(numbers.key.modulus).draw(len(asked), party.randomness)
        leaving = await asyncio.to_thread(masked, asked, masks, party.randomness)
        await tell(party, self._holder(party.name), f"{step} asked", ciphertext_message(leaving))
        return list(masks)

    async def answer(self, receiver: str, step: str) -> None:
        """Decrypt what a receiver asks: so many ciphertexts as were agreed, and with bounded masks no larger."""
        party, plan, private = self._party, self._plan, self._private
        if private is None:
            raise ValueError(f"{party.name} holds no key and answers nobody")
        said = await hear(party, receiver, f"{step} asked")
        asked = await heard_ciphertexts(said, private.public, plan.questions(receiver))
        try:
            if plan.bounded:
                values = await asyncio.to_thread(plan.mask(receiver).answer, private, asked)
            else:
                # As the protocol is printed: whatever the receiver packed into a plaintext is read out to it.
                signed = await asyncio.to_thread(decrypt_any_size, private, asked)
                values = tuple(value % private.public.modulus for value in signed)
        except InvalidCiphertext as error:
            raise said.wrong(error) from None
        width = self._answer_bytes(receiver, private.public)
        numbers = np.frombuffer(b"".join(value.to_bytes(width, "little") for value in values), dtype=np.uint8)
        answer = Message(arrays={"answers": numbers.reshape(len(values), width)})
        await tell(party, receiver, f"{step} answered", answer)

    async def read(self, masks: Sequence[int], records: int, step: str) -> tuple[int, ...]:
        """The answer without its masks."""
        party, plan = self._party, self._plan
        holder = self._holder(party.name)
        said = await hear(party, holder, f"{step} answered")
        width = self._answer_bytes(party.name, self._keys[holder])
        rows = said.array("answers", dtype="u1", shape=(len(masks), width))
        answers = [int.from_bytes(row.tobytes(), "little") for row in rows]
        try:
            if plan.bounded:
                values = plan.mask(party.name).unmask(answers, masks)
            else:
                values = UniformMask(self._keys[holder].modulus).unmask(answers, masks)
            return self._question.read(values, records)
        except ValueError as error:
            raise said.wrong(error) from None

    def _holder(self, receiver: str) -> str:
        return self._plan.relay(receiver)[0] if self._plan.splits else self._plan.active

    def _answer_bytes(self, receiver: str, key: PublicKey) -> int:
        bits = self._plan.mask(receiver).value_bits if self._plan.bounded else key.bits
        return -(-bits // 8)
