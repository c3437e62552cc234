"""What a party's kit is told of its own files, and whether they are in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colonnade.errors import InputError, KitError, PartyMismatch


def site_facts(
    kit: Any,
    *,
    party: Path | None,
    policy: Path | None,
    score: Path | None = None,
    pins: list[str],
    noise_seed: int | None,
) -> dict[str, Any]:
    """What the kit is told: what was given now, and of what was given before the rest."""
    from colonnade.runtime.identity import plain_fingerprint

    site = {key: value for key, value in kit.site().items() if key != "noise_seed"}
    for name, path in (("party", party), ("policy", policy), ("score", score)):
        if path is not None:
            site[name] = str(path.resolve())
    for text in pins:
        peer, equals, fingerprint = text.partition("=")
        if not equals:
            raise InputError(f"--pin: found {text!r}; write NAME=FINGERPRINT.")
        site.setdefault("pins", {})[peer] = plain_fingerprint(fingerprint)
    if noise_seed is not None:
        site["noise_seed"] = noise_seed
    return site


def check_site(kit: Any, site: Mapping[str, Any]) -> None:
    """Find what is wrong with a party's files before a job does, and before a kit remembers them."""
    from colonnade.federation.party_file import PartyFile
    from colonnade.federation.policy import Policy

    for name in ("party", "policy"):
        if name not in site:
            raise KitError(f"{kit.path} does not know the {name} file yet. Give it with --{name}.")
    Policy.load(site["policy"])
    for name in ("party", "score"):
        if name not in site:
            continue
        file = PartyFile.load(site[name])
        if file.party != kit.identity().name:
            raise PartyMismatch(
                f"{file.path}, party: found {file.party!r}, but this kit is {kit.identity().name!r}'s. Give the "
                "party's own file and kit."
            )
        file.table()
