"""Who a member of a run is, proved by a certificate, and a channel whose frames only the receiving member can read."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from colonnade.crypto.sealing import AgreementKey, InvalidPublicKey, Opener, SealBroken, Sealer, unambiguous
from colonnade.errors import KitError, LocalProtocolError, RemoteProtocolError
from colonnade.randomness import SystemRandomness
from colonnade.runtime.channel import Channel, Frame
from colonnade.runtime.wire import Envelope, Message, decode, encode

_LEAST_RSA_BITS = 2048
_PSS = padding.PSS(mgf=padding.MGF1(SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class NotTrusted(ValueError):
    """A certificate or a signature does not prove what it should. The message says what was found."""


def common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not isinstance(names[0].value, str):
        raise NotTrusted(f"its certificate has {len(names)} common names where it should have one")
    return names[0].value


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the whole certificate, in hexadecimal: what two people compare before they pin it."""
    return certificate.fingerprint(SHA256()).hex()


@dataclass(frozen=True, repr=False)
class Identity:
    """A certificate and the key to it, which stays with its owner."""

    certificate: x509.Certificate
    _key: _PrivateKey = field()

    def __post_init__(self) -> None:
        if self._key.public_key() != self.certificate.public_key():
            raise KitError("the key does not belong to the certificate beside it. Use the files of one kit.")

    @classmethod
    def load(cls, certificate: Path, key: Path) -> Identity:
        try:
            loaded = load_pem_private_key(key.read_bytes(), password=None)
            issued = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (ValueError, TypeError) as error:
            raise KitError(
                f"{certificate} and {key} are not a certificate and an unencrypted key ({error}). Use the files of "
                "one kit, as they were made."
            ) from None
        if not isinstance(loaded, _PrivateKey):
            raise KitError(f"{key} holds a kind of key that cannot sign here. Use an RSA, EC or Ed25519 key.")
        return cls(issued, loaded)

    @property
    def name(self) -> str:
        return common_name(self.certificate)

    def sign(self, statement: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(statement, _PSS, SHA256())
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            return self._key.sign(statement, ec.ECDSA(SHA256()))
        return self._key.sign(statement)

    def to_bytes(self) -> bytes:
        """The certificate, which everybody may see, as DER."""
        return self.certificate.public_bytes(Encoding.DER)

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"


@dataclass(frozen=True)
class Trust:
    """A federation's root, pinned fingerprints by name, and what raises `NotTrusted` for whoever is excluded."""

    root: x509.Certificate
    pins: Mapping[str, str] = field(default_factory=dict)
    excludes: Callable[[x509.Certificate, str], None] | None = None

    @classmethod
    def load(cls, root: Path, pins: Mapping[str, str] | None = None) -> Trust:
        try:
            loaded = x509.load_pem_x509_certificate(root.read_bytes())
        except ValueError:
            raise KitError(f"{root} holds no certificate. Use the one that came with the kit.") from None
        return cls(loaded, {name: plain_fingerprint(pin) for name, pin in (pins or {}).items()})

    def certificate(self, der: bytes, name: str, *, now: datetime.datetime | None = None) -> x509.Certificate:
        """The certificate in these bytes, if it proves `name` at this time; otherwise `NotTrusted`."""
        moment = now or datetime.datetime.now(datetime.UTC)
        try:
            certificate = x509.load_der_x509_certificate(der)
            subject = common_name(certificate)
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
            ca = constraints.value.ca
        except x509.ExtensionNotFound:
            ca = False
        except NotTrusted:
            raise
        except ValueError:
            raise NotTrusted("it sent no certificate") from None
        try:
            certificate.verify_directly_issued_by(self.root)
        except (ValueError, TypeError, InvalidSignature):
            raise NotTrusted("its certificate was not issued by this federation's root") from None
        for whose, cert in (("its certificate", certificate), ("the federation's root", self.root)):
            if not cert.not_valid_before_utc <= moment <= cert.not_valid_after_utc:
                raise NotTrusted(
                    f"{whose} is valid from {cert.not_valid_before_utc:%Y-%m-%d %H:%M} to "
                    f"{cert.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and the clock here says {moment:%Y-%m-%d %H:%M}"
                )
        if ca:
            raise NotTrusted("its certificate is one that issues others, not a member's")
        if subject != name:
            raise NotTrusted(f"its certificate is made out to {subject!r}, not to {name!r}")
        if self.excludes is not None:
            self.excludes(certificate, name)
        pin = self.pins.get(name)
        if pin is not None and pin != fingerprint(certificate):
            raise NotTrusted(f"its certificate is not the one whose fingerprint is pinned for {name!r}")
        return certificate

    def check_signature(self, certificate: x509.Certificate, statement: bytes, signature: bytes) -> None:
        """Return if the key of this certificate signed the statement; otherwise raise `NotTrusted`."""
        key = certificate.public_key()
        if not isinstance(key, _PublicKey):
            raise NotTrusted("its certificate has a kind of key that is not used here")
        try:
            if isinstance(key, rsa.RSAPublicKey):
                if key.key_size < _LEAST_RSA_BITS:
                    raise NotTrusted(f"its RSA key has {key.key_size} bits, fewer than {_LEAST_RSA_BITS}")
                key.verify(signature, statement, _PSS, SHA256())
            elif isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, statement, ec.ECDSA(SHA256()))
            else:
                key.verify(signature, statement)
        except InvalidSignature:
            raise NotTrusted("the key of its certificate did not sign what it said") from None


