"""A signature with the certificate that it is checked by: what a kit's holder says to whoever has the same root."""

from __future__ import annotations

import base64
import datetime

from cryptography import x509
from cryptography.x509.oid import NameOID

from colonnade.runtime.identity import Identity, NotTrusted, Trust

#: What is signed is said by a scheme, a key or certificate and a value, in order of their names.
Signature = tuple[tuple[str, str], ...]


def vouch(identity: Identity, statement: bytes, *, purpose: str, scheme: str) -> Signature:
    """A statement's signature by a kit's key, for this purpose and no other."""
    made = {
        "scheme": scheme,
        "certificate": base64.b64encode(identity.to_bytes()).decode(),
        "value": identity.sign(purpose.encode() + statement).hex(),
    }
    return tuple(sorted(made.items()))


def check_vouched(
    signature: Signature,
    statement: bytes,
    *,
    purpose: str,
    name: str,
    trust: Trust,
    when_issued: bool = False,
) -> x509.Certificate:
    """The certificate of whoever signed this as `name`, if the root issued it; otherwise `NotTrusted`.

    With `when_issued` a certificate counts that has ended since: what was decided outlives it.
    """
    said = dict(signature)
    try:
        der, value = base64.b64decode(said["certificate"]), bytes.fromhex(said["value"])
        issued = x509.load_der_x509_certificate(der)
    except (KeyError, ValueError):
        raise NotTrusted("it is not signed") from None
    moment = issued.not_valid_before_utc if when_issued else datetime.datetime.now(datetime.UTC)
    certificate = trust.certificate(der, name, now=moment)
    trust.check_signature(certificate, purpose.encode() + statement, value)
    return certificate


def role_in(certificate: x509.Certificate) -> str:
    """FLARE's name of the role that a certificate was issued for; empty if it says none."""
    roles = certificate.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
    return str(roles[0].value) if len(roles) == 1 else ""
