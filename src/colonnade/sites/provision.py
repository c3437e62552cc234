"""Making kits with FLARE's own tools, and changing a federation that runs: renewals and exclusions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from nvflare import cli
from nvflare.lighter import utils
from nvflare.lighter.impl import cert
from nvflare.tool.cert import cert_commands

from colonnade.errors import InputError, KitError
from colonnade.runtime.identity import Identity, Trust, fingerprint
from colonnade.sites.kit import EXCLUDED, Exclusions, Kit, install, key_of
from colonnade.sites.processes import kit_processes

KEY_BITS = 3072
_PUBLIC_EXPONENT = 65537


def _keys() -> tuple[rsa.RSAPrivateKey, rsa.RSAPublicKey]:
    key = rsa.generate_private_key(public_exponent=_PUBLIC_EXPONENT, key_size=KEY_BITS)
    return key, key.public_key()


def _certificate(*arguments: Any, **named: Any) -> Any:
    """FLARE's certificate, of which a server's is good for answering and every other one for calling."""
    if not named.get("ca"):
        server = named.get("server_default_host")
        use = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        extensions = named.get("extra_extensions") or []
        others = [item for item in extensions if not isinstance(item[0], x509.ExtendedKeyUsage)]
        named["extra_extensions"] = [*others, (x509.ExtendedKeyUsage([use]), False)]
    return _flares_certificate(*arguments, **named)


_flares_certificate = utils.generate_cert

if __name__ == "__main__":
    for module in (utils, cert, cert_commands):
        module.generate_keys, module.generate_cert = _keys, _certificate
    cli.main()


ADMIN = "admin@colonnade.local"
ADMINISTRATORS = "administrators"
INVITATION = "invitation.json"
# Its handshakes are of no consequence to others: with FLARE's "tcp" a connection that says nothing keeps the server
# from accepting anybody.
SCHEME = "grpc"
_SCHEMES = (SCHEME, "tcp")
_VALID_DAYS = 3650
_PROFILE = "profile.yml"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
# A certificate's common name has no more letters.
MAX_HOST = 64
_HOST = re.compile(rf"[A-Za-z0-9][A-Za-z0-9.-]{{0,{MAX_HOST - 1}}}")
_BUILDERS: dict[str, dict[str, Any]] = {
    "workspace.WorkspaceBuilder": {"template_file": ["master_template.yml"]},
    "static_file.StaticFileBuilder": {"config_folder": "config", "scheme": SCHEME},
    "cert.CertBuilder": {"root_valid_days": _VALID_DAYS},
    "signature.SignatureBuilder": {},
}


@dataclass(frozen=True)
class Invitation:
    """What a party must know to ask for a kit. None of it is secret; `root` is to be compared by another way."""

    federation: str
    host: str
    port: int
    root: str
    scheme: str = SCHEME
    submission: Literal["one", "two"] = "one"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.federation):
            raise InputError(
                f"{self.federation!r} is not a valid name for a federation: use a to z, digits and _, a letter first."
            )
        if not _HOST.fullmatch(self.host):
            raise InputError(
                f"{self.host[:MAX_HOST]!r} is not a valid name of a server: use letters, digits, points and hyphens, "
                f"at most {MAX_HOST} of them, such as server.example.org."
            )
        if not 0 < self.port < 1 << 16:
            raise InputError(f"port {self.port} does not exist; ports are 1 to 65535.")
        if self.scheme not in _SCHEMES:
            raise InputError(
                f"{self.scheme!r} is not a known way to reach a server; take one of {', '.join(_SCHEMES)}."
            )

    @classmethod
    def load(cls, path: Path) -> Invitation:
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            invitation = cls(**fields)
        except FileNotFoundError:
            raise KitError(f"{path} does not exist. Ask whoever made the federation for it.") from None
        except (ValueError, KeyError, TypeError):
            raise KitError(f"{path} is not an invitation to a federation. Ask for it again.") from None
        if "scheme" not in fields:
            raise KitError(
                f"{path} is of a federation of an earlier version of Colonnade. Whoever made it makes it again with "
                "`colonnade federation new`."
            )
        return invitation

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @property
    def own_members(self) -> dict[str, dict[str, Any]]:
        ports = {"fed_learn_port": self.port, "admin_port": self.port}
        server = {"name": self.host, "type": "server", "org": "organiser", **ports}
        return {"server": server, "admin": _administrator(ADMIN, "lead")}


def _administrator(name: str, role: str) -> dict[str, Any]:
    return {"name": name, "type": "admin", "role": role, "org": "organiser"}


def create_federation(
    folder: Path, federation: str, *, host: str, port: int, submission: Literal["one", "two"] = "one"
) -> Invitation:
    draft = Invitation(federation, host, port, "")
    root, profile = folder / "root", folder / _PROFILE
    folder.mkdir(parents=True, exist_ok=True)
    server = {"host": host, "fed_learn_port": port, "admin_port": port}
    described = {"name": federation, "scheme": draft.scheme, "connection_security": "mtls", "server": server}
    profile.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    _flare(folder, "cert", "init", "--profile", profile, "-o", root, "--valid-days", _VALID_DAYS)
    invitation = replace(draft, root=fingerprint(Trust.load(root / "rootCA.pem").root), submission=submission)
    invitation.save(folder / INVITATION)
    for name, member in invitation.own_members.items():
        with _issued(folder, invitation, member) as (signed, requested):
            make_kit(signed, requested, folder / name, root=invitation.root)
    return invitation


@contextmanager
def _issued(
    folder: Path, invitation: Invitation, described: Mapping[str, Any]
) -> Iterator[tuple[Path, Path]]:
    """The signed answer and the request of a member whose key is made here, by the holder of the root."""
    with tempfile.TemporaryDirectory(dir=folder) as drafts:
        request = ask_for_kit(Path(drafts), invitation, described)
        signed = Path(drafts) / "answer.signed.zip"
        approve(folder, request, signed)
        yield signed, request.parent


def administrator_name(name: str) -> str:
    return f"{name}@{ADMIN.partition('@')[2]}"


def add_administrator(folder: Path, name: str, *, role: str) -> Kit:
    invitation = Invitation.load(folder / INVITATION)
    root = Trust.load(folder / "root" / "rootCA.pem").root
    if Exclusions.load(folder / EXCLUDED, root).since(administrator_name(name)) is not None:
        raise KitError(f"{name} was excluded from this federation. Make the kit under another name.")
    with _issued(folder, invitation, _administrator(administrator_name(name), role)) as (signed, requested):
        return make_kit(signed, requested, folder / ADMINISTRATORS / name, root=invitation.root)


def ask_for_kit(folder: Path, invitation: Invitation, described: Mapping[str, Any]) -> Path:
    """Make a member's key and its request in a folder; returns the request, which is what travels."""
    folder.mkdir(parents=True, exist_ok=True)
    name = str(described["name"])
    with tempfile.TemporaryDirectory() as drafts:
        written = Path(drafts) / "member.yml"
        # JSON is YAML, and needs no library.
        written.write_text(json.dumps({"name": invitation.federation, "participants": [dict(described)]}))
        _flare(folder, "cert", "request", "-p", written, "--out", folder / name)
    return folder / name / f"{name}.request.zip"