def plain_fingerprint(text: str) -> str:
    """A fingerprint without colons, spaces and capitals, as people write them."""
    plain = text.lower().replace(":", "").replace(" ", "").removeprefix("sha256")
    if len(plain) != 64 or any(digit not in "0123456789abcdef" for digit in plain):
        raise KitError(
            f"{text!r} is not a valid fingerprint: 64 hexadecimal digits, the SHA-256 of a certificate, as "
            "`colonnade doctor` shows it."
        )
    return plain


HELLO = "sealed hello"
_MAX_HELLO = 1 << 16


class SealedChannel:
    """One member's end of its sealed lines; made by `seal`."""

    def __init__(
        self, name: str, inner: Channel, *, sealers: Mapping[str, Sealer], openers: Mapping[str, Opener]
    ) -> None:
        self.name = name
        self._inner = inner
        self._sealers = sealers
        self._openers = openers

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self._check_peer(to)
        await self._inner.send(to, step, self._sealers[to].seal(frame, step=step))

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        self._check_peer(peer)
        sealed = await self._inner.receive(peer, step, timeout)
        try:
            return self._openers[peer].open(sealed, step=step)
        except SealBroken as error:
            raise RemoteProtocolError(
                f"{self.name} at step {step!r}: what came as {peer}'s frame is not what {peer} sealed ({error}). "
                f"Whoever relays the frames, or {peer} itself, is at fault."
            ) from None

    def stop(self, reason: str | None) -> None:
        self._inner.stop(reason)

    def _check_peer(self, peer: str) -> None:
        if peer not in self._sealers:
            raise LocalProtocolError(
                f"{self.name} has no sealed line to {peer!r}; its peers are {sorted(self._sealers)}"
            )


async def seal(
    inner: Channel,
    name: str,
    members: tuple[str, ...],
    *,
    job: str,
    identity: Identity,
    trust: Trust,
    certified: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> SealedChannel:
    """The sealed channel of `name` once all others proved themselves; `certified` has names that are not members'."""
    certified = certified or {}
    subject = certified.get(name, name)
    if identity.name != subject:
        raise LocalProtocolError(
            f"{name} would prove itself with the certificate of {identity.name!r}, but its peers want {subject!r}. "
            "Start each party with its own kit."
        )
    key = AgreementKey.generate(SystemRandomness())
    mine = _statement(job, name, members, key.public, identity.to_bytes())
    peers = [member for member in members if member != name]
    said = Message({"key": key.public, "certificate": identity.to_bytes(), "signature": identity.sign(mine)})
    for peer in peers:
        await inner.send(peer, HELLO, encode(Envelope(job, name, peer, HELLO, 0), said))
    sealers: dict[str, Sealer] = {}
    openers: dict[str, Opener] = {}
    # All at once: a peer that is gone is noticed while another one is still on its way.
    frames = await asyncio.gather(*(inner.receive(peer, HELLO, timeout) for peer in peers))
    for peer, frame in zip(peers, frames, strict=True):
        try:
            public, theirs = _checked(frame, job, peer, members, trust, certified.get(peer, peer))
            context = b"".join(sorted(hashlib.sha256(statement).digest() for statement in (mine, theirs)))
            secret = key.agree(public, context=context)
        except (NotTrusted, InvalidPublicKey, RemoteProtocolError) as error:
            raise RemoteProtocolError(
                f"{name} at step {HELLO!r}: {peer} did not prove that it is {peer}: {error}. Nothing was charged."
            ) from None
        sealers[peer] = Sealer(secret, (job, name, peer))
        openers[peer] = Opener(secret, (job, peer, name))
    return SealedChannel(name, inner, sealers=sealers, openers=openers)


def _statement(job: str, member: str, members: tuple[str, ...], public: bytes, certificate: bytes) -> bytes:
    bound = (job, member, *members, public.hex(), hashlib.sha256(certificate).hexdigest())
    return unambiguous(("colonnade sealed hello 1", *bound))


def _checked(
    frame: Frame, job: str, peer: str, members: tuple[str, ...], trust: Trust, certified: str
) -> tuple[bytes, bytes]:
    _, message = decode(frame, limit=_MAX_HELLO)
    public, certificate, signature = map(message.fields.get, ("key", "certificate", "signature"))
    if not (isinstance(public, bytes) and isinstance(certificate, bytes) and isinstance(signature, bytes)):
        raise NotTrusted("its hello has not the parts of one")
    statement = _statement(job, peer, members, public, certificate)
    trust.check_signature(trust.certificate(certificate, certified), statement, signature)
    return public, statement
