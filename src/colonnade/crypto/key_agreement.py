"""A secret between two parties that nobody else has: X25519, then HKDF bound to what the key is for.

Source: RFC 7748 (X25519), RFC 5869 (HKDF).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.randomness import Randomness

KEY_BYTES = 32


class InvalidPublicKey(ValueError):
    """A peer's public key has the wrong length or is a point that makes every secret the same."""


@dataclass(frozen=True, repr=False)
class AgreementKey:
    """One party's key for one run. Make a new one for every run and keep it nowhere."""

    _private: X25519PrivateKey = field()

    @classmethod
    def generate(cls, randomness: Randomness) -> AgreementKey:
        """A key from 32 uniform bytes."""
        return cls(X25519PrivateKey.from_private_bytes(randomness.bytes(KEY_BYTES)))

    @property
    def public(self) -> bytes:
        """The half that peers receive: 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def agree(self, peer: bytes, *, context: bytes) -> bytes:
        """32 bytes that only the holders of these two keys can compute, for this context only.

        Both public keys enter the derivation, in an order both sides find, so that the secret also
        says who shares it.
        """
        if len(peer) != KEY_BYTES:
            raise InvalidPublicKey(f"a public key has {KEY_BYTES} bytes, this one has {len(peer)}")
        if peer == self.public:
            raise InvalidPublicKey("a peer sent this party's own public key back")
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError:
            raise InvalidPublicKey("this public key is a point of small order") from None
        first, second = sorted((self.public, peer))
        info = b"colonnade key agreement 1" + first + second + len(context).to_bytes(8, "little") + context
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)

    def __repr__(self) -> str:
        return "AgreementKey(<secret>)"
