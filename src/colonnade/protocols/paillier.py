"""Which Paillier keys a plan admits; keys and ciphertexts as messages, checked on arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from colonnade.crypto import paillier
from colonnade.errors import PlanError
from colonnade.protocols.messages import hear, tell
from colonnade.randomness import Randomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


@dataclass(frozen=True)
class PaillierKeys:
    """The Paillier keys that a plan admits: of 2048 or 3072 bits."""

    bits: int = min(paillier.KEY_BITS)
    public: ClassVar[type[paillier.PublicKey]] = paillier.PublicKey
    scheme: ClassVar[str] = "paillier"

    def __post_init__(self) -> None:
        if self.bits not in paillier.KEY_BITS:
            raise PlanError(
                f"Paillier keys have {' or '.join(map(str, paillier.KEY_BITS))} bits, not {self.bits}."
            )

    def generate(self, randomness: Randomness) -> paillier.PrivateKey:
        return paillier.PrivateKey.generate(randomness, self.bits)

    def received(self, modulus: int) -> paillier.PublicKey:
        """A peer's key; ValueError unless it has the length agreed."""
        key = self.public(modulus)
        if key.bits != self.bits:
            raise ValueError(f"a key of {self.bits} bits was agreed, this one has {key.bits}")
        return key

    def to_data(self) -> dict[str, Any]:
        return {"scheme": self.scheme, "bits": self.bits}


@dataclass(frozen=True)
class PaillierKeysForTests(PaillierKeys):
    """Keys of any even length. They protect nothing."""

    public = paillier.PublicKeyForTests
    scheme = "paillier for tests, protects nothing"

    def __post_init__(self) -> None:
        """Any length will do."""

    def generate(self, randomness: Randomness) -> paillier.PrivateKey:
        return paillier.PrivateKey.generate_for_tests(randomness, self.bits)


async def make_key(party: Party, keys: PaillierKeys, to: Sequence[str]) -> paillier.PrivateKey:
    """A fresh key of the agreed kind; its public half goes to these peers, with a proof."""
    private = await asyncio.to_thread(keys.generate, party.randomness)
    proof = await asyncio.to_thread(paillier.prove_key, private, context=party.run.encode())
    modulus = private.public.modulus.to_bytes(-(-private.public.bits // 8), "little")
    for peer in to:
        await tell(party, peer, "key", Message({"modulus": modulus, "proof": proof}))
    return private


async def hear_key(party: Party, peer: str, keys: PaillierKeys) -> paillier.PublicKey:
    """A peer's public key, if it is of the agreed kind and its proof holds."""
    said = await hear(party, peer, "key")
    modulus, proof = said.fields.get("modulus"), said.fields.get("proof")
    if type(modulus) is not bytes or type(proof) is not bytes:
        raise said.wrong("neither a modulus nor a proof")
    try:
        key = keys.received(int.from_bytes(modulus, "little"))
        # Without the proof, a modulus could be made under which fresh ciphertexts are not fresh.
        await asyncio.to_thread(paillier.check_key_proof, key, proof, context=party.run.encode())
    except ValueError as error:
        raise said.wrong(error) from None
    return key


def ciphertext_message(ciphertexts: paillier.Ciphertexts) -> Message:
    width = ciphertexts.key.ciphertext_bytes
    numbers = np.frombuffer(ciphertexts.to_bytes(), dtype=np.uint8).reshape(-1, width)
    return Message(arrays={"ciphertexts": numbers})


async def received_ciphertexts(said: Message, key: paillier.PublicKey, count: int) -> paillier.Ciphertexts:
    """So many ciphertexts of this key; length, range and common factors are checked."""
    data = said.array("ciphertexts", dtype="u1", shape=(count, key.ciphertext_bytes)).tobytes()
    try:
        return await asyncio.to_thread(paillier.Ciphertexts.from_bytes, key, data, count=count)
    except paillier.InvalidCiphertext as error:
        raise said.wrong(error) from None
