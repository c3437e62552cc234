"""Frames that only one receiver can read and nobody can alter; key agreement and signatures."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

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
        return cls(X25519PrivateKey.from_private_bytes(randomness.bytes(KEY_BYTES)))

    @property
    def public(self) -> bytes:
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


@dataclass(frozen=True, repr=False)
class SigningKey:
    """Whoever holds it can sign; `public` is what others check with."""

    _secret: bytes = field()

    def __post_init__(self) -> None:
        if len(self._secret) != KEY_BYTES:
            raise ValueError(f"a signing key has {KEY_BYTES} bytes, not {len(self._secret)}")

    @classmethod
    def generate(cls, randomness: Randomness) -> SigningKey:
        return cls(randomness.bytes(KEY_BYTES))

    @property
    def secret(self) -> bytes:
        """The bytes to keep, and to show nobody."""
        return self._secret

    @property
    def public(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self._secret).public_key().public_bytes_raw()

    def sign(self, message: bytes, *, purpose: str) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self._secret).sign(_bound(message, purpose))

    def __repr__(self) -> str:
        return "SigningKey(<secret>)"


def signed_by(public: bytes, signature: bytes, message: bytes, *, purpose: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _bound(message, purpose))
    except (InvalidSignature, ValueError):
        return False
    return True


def _bound(message: bytes, purpose: str) -> bytes:
    name = purpose.encode()
    return b"colonnade signature 1" + len(name).to_bytes(8, "little") + name + message


MAGIC = b"CLSE"
_HEADER = struct.Struct("<4sQ")
_TAG_BYTES = 16
#: How much longer a sealed frame is than what is in it.
OVERHEAD = _HEADER.size + _TAG_BYTES
_LAST = (1 << 64) - 1

#: What a line is for, as texts that both ends know: for parties the job, the sender and the receiver.
Route = tuple[str, ...]


class SealBroken(ValueError):
    """A frame is not the next one of its line as its sender sealed it. The message says what was found."""


def unambiguous(parts: tuple[str, ...]) -> bytes:
    """Texts as bytes from which no other texts can be read: each is preceded by its length."""
    encoded = [part.encode() for part in parts]
    return b"".join(
        [len(encoded).to_bytes(8, "little"), *(len(e).to_bytes(8, "little") + e for e in encoded)]
    )


def _cipher(secret: bytes, route: Route) -> AESGCM:
    if len(secret) != KEY_BYTES:
        raise ValueError(f"a line's secret has {KEY_BYTES} bytes, this one has {len(secret)}")
    info = b"colonnade sealed line 1" + unambiguous(route)
    return AESGCM(HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=info).derive(secret))


def _associated(header: bytes, route: Route, step: str) -> bytes:
    return header + unambiguous((*route, step))


class Sealer:
    """The sending end of a line."""

    def __init__(self, secret: bytes, route: Route) -> None:
        self._cipher, self._route, self._next = _cipher(secret, route), route, 0

    def seal(self, frame: bytes | bytearray, *, step: str) -> bytes:
        """The frame as it travels: position, ciphertext, tag."""
        if self._next >= _LAST:
            raise SealBroken("this line has sent all the frames it can")
        header = _HEADER.pack(MAGIC, self._next)
        nonce = self._next.to_bytes(12, "little")
        # Counted before sealing: whatever happens next, this nonce has been used.
        self._next += 1
        return header + self._cipher.encrypt(nonce, bytes(frame), _associated(header, self._route, step))


class Opener:
    """The receiving end of a line. After the first frame that is not as it should be it opens nothing more."""

    def __init__(self, secret: bytes, route: Route) -> None:
        self._cipher, self._route, self._next = _cipher(secret, route), route, 0
        self._broken = ""

    def open(self, sealed: bytes | bytearray, *, step: str) -> bytes:
        """What was sealed as the next frame of this line for this step, or `SealBroken`."""
        if self._broken:
            raise SealBroken(f"nothing more is taken from this line, since {self._broken}")
        try:
            return self._opened(sealed, step)
        except SealBroken as error:
            self._broken = str(error)
            raise

    def _opened(self, sealed: bytes | bytearray, step: str) -> bytes:
        if len(sealed) < OVERHEAD or not sealed.startswith(MAGIC):
            raise SealBroken("this is not a sealed frame")
        header = bytes(sealed[: _HEADER.size])
        _, number = _HEADER.unpack(header)
        if number != self._next:
            raise SealBroken(
                f"this is frame {number} where frame {self._next} was due: it was repeated or moved"
            )
        try:
            frame = self._cipher.decrypt(
                number.to_bytes(12, "little"),
                memoryview(sealed)[_HEADER.size :],
                _associated(header, self._route, step),
            )
        except InvalidTag:
            raise SealBroken(
                f"frame {number} was altered, or was sealed for another receiver, step or run"
            ) from None
        self._next += 1
        return frame
