"""Frames that only one receiver can read and nobody can alter, repeat, move or send elsewhere.

A line is one direction between two ends. Its key comes from X25519 through HKDF (`key_agreement`) and is bound to the
line's route, which both ends must name alike. Frames are sealed with AES-256-GCM; the route, the step and the position
on the line are associated data, and the position is also the nonce, so no nonce repeats under a key: a line has one
sealer, a sealer counts, and a key serves one run. Whatever is wrong with one frame closes the line for good.

Source: NIST SP 800-38D (GCM, deterministic nonces), RFC 5869 (HKDF).
"""

from __future__ import annotations

import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from colonnade.crypto.key_agreement import KEY_BYTES

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
            raise SealBroken("this is no sealed frame")
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
