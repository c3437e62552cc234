"""A member's kit: the folder with its certificate, its key and what its FLARE process may do.

`startup` holds the certificate, the key, the federation's root and the server's address; `local` is the member's own.
Kits forbid what Colonnade does not need: no code with jobs, no class but the two that run a job, no shell commands from
administrators, no log streaming to the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from colonnade.errors import InputError, KitError
from colonnade.runtime.exclusion import EXCLUDED, Exclusions
from colonnade.runtime.identity import Identity, Trust

#: The two classes that a job may name; both are part of the installed package.
COORDINATOR = "colonnade.learn.remote.Coordinator"
MEMBER = "colonnade.learn.remote.Member"
#: What FLARE loads with a member's process, by the kind of its kit; no job can name it.
COMPONENTS = {
    "server": "colonnade.runtime.doorkeeper.Doorkeeper",
    "party": "colonnade.runtime.doorkeeper.Attendant",
}
_PRESENCE = "colonnade_presence"
#: What starts the process of a job, in place of FLARE's.
LAUNCHERS = {
    "server": "colonnade.runtime.launcher.ServerLauncher",
    "party": "colonnade.runtime.launcher.PartyLauncher",
}
_LAUNCHER = "process_launcher"

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
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "any",
    "download_job": "any",
    "view": "any",
    "operate": "o:site",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
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
# Earlier versions wrote this into kits.
_ROLES_BEFORE = {**dict.fromkeys(("project_admin", "org_admin", "lead"), _RIGHTS), "member": {"view": "any"}}


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
                    return kit
                except (ValueError, KeyError, TypeError, IndexError, RecursionError):
                    raise KitError(
                        f"{file_of_kind} is damaged. Make the kit again with `colonnade federation join`."
                    ) from None
        raise KitError(
            f"{path} is no kit: it has no startup/fed_client.json, fed_server.json or fed_admin.json. Name the folder "
            "that `colonnade federation new` or `colonnade federation join` made."
        )

    def identity(self) -> Identity:
        """Who this kit proves its holder to be."""
        stem = "server" if self.kind == "server" else "client"
        return Identity.load(self.path / "startup" / f"{stem}.crt", self.path / "startup" / f"{stem}.key")

    def trust(self) -> Trust:
        """The root that this kit was issued under, with the pins of its own site file and who is excluded."""
        trust = Trust.load(self.path / "startup" / "rootCA.pem", self.site().get("pins"))
        return replace(trust, excludes=self.exclusions(trust).check)

    def exclusions(self, trust: Trust | None = None) -> Exclusions:
        """Who is excluded from the federation, as the newest list that this kit was given says."""
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
        """What the holder of this kit told it: files, pins."""
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
        """Where this member keeps what came of its jobs."""
        return self.path / RUNS

    def run_folder(self, job: str) -> Path:
        """Where this member keeps what came of a job. A name that leads elsewhere is no job's."""
        if not re.fullmatch(r"[A-Za-z0-9_-]+", job):
            raise InputError(f"{job!r} is not the id of a job: those have letters, digits, _ and - only.")
        return self.runs / job

    def harden(self) -> None:
        """Forbid everything that Colonnade does not need, in this kit's own files."""
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
        resources["components"] = [item for item in resources["components"] if item["id"] not in streamers]
        self._add_own(resources["components"])
        if self.kind == "server":
            _keep_inside(resources, self.path)
        authorization = {"format_version": "1.0", "permissions": _ROLES}
        for name, content in (("resources", resources), ("authorization", authorization)):
            (local / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def _add_own(self, components: list[dict[str, Any]]) -> None:
        own = {_PRESENCE: COMPONENTS[self.kind], _LAUNCHER: LAUNCHERS[self.kind]}
        components[:] = [item for item in components if item.get("id") not in own]
        components += [{"id": name, "path": path, "args": {}} for name, path in own.items()]

    def keep_up(self) -> None:
        """Give a kit of an earlier version what kits have since; one that has it stays as it is."""
        path = self.path / "local" / "resources.json"
        if self.kind == "admin" or not path.exists():
            return
        resources = json.loads(path.read_text(encoding="utf-8"))
        before = list(resources.setdefault("components", []))
        self._add_own(resources["components"])
        if resources["components"] != before:
            path.write_text(json.dumps(resources, indent=1) + "\n", encoding="utf-8")
        rights = path.with_name("authorization.json")
        policy = json.loads(rights.read_text(encoding="utf-8")) if rights.exists() else {}
        if policy.get("permissions") == _ROLES_BEFORE:
            rights.write_text(
                json.dumps({**policy, "permissions": _ROLES}, indent=1) + "\n", encoding="utf-8"
            )


def _keep_inside(resources: dict[str, Any], path: Path) -> None:
    """Keep jobs and snapshots in the kit's own folder instead of a temporary one that everybody may read."""
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(path / "snapshots")
    for item in resources["components"]:
        if item["id"] == "job_manager":
            item["args"]["uri_root"] = str(path / JOBS)