def approve(folder: Path, request: Path, signed: Path) -> None:
    if not (folder / "root" / "rootCA.key").exists():
        raise KitError(f"{folder} has no root/rootCA.key: only whoever made the federation can approve.")
    named = ("-c", folder / "root", "--profile", folder / _PROFILE, "--out", signed)
    _flare(folder, "cert", "approve", request, *named)


@dataclass(frozen=True)
class CertificateRequest:
    """What a request asks for: a certificate in this name, of this kind, for the key with this fingerprint."""

    name: str
    kind: str
    key: str

    @classmethod
    def load(cls, request: Path) -> CertificateRequest:
        """What the request in a file asks for, as the part of it says that would be signed."""
        try:
            with zipfile.ZipFile(request) as parts:
                (file,) = [name for name in parts.namelist() if name.endswith(".csr")]
                request_file = x509.load_pem_x509_csr(parts.read(file))
            (name,) = request_file.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            (kind,) = request_file.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
        except FileNotFoundError:
            raise KitError(f"{request} does not exist. Ask the party for its request.") from None
        except (ValueError, zipfile.BadZipFile):
            raise KitError(
                f"{request} is not a request for a certificate. Ask the party for it again."
            ) from None
        return cls(str(name.value), str(kind.value), key_of(request_file))


