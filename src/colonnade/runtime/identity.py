"""Who a member of a run is, proved: a certificate that the federation's root issued, and the key to it.

Only certificates that the root issued directly are accepted. The holder of the root could issue a second certificate
under anybody's name; a pin, the fingerprint that two parties compared by telephone, keeps even that one out.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from colonnade.errors import KitError

_LEAST_RSA_BITS = 2048
_PSS = padding.PSS(mgf=padding.MGF1(SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class NotTrusted(ValueError):
    """A certificate or a signature does not prove what it should. The message says what was found."""


def common_name(certificate: x509.Certificate) -> str:
    """The one common name in a certificate, or `NotTrusted`."""
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
        """A signature that `Trust.check_signature` accepts."""
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
    """The root that a federation was made with and, by certificate name, the fingerprints that are pinned.

    `excludes` raises `NotTrusted` for a certificate whose holder is no longer of the federation; None: nobody is.
    """

    root: x509.Certificate
    pins: Mapping[str, str] = field(default_factory=dict)
    excludes: Callable[[x509.Certificate, str], None] | None = None

    @classmethod
    def load(cls, root: Path, pins: Mapping[str, str] | None = None) -> Trust:
        """Trust in the root certificate of a PEM file."""
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
            made_out_to = common_name(certificate)
            ca = _may_issue(certificate)
        except NotTrusted:
            raise
        except ValueError:
            raise NotTrusted("it sent no certificate") from None
        try:
            certificate.verify_directly_issued_by(self.root)
        except (ValueError, TypeError, InvalidSignature):
            raise NotTrusted("its certificate was not issued by this federation's root") from None
        for whose, held in (("its certificate", certificate), ("the federation's root", self.root)):
            if not held.not_valid_before_utc <= moment <= held.not_valid_after_utc:
                raise NotTrusted(
                    f"{whose} is valid from {held.not_valid_before_utc:%Y-%m-%d %H:%M} to "
                    f"{held.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and the clock here says {moment:%Y-%m-%d %H:%M}"
                )
        if ca:
            raise NotTrusted("its certificate is one that issues others, not a member's")
        if made_out_to != name:
            raise NotTrusted(f"its certificate is made out to {made_out_to!r}, not to {name!r}")
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
            f"{text!r} is no fingerprint: 64 hexadecimal digits, the SHA-256 of a certificate, as "
            "`colonnade doctor` shows it."
        )
    return plain


def _may_issue(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
