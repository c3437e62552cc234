"""Kits made for tests: folders as FLARE's provisioning lays them out, with certificates of a test's own root."""

import json
from pathlib import Path
from typing import Any

from certificates import Root
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from colonnade.runtime.identity import Identity
from colonnade.sites.kit import Kit

HOST = "localhost"


def make_kit(folder: Path, root: Root, name: str, *, identity: Identity | None = None, role: str = "") -> Kit:
    """The kit of a member, or of an administrator with a `role`; the server's is called `server`, under its host."""
    server = name == "server"
    identity = identity or root.issue(HOST if server else name, role=role)
    startup, local = folder / name / "startup", folder / name / "local"
    startup.mkdir(parents=True)
    local.mkdir()
    stem = "server" if server else "client"
    pem = identity._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (startup / f"{stem}.key").write_bytes(pem)
    (startup / f"{stem}.crt").write_bytes(identity.certificate.public_bytes(Encoding.PEM))
    (startup / "rootCA.pem").write_bytes(root.certificate.public_bytes(Encoding.PEM))
    service = {"target": f"{HOST}:8002", "scheme": "tcp"}
    described: dict[str, Any] = {"servers": [{"name": "test", "service": service, "identity": HOST}]}
    if role or "@" in identity.name:
        described = {"admin": {"server_identity": HOST, "host": HOST, "port": 8002}}
    kind = "admin" if "admin" in described else stem
    (startup / f"fed_{kind}.json").write_text(json.dumps(described))
    components = [{"id": "job_manager", "args": {"uri_root": "elsewhere"}}, {"id": "site_log_streamer"}]
    storage = {"args": {"storage": {"args": {"root_dir": "elsewhere"}}}}
    defaults = {"class_allow_list": ["*"], "components": components, "snapshot_persistor": storage}
    (local / "resources.json.default").write_text(json.dumps(defaults))
    return Kit.load(folder / name)