def approve_party(
    folder: Path, request: Path, signed: Path, *, key: str, renews: bool = False
) -> CertificateRequest:
    """Issue a party's certificate and nothing else; `key` is the fingerprint that it told by another way."""
    requested = CertificateRequest.load(request)
    if requested.kind != "client" or not requested.name.isidentifier():
        raise KitError(
            f"{request} asks for a certificate in the name of {requested.name!r} as {requested.kind!r}, and only "
            "parties are approved here. Nothing was issued; find out who sent it."
        )
    invitation = folder / INVITATION
    if invitation.exists() and requested.name.lower() == Invitation.load(invitation).host.lower():
        # Members know each other by name alone, whatever kind of member a certificate is for.
        raise KitError(
            f"{request} asks for a certificate in the name of {requested.name!r}, which is the server's, and would be "
            "taken for it. Nothing was issued; find out who sent it."
        )
    if key and key != requested.key:
        raise KitError(
            f"{request}: the key in it is not the one whose fingerprint you were told, so somebody exchanged the "
            "request on its way. Nothing was issued."
        )
    kept = folder / "root" / "approved.json"
    approved = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if renews and not key:
        raise KitError(
            f"--fingerprint: {requested.name} asks for a second certificate, and whoever else asked in its name "
            "would get it. Ask by telephone for the key's fingerprint, and give it here. Nothing was issued."
        )
    if not renews and approved.get(requested.name, requested.key) != requested.key:
        raise KitError(
            f"{requested.name} has a certificate for another key, and could then be two. If it asked for a "
            "renewal, add --renews; if it lost that key, run `colonnade federation exclude --lost-key` first. Nothing "
            "was issued."
        )
    approve(folder, request, signed)
    kept.write_text(
        json.dumps({**approved, requested.name: requested.key}, indent=1) + "\n", encoding="utf-8"
    )
    return requested


def make_kit(signed: Path, requested: Path, kit: Path, *, root: str) -> Kit:
    with tempfile.TemporaryDirectory() as drafts:
        named = ("--request-dir", requested, "-w", Path(drafts), "--fingerprint", root)
        _flare(requested, "package", signed, *named)
        (package,) = [path.parent for path in Path(drafts).glob("*/*/*/startup")]
        shutil.copytree(package, kit)
    finished = Kit.load(kit)
    finished.harden()
    return finished


def all_kits(
    folder: Path, federation: str, parties: Sequence[str], *, host: str, port: int
) -> tuple[Invitation, dict[str, Kit]]:
    """Every kit of a federation on one machine: server, admin and parties. All keys are made here."""
    invitation = Invitation(federation, host, port, "")
    own = invitation.own_members
    clients = ({"name": party, "type": "client", "org": party} for party in parties)
    members = [own["server"], *clients, own["admin"]]
    builders = [{"path": f"nvflare.lighter.impl.{name}", "args": given} for name, given in _BUILDERS.items()]
    project = {"api_version": 3, "name": federation, "participants": members, "builders": builders}
    with tempfile.TemporaryDirectory() as drafts:
        written = Path(drafts) / "project.yml"
        written.write_text(json.dumps(project))
        _flare(folder, "provision", "-p", written, "-w", Path(drafts) / "made")
        workspace = Path(drafts) / "made" / federation
        for name, source in (("server", host), ("admin", ADMIN), *((party, party) for party in parties)):
            shutil.copytree(workspace / "prod_00" / source, folder / name)
        (folder / "root").mkdir()
        state = json.loads((workspace / "state" / "cert.json").read_text())
        (folder / "root" / "rootCA.pem").write_text(state["root_cert"])
    kits = {name: Kit.load(folder / name) for name in ("server", "admin", *parties)}
    for kit in kits.values():
        kit.harden()
    invitation = replace(invitation, root=fingerprint(Trust.load(folder / "root" / "rootCA.pem").root))
    invitation.save(folder / INVITATION)
    return invitation, kits


