"""Certificates made for tests: a root, and what it or somebody else issues."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from colonnade.runtime.identity import Identity

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)
_USES = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
_ISSUING = x509.KeyUsage(
    **dict.fromkeys((*_USES, "encipher_only", "decipher_only"), False)
    | dict.fromkeys(("digital_signature", "key_cert_sign", "crl_sign"), True)
)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Root:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str = "a federation", *, start: datetime.datetime = NOW - DAY, days: int = 9) -> Root:
        """A root of its own; two roots of one name are still two roots."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        builder = _builder(subject, subject, key.public_key(), start, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_ISSUING, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return cls(builder.add_extension(own, critical=False).sign(key, SHA256()), key)

    def issue(
        self,
        name: str,
        *,
        start: datetime.datetime = NOW - DAY,
        days: int = 9,
        key: Key | None = None,
        ca: bool = False,
        hosts: tuple[str, ...] = (),
        role: str = "",
    ) -> Identity:
        """An identity under this root; of a machine that is called by its name, with its `hosts`, or of a `role`."""
        own = key or ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name, role), self.certificate.subject, own.public_key(), start, days)
        if ca:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
            builder = builder.add_extension(names, critical=False).add_extension(issuer, critical=False)
        return Identity(builder.sign(self.key, SHA256()), own)


def _named(name: str, role: str = "") -> x509.Name:
    said = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    return x509.Name([*said, *([x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role)] if role else [])])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: Any, start: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + days * DAY)
    )
