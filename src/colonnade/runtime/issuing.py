"""FLARE's own commands for keys and certificates, with longer keys and certificates that are good for one use.

    python -m colonnade.runtime.issuing cert request ...

FLARE makes RSA keys of 2,048 bits, issues to servers and parties what is good for both ends of a connection, or to
kits that are made all at once what names no use, and has no setting for either. What it signs and checks takes RSA
alone, so keys of curves are not to be had.
"""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from nvflare import cli
from nvflare.lighter import utils
from nvflare.lighter.impl import cert
from nvflare.tool.cert import cert_commands

KEY_BITS = 3072
_PUBLIC_EXPONENT = 65537


def _keys() -> tuple[rsa.RSAPrivateKey, rsa.RSAPublicKey]:
    key = rsa.generate_private_key(public_exponent=_PUBLIC_EXPONENT, key_size=KEY_BITS)
    return key, key.public_key()


def _certificate(*arguments: Any, **named: Any) -> Any:
    """FLARE's certificate, of which a server's is good for answering and every other one for calling."""
    if not named.get("ca"):
        use = (
            ExtendedKeyUsageOID.SERVER_AUTH
            if named.get("server_default_host")
            else ExtendedKeyUsageOID.CLIENT_AUTH
        )
        others = [
            item
            for item in named.get("extra_extensions") or []
            if not isinstance(item[0], x509.ExtendedKeyUsage)
        ]
        named["extra_extensions"] = [*others, (x509.ExtendedKeyUsage([use]), False)]
    return _flares_certificate(*arguments, **named)


_flares_certificate = utils.generate_cert

if __name__ == "__main__":
    for module in (utils, cert, cert_commands):
        module.generate_keys, module.generate_cert = _keys, _certificate
    cli.main()