def _flare(folder: Path, *arguments: object) -> None:
    # FLARE writes an audit trail to the home of whoever runs it; it belongs to the federation.
    audit = folder / "audit"
    audit.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "colonnade.sites.provision", *map(str, arguments)],
        env={**os.environ, "HOME": str(audit)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise KitError(f"FLARE refused `nvflare {arguments[0]}`: {' '.join(said[-6:])}")


REQUESTED = "renewal"
BEFORE = "startup.before"


def ask_to_renew(kit: Kit) -> Path:
    """Make a new key for a party's kit, in the kit, and the request for its certificate, which is what travels."""
    if kit.kind != "party":
        raise KitError(
            f"{kit.path} is the {kit.kind}'s kit, which whoever made the federation renews: name its folder."
        )
    folder = kit.path / REQUESTED
    if folder.exists():
        raise KitError(
            f"{folder} exists already: a renewal was asked for. Remove it to ask again with a new key."
        )
    name = kit.identity().name
    host, port = kit.address
    invitation = Invitation(str(kit.startup["servers"][0]["name"]), host, port, "")
    return ask_for_kit(folder, invitation, {"name": name, "type": "client", "org": name})


def renew(kit: Kit, signed: Path, requested: Path) -> Kit:
    """Exchange a kit's certificate and key for those of a signed answer; the former key is destroyed."""
    if running := kit_processes(kit):
        raise KitError(
            f"{kit.path} runs (process {', '.join(str(process.pid) for process in running)}). End it, renew, start it."
        )
    root, name = kit.trust().root, kit.identity().name
    with tempfile.TemporaryDirectory(dir=kit.path) as drafts:
        new_kit = make_kit(signed, requested, Path(drafts) / "kit", root=fingerprint(root))
        if new_kit.identity().name != name or new_kit.kind != kit.kind:
            raise KitError(
                f"{signed} is for {new_kit.identity().name!r}, and this kit is {name!r}'s. Ask for its own."
            )
        destroy_keys(kit.path / BEFORE)
        (kit.path / "startup").rename(kit.path / BEFORE)
        (new_kit.path / "startup").rename(kit.path / "startup")
    destroy_keys(kit.path / BEFORE)
    shutil.rmtree(requested, ignore_errors=True)
    return Kit.load(kit.path)


def destroy_keys(folder: Path) -> None:
    """Remove a folder whose certificate was renewed; its key, which is good until that ends, is written over first."""
    for path in folder.glob("*.key"):
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
    shutil.rmtree(folder, ignore_errors=True)


def renew_own(folder: Path) -> tuple[Kit, ...]:
    invitation = Invitation.load(folder / INVITATION)
    renewed = []
    for place, member in invitation.own_members.items():
        with _issued(folder, invitation, member) as (signed, requested):
            renewed.append(renew(Kit.load(folder / place), signed, requested))
    return tuple(renewed)


def exclude(folder: Path, name: str, *, lost_key: bool = False) -> Exclusions:
    """Put a member, or with `lost_key` the key that a party lost, on the federation's list and into kits here."""
    pem, key = folder / "root" / "rootCA.pem", folder / "root" / "rootCA.key"
    if not key.exists():
        raise KitError(f"{folder} has no root/rootCA.key: only whoever made the federation can exclude.")
    root = Identity.load(pem, key)
    kept = folder / "root" / "approved.json"
    approved = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if lost_key and name not in approved:
        raise KitError(f"{kept} has no key of {name!r}. Leave out --lost-key to exclude the name itself.")
    path = folder / EXCLUDED
    exclusions = Exclusions.load(path, root.certificate).with_one_more(
        name, approved[name] if lost_key else ""
    )
    exclusions.save(path, root)
    if lost_key:
        del approved[name]
        kept.write_text(json.dumps(approved, indent=1) + "\n", encoding="utf-8")
    for place in ("server", "admin"):
        if (folder / place / "local").is_dir():
            install(folder / place, path, root.certificate)
    return exclusions
