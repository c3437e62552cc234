"""`colonnade party`: run this organisation's part of a federation."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.federation.party_health import clean, health
from colonnade.cli.federation.party_requests import (
    approve,
    approver,
    decline,
    requests,
)
from colonnade.cli.federation.party_site import check_site, site_facts
from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import note, say, say_json
from colonnade.errors import InputError, KitError

GLANCE_SECONDS = 0.2
LOOK_SECONDS = 10.0
ANSWER_SECONDS = 3.0
ATTEMPTS = 3
app = typer.Typer(
    help="Run this organisation's part of a federation on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


for _name, _verb in (
    ("health", health),
    ("clean", clean),
    ("requests", requests),
    ("approve", approve),
    ("decline", decline),
    ("approver", approver),
):
    app.command(_name)(_verb)


@app.callback()
def _verbs() -> None:
    """Run this organisation's part of a federation on this machine."""


@app.command("start")
def start(
    kit: Path = typer.Argument(..., metavar="KIT", help="A party's or the server's kit."),
    party: Path | None = typer.Option(None, "--party", metavar="FILE", help="The party's own file (TOML)."),
    policy: Path | None = typer.Option(
        None, "--policy", metavar="FILE", help="What this party agrees to (TOML)."
    ),
    score: Path | None = typer.Option(
        None, "--score", metavar="FILE", help="A party file (TOML) that names the people to score."
    ),
    pin: list[str] = typer.Option(
        [], "--pin", metavar="NAME=FINGERPRINT", help="Accept only this certificate of a peer; repeat."
    ),
    noise_seed: int | None = typer.Option(
        None, "--noise-seed", help="For trying out: repeatable noise, which protects nobody and says so."
    ),
    metrics: int | None = typer.Option(
        None,
        "--metrics",
        metavar="PORT",
        help="Serve /metrics and /healthz on this port, if it is free, on this machine only.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Start a party or the server and keep it running until Ctrl-C.

    Files given once are remembered in the kit. They are checked before anything is started.

    Examples:

      colonnade party start ours/server

      colonnade party start bank/kit --party bank.toml --policy bank/bank.policy.toml
    """
    from colonnade.cli.federation.party_metrics import served_if_free
    from colonnade.runtime.arrival import refusal
    from colonnade.runtime.kit import Kit
    from colonnade.runtime.operations import answers, wait_for_server
    from colonnade.runtime.processes import CONSOLE, check_startable, connected, process_group

    place = Kit.load(kit)
    if place.kind == "admin":
        raise KitError(
            f"{kit} is an administrator's kit, which starts nothing. Name a party's or the server's."
        )
    if place.kind == "server" and (party or policy or score):
        raise InputError(
            f"--party, --policy and --score are for a party's kit, and {kit} is the server's, which holds no data."
        )
    check_startable(place)
    if place.kind == "server" and answers(place.address):
        raise InputError(
            f"port {place.address[1]} is in use by another program. End that one, or make the federation with "
            "another --port."
        )
    if metrics is not None and not 0 <= metrics < 1 << 16:
        raise InputError(f"--metrics: port {metrics} does not exist; ports are 1 to 65535.")
    site = site_facts(place, party=party, policy=policy, score=score, pins=pin, noise_seed=noise_seed)
    if place.kind == "party":
        check_site(place, site)
    place.tell_site(site)
    note_lost(place)
    if place.kind == "party":
        check_way(place)
        wait_for_server(place)
        if why := refusal(place):
            raise KitError(f"{place.path}: {why}.")
    code = 0
    told = contextlib.nullcontext() if metrics is None else served_if_free(place, metrics)
    with contextlib.suppress(KeyboardInterrupt), told, process_group() as begin:
        process = begin(place)
        # Where another copy of this kit is connected, the two take the connection from each other, and FLARE may give
        # up before the server could say so: it is asked again.
        for attempt in range(ATTEMPTS):
            while process.poll() is None and not connected(place):
                time.sleep(GLANCE_SECONDS)
            if process.poll() is None or place.kind == "server" or attempt == ATTEMPTS - 1:
                break
            check_refused(place)
            process = begin(place)
        host, port = place.address
        facts = {"kit": str(place.path), "name": place.identity().name, "process": process.pid}
        if process.poll() is None:
            here = f"listens on port {port}" if place.kind == "server" else f"is connected to {host}:{port}"
            say_json(facts) if as_json else say(f"{facts['name']} {here}. Ctrl-C ends it.")
        code = attend(place, process)
    check_refused(place)
    if code:
        raise KitError(
            f"{place.path}: FLARE's process ended with code {code}. {place.path / CONSOLE} and "
            f"`colonnade doctor {kit}` say more."
        )


def check_way(kit: Any) -> None:
    """Say within seconds what `doctor` would say of the clock, the certificate and the server: FLARE says nothing.

    A server that does not answer yet is waited for; whatever else is wrong stays wrong, and ends this.
    """
    from colonnade.cli.doctor import examine_kit
    from colonnade.runtime.operations import answers

    if not answers(kit.address, timeout=ANSWER_SECONDS):
        host, port = kit.address
        note(
            f"nothing answers at {host}:{port} yet. Waiting for it; `colonnade doctor` says what to look at."
        )
        looks: tuple[str, ...] = ("clock", "certificate")
    else:
        looks = ("clock", "certificate", "server")
    for finding in examine_kit(kit, looks):
        if not finding.fine and finding.remedy.startswith("It ends soon"):
            note(f"{finding.what}: {finding.found}. {finding.remedy}")
        elif not finding.fine:
            raise KitError(f"{kit.path}, {finding.what}: {finding.found}. {finding.remedy}")


def note_lost(kit: Any) -> None:
    """Give every job whose process ended without a word an outcome that says so, and say it here."""
    from colonnade.federation.health import reconcile

    for job in reconcile(kit):
        note(
            f"job {job} had no outcome: its process ended without a word. `colonnade job status` says so now."
        )


def attend(kit: Any, process: Any) -> int:
    """Wait until a member's process ends, or is to end; says meanwhile what the server tells it. Returns its code."""
    from colonnade.runtime.presence import Presence

    said: set[str] = set()
    looked = time.monotonic()
    while process.poll() is None:
        if time.monotonic() - looked > LOOK_SECONDS:
            note_lost(kit)
            looked = time.monotonic()
        presence = Presence.load(kit.path) if kit.kind == "party" else None
        for when in () if presence is None else presence.others:
            if when not in said:
                said.add(when)
                note(
                    f"{when}: somebody started another copy of this kit. It was refused, because this one was there "
                    "first; find out who holds that copy."
                )
        if presence is not None and presence.refused:
            return 0
        time.sleep(GLANCE_SECONDS)
    return int(process.wait())


def check_refused(kit: Any) -> None:
    """Return unless the server told this kit's process that it is not to be there."""
    from colonnade.runtime.presence import Presence

    presence = Presence.load(kit.path) if kit.kind == "party" else None
    if presence is not None and presence.refused:
        raise KitError(f"{kit.path}: {presence.refused}.")
