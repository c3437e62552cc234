"""Signatures under which a statement leaves a house: Ed25519 (RFC 8032), bound to what is signed."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.randomness import Randomness

KEY_BYTES = 32


@dataclass(frozen=True, repr=False)
class SigningKey:
    """Whoever holds it can sign; `public` is what others check with."""

    _secret: bytes = field()

    def __post_init__(self) -> None:
        if len(self._secret) != KEY_BYTES:
            raise ValueError(f"a signing key has {KEY_BYTES} bytes, not {len(self._secret)}")

    @classmethod
    def generate(cls, randomness: Randomness) -> SigningKey:
        """A key from 32 uniform bytes."""
        return cls(randomness.bytes(KEY_BYTES))

    @property
    def secret(self) -> bytes:
        """The bytes to keep, and to show nobody."""
        return self._secret

    @property
    def public(self) -> bytes:
        """What others check signatures with: 32 bytes."""
        return Ed25519PrivateKey.from_private_bytes(self._secret).public_key().public_bytes_raw()

    def sign(self, message: bytes, *, purpose: str) -> bytes:
        """A signature of this message for this purpose, and for no other."""
        return Ed25519PrivateKey.from_private_bytes(self._secret).sign(_bound(message, purpose))

    def __repr__(self) -> str:
        return "SigningKey(<secret>)"


def signed_by(public: bytes, signature: bytes, message: bytes, *, purpose: str) -> bool:
    """Whether the holder of this key signed this message for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _bound(message, purpose))
    except (InvalidSignature, ValueError):
        return False
    return True


def _bound(message: bytes, purpose: str) -> bytes:
    name = purpose.encode()
    return b"colonnade signature 1" + len(name).to_bytes(8, "little") + name + message
