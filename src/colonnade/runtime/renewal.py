"""Changes to a federation that runs: certificates are renewed and members excluded, and kits stay what they are.

A kit's certificate, key and root lie in its `startup` folder. Renewing exchanges that folder and nothing else: runs,
records, pins and everything that its owner told the kit stay.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from colonnade.errors import KitError
from colonnade.runtime.exclusion import EXCLUDED, Exclusions, install
from colonnade.runtime.identity import Identity, fingerprint
from colonnade.runtime.kit import Kit
from colonnade.runtime.processes import kit_processes
from colonnade.runtime.provision import ADMIN, INVITATION, Invitation, approve, ask_for_kit, make_kit

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
        made = make_kit(signed, requested, Path(drafts) / "kit", root=fingerprint(root))
        if made.identity().name != name or made.kind != kit.kind:
            raise KitError(
                f"{signed} is for {made.identity().name!r}, and this kit is {name!r}'s. Ask for its own."
            )
        destroy_keys(kit.path / BEFORE)
        (kit.path / "startup").rename(kit.path / BEFORE)
        (made.path / "startup").rename(kit.path / "startup")
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
    """Renew the server's and the administrator's kit in a federation's folder, as the holder of its root."""
    invitation = Invitation.load(folder / INVITATION)
    renewed = []
    for place, described in (
        (
            "server",
            {
                "name": invitation.host,
                "type": "server",
                "fed_learn_port": invitation.port,
                "admin_port": invitation.port,
            },
        ),
        ("admin", {"name": ADMIN, "type": "admin", "role": "lead"}),
    ):
        kit = Kit.load(folder / place)
        with tempfile.TemporaryDirectory(dir=folder) as drafts:
            request = ask_for_kit(Path(drafts), invitation, described | {"org": "organiser"})
            signed = Path(drafts) / f"{place}.signed.zip"
            approve(folder, request, signed)
            renewed.append(renew(kit, signed, request.parent))
    return tuple(renewed)


def exclude(folder: Path, name: str, *, lost_key: bool = False) -> Exclusions:
    """Put a member on the federation's list, as the holder of its root, and into the server's kit if it lies here.

    An administrator is named as in its certificate (`administrator_name`). With `lost_key` only the key that was
    approved for a party is excluded, and it may join again with another one.
    """
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
