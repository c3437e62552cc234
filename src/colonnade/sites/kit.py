"""A member's kit: its certificate, its key and what its FLARE process may do; who is excluded, and who vouches."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from colonnade.errors import InputError, KitError
from colonnade.federation.files import write_whole
from colonnade.runtime.identity import Identity, NotTrusted, Trust

EXCLUDED = "excluded.json"
_FORMAT = 1
_PURPOSE = b"colonnade exclusions"
_EVERY_KEY = ""


def key_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """SHA-256 of a certificate's public key: it stays the same if the certificate is made out anew for that key."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


@dataclass(frozen=True)
class Exclusions:
    """The names and keys that are excluded, since when; `number` grows with every list."""

    number: int = 0
    entries: tuple[tuple[str, str, str], ...] = ()

    def since(self, name: str, key: str = _EVERY_KEY) -> str | None:
        """Since when a name, with whatever key or with this one, is excluded; None if it is not."""
        for excluded, which, when in self.entries:
            if excluded == name and which in (_EVERY_KEY, key):
                return when
        return None

    def check(self, certificate: x509.Certificate, name: str) -> None:
        when = self.since(name, key_of(certificate))
        if when is not None:
            raise NotTrusted(f"{name!r} was excluded from this federation on {when[:10]}")

    def with_one_more(self, name: str, key: str = _EVERY_KEY) -> Exclusions:
        today = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return Exclusions(self.number + 1, (*self.entries, (name, key, today)))

    @property
    def statement(self) -> bytes:
        return _PURPOSE + json.dumps(self._to_data(), sort_keys=True, separators=(",", ":")).encode()

    def _to_data(self) -> dict[str, Any]:
        entries = [{"name": name, "key": key, "since": since} for name, key, since in self.entries]
        return {"format": _FORMAT, "number": self.number, "excluded": entries}

    def save(self, path: Path, root: Identity) -> None:
        signed = {**self._to_data(), "signature": root.sign(self.statement).hex()}
        write_whole(path, json.dumps(signed, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path, root: x509.Certificate) -> Exclusions:
        """The list in a file, if this root signed it; an empty one if there is no file."""
        if not path.exists():
            return cls()
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT or type(data["number"]) is not int:
                raise ValueError("not a list of exclusions")
            entries = tuple(
                (str(one["name"]), str(one["key"]), str(one["since"])) for one in data["excluded"]
            )
            exclusions = cls(data["number"], entries)
            Trust(root).check_signature(root, exclusions.statement, bytes.fromhex(data["signature"]))
        except (ValueError, KeyError, TypeError, NotTrusted):
            raise KitError(
                f"{path} is not a list of exclusions that this federation's root signed. Ask whoever made the "
                "federation for it; until then nobody is trusted here."
            ) from None
        return exclusions


def install(kit: Path, given: Path, root: x509.Certificate) -> Exclusions:
    """Take a list into a kit, if its root signed it and it is not older than the one that is there."""
    if not given.exists():
        raise KitError(f"{given} does not exist. Name the list of exclusions that you were sent.")
    newer, known = Exclusions.load(given, root), Exclusions.load(kit / "local" / EXCLUDED, root)
    if newer.number < known.number:
        raise KitError(
            f"{given} is list {newer.number}, and {kit} has list {known.number}: an older one would let somebody in "
            "again. Ask for the newest."
        )
    write_whole(kit / "local" / EXCLUDED, given.read_bytes())
    return newer


#: What is signed is said by a scheme, a key or certificate and a value, in order of their names.
Signature = tuple[tuple[str, str], ...]


def vouch(identity: Identity, statement: bytes, *, purpose: str, scheme: str) -> Signature:
    fields = {
        "scheme": scheme,
        "certificate": base64.b64encode(identity.to_bytes()).decode(),
        "value": identity.sign(purpose.encode() + statement).hex(),
    }
    return tuple(sorted(fields.items()))


def check_vouched(
    signature: Signature,
    statement: bytes,
    *,
    purpose: str,
    name: str,
    trust: Trust,
    when_issued: bool = False,
) -> x509.Certificate:
    """Whose certificate signed this as `name`, or `NotTrusted`; `when_issued` takes one that has ended since."""
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


#: The two classes that a job may name; both are part of the installed package.
COORDINATOR = "colonnade.sites.remote.Coordinator"
MEMBER = "colonnade.sites.remote.Member"
#: What FLARE loads with a member's process, by the kind of its kit; no job can name it.
COMPONENTS = {
    "server": "colonnade.sites.presence.DuplicateKitGuard",
    "party": "colonnade.sites.presence.KitHeartbeat",
}
#: What starts the process of a job, in place of FLARE's.
LAUNCHERS = {
    "server": "colonnade.sites.processes.ServerLauncher",
    "party": "colonnade.sites.processes.PartyLauncher",
}

Kind = Literal["server", "party", "admin"]
_FILES: Mapping[str, Kind] = {
    "fed_server.json": "server",
    "fed_client.json": "party",
    "fed_admin.json": "admin",
}
SITE_FILE = "colonnade.json"
RUNS = "runs"
#: Where a server keeps the jobs that were submitted, and what the administrator may see of them.
JOBS = "jobs"
# What an administrator may ask of a site. Shell commands would let whoever administrates the federation read a
# party's files, and code in a job would run with a party's data.
_RIGHTS = {
    **dict.fromkeys(("submit_job", "manage_job", "download_job", "view"), "any"),
    **dict.fromkeys(("clone_job", "shell_commands", "byoc", "server-predeployed-flwr"), "none"),
    "operate": "o:site",
}
# By FLARE's name of a role; whoever may submit may stop, and whoever may stop may look.
_ROLES = {
    "project_admin": _RIGHTS,
    "lead": _RIGHTS,
    "org_admin": {**dict.fromkeys(_RIGHTS, "none"), "manage_job": "any", "view": "any"},
    "member": {"view": "any"},
}
#: What an administrator may do, with FLARE's name of the role.
MAY = {"submit": "lead", "stop": "org_admin", "view": "member"}
#: Roles, as a certificate names them, whose holders may submit jobs.
SUBMITS = frozenset(role for role, rights in _ROLES.items() if rights.get("submit_job") == "any")


@dataclass(frozen=True)
class Kit:
    """A kit in a folder, as `federation join` or `federation new` made it."""

    path: Path
    kind: Kind
    startup: Mapping[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> Kit:
        path = Path(path).resolve()
        for file, kind in _FILES.items():
            file_of_kind = path / "startup" / file
            if file_of_kind.exists():
                try:
                    kit = cls(path, kind, json.loads(file_of_kind.read_text(encoding="utf-8")))
                    _ = kit.address
                    kit._refuse_earlier()
                    return kit
                except (ValueError, KeyError, TypeError, IndexError, RecursionError):
                    raise KitError(
                        f"{file_of_kind} is damaged. Make the kit again with `colonnade federation join`."
                    ) from None
        raise KitError(
            f"{path} is not a kit: it has no startup/fed_client.json, fed_server.json or fed_admin.json. Name the "
            "folder that `colonnade federation new` or `colonnade federation join` made."
        )

    def _refuse_earlier(self) -> None:
        path = self.path / "local" / "resources.json"
        if self.kind == "admin" or not path.exists():
            return
        resources = json.loads(path.read_text(encoding="utf-8"))
        named = [
            *resources.get("class_allow_list", ()),
            *(item.get("path", "") for item in resources.get("components", ())),
        ]
        known = (COORDINATOR, MEMBER, *COMPONENTS.values(), *LAUNCHERS.values())
        earlier = [name for name in named if name.startswith("colonnade.") and name not in known]
        if earlier:
            verb = "new" if self.kind == "server" else "join"
            raise KitError(
                f"{self.path} is a kit of an earlier version of Colonnade: it names {earlier[0]}. Move it away, and "
                f"make the kit again with `colonnade federation {verb}`."
            )

    def identity(self) -> Identity:
        stem = "server" if self.kind == "server" else "client"
        return Identity.load(self.path / "startup" / f"{stem}.crt", self.path / "startup" / f"{stem}.key")

    def trust(self) -> Trust:
        """The root that this kit was issued under, with the pins of its own site file and who is excluded."""
        trust = Trust.load(self.path / "startup" / "rootCA.pem", self.site().get("pins"))
        return replace(trust, excludes=self.exclusions(trust).check)

    def exclusions(self, trust: Trust | None = None) -> Exclusions:
        trusted = trust or Trust.load(self.path / "startup" / "rootCA.pem")
        return Exclusions.load(self.path / "local" / EXCLUDED, trusted.root)

    @property
    def server(self) -> str:
        if self.kind == "server":
            return self.identity().name
        if self.kind == "admin":
            return str(self.startup["admin"]["server_identity"])
        return str(self.startup["servers"][0]["identity"])

    @property
    def address(self) -> tuple[str, int]:
        if self.kind == "admin":
            return str(self.startup["admin"]["host"]), int(self.startup["admin"]["port"])
        host, _, port = str(self.startup["servers"][0]["service"]["target"]).rpartition(":")
        return host, int(port)

    def site(self) -> dict[str, Any]:
        path = self.path / "local" / SITE_FILE
        if not path.exists():
            return {}
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise KitError(f"{path} is not JSON. `colonnade party start` writes it anew.") from None
        return facts if isinstance(facts, dict) else {}

    def tell_site(self, facts: Mapping[str, Any]) -> None:
        text = json.dumps(dict(facts), indent=1, ensure_ascii=False)
        (self.path / "local" / SITE_FILE).write_text(text + "\n", encoding="utf-8")

    @property
    def runs(self) -> Path:
        return self.path / RUNS

    def run_folder(self, job: str) -> Path:
        """Where this member keeps what came of a job. A name that leads elsewhere is not a job's."""
        if not re.fullmatch(r"[A-Za-z0-9_-]+", job):
            raise InputError(f"{job!r} is not the id of a job: those have letters, digits, _ and - only.")
        return self.runs / job

    def harden(self) -> None:
        local = self.path / "local"
        if self.kind == "admin":
            return
        resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
        resources |= {
            "class_list_enforcement_mode": "enforce",
            "class_allow_list": [COORDINATOR if self.kind == "server" else MEMBER],
            "allow_log_streaming": False,
        }
        # Logs of a party's process stay with the party.
        streamers = ("site_log_streamer", "log_receiver")
        own = {"colonnade_presence": COMPONENTS[self.kind], "process_launcher": LAUNCHERS[self.kind]}
        resources["components"] = [
            *(item for item in resources["components"] if item["id"] not in (*streamers, *own)),
            *({"id": name, "path": path, "args": {}} for name, path in own.items()),
        ]
        if self.kind == "server":
            # Jobs and snapshots stay in the kit's own folder instead of a temporary one that everybody may read.
            resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(
                self.path / "snapshots"
            )
            for item in resources["components"]:
                if item["id"] == "job_manager":
                    item["args"]["uri_root"] = str(self.path / JOBS)
        authorization = {"format_version": "1.0", "permissions": _ROLES}
        for name, content in (("resources", resources), ("authorization", authorization)):
            (local / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
