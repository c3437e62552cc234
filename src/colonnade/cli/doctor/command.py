"""`colonnade doctor`: look an installation, a job's files or a kit over before a run finds what is wrong with it."""

from __future__ import annotations

import datetime
import shutil
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.doctor.findings import Finding
from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json
from colonnade.errors import ColonnadeError, InputError

if TYPE_CHECKING:
    from colonnade.runtime.kit import Kit

SOON = datetime.timedelta(days=30)
LEAST_DISK = 1 << 30
WIDTH = 18
EXAMPLE = """
Nothing is run, released or charged. Rows are checked against their schema as a job would; a ledger's chain of hashes
is gone through.

Examples:

  colonnade doctor

  colonnade doctor demo-run/job.toml

  colonnade doctor bank/kit
"""


def doctor(
    target: Path | None = typer.Argument(
        None,
        metavar="[KIT|JOB]",
        help="A party's, the server's or an administrator's kit; or a job (TOML). Without it, this installation.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Say what is wrong with this installation, with a job's files or with a kit, and what to do about it."""
    findings = []
    for finding in _findings(target):
        findings.append(finding)
        if not as_json:
            mark = "PROBLEM" if not finding.fine else "LOOK" if finding.doubtful else "ok"
            say(f"{mark:<7}  {finding.what:<{WIDTH}} {finding.found}")
            if finding.remedy and not finding.fine:
                say(f"{'':{WIDTH + 10}}{finding.remedy}")
    fine = all(finding.fine for finding in findings)
    if as_json:
        looked_at = None if target is None else str(target)
        say_json({"target": looked_at, "fine": fine, "findings": [asdict(finding) for finding in findings]})
    if not fine:
        raise typer.Exit(InputError.exit_code)


doctor.__doc__ = f"{doctor.__doc__}\n{EXAMPLE}"


def _findings(target: Path | None) -> Iterator[Finding]:
    if target is None:
        from colonnade.cli.doctor.installation import examine_installation

        return examine_installation()
    if target.is_file() or target.suffix == ".toml":
        from colonnade.cli.doctor.job_files import examine_job

        return examine_job(target)
    from colonnade.runtime.kit import Kit

    return examine(Kit.load(target))


def examine(kit: Kit, among: Sequence[str] = ()) -> Iterator[Finding]:
    """Everything that can be looked at from here, or what is `among` it, one after the other."""
    for what, look in (
        ("versions", _versions),
        ("clock", _clock),
        ("certificate", _certificate),
        ("key", _key),
        ("rights", _rights),
        ("server", _server),
        ("files", _files),
        ("policy", _policy),
        ("ledger", _ledger),
        ("disk", _disk),
    ):
        if among and what not in among:
            continue
        look_at: Callable[[str, Any], Finding] = look
        try:
            yield look_at(what, kit)
        except ColonnadeError as error:
            yield Finding(what, False, str(error))
        except OSError as error:
            yield Finding(what, False, f"{error.filename or kit.path}: {error.strerror or error}")


def _versions(what: str, _kit: Kit) -> Finding:
    import nvflare

    from colonnade import __version__
    from colonnade.cli.doctor.installation import needs

    found = f"colonnade {__version__}, nvflare {nvflare.__version__}"
    remedy = "Install a release that is tested: pip install 'colonnade[flare]'."
    return Finding(what, all(need.fits(nvflare.__version__) for need in needs("flare")), found, remedy)


def _clock(what: str, kit: Kit) -> Finding:
    """No clock is right that is before what it has written itself."""
    now = datetime.datetime.now(datetime.UTC)
    issued = kit.identity().certificate.not_valid_before_utc
    written = _last_written(kit)
    found = f"{now:%Y-%m-%d %H:%M} UTC; the certificate is of {issued:%Y-%m-%d}"
    if written is not None and written > now:
        found = f"{found}, and the ledger's last entry of {written:%Y-%m-%d %H:%M}"
    fine = now >= issued and (written is None or now >= written)
    return Finding(what, fine, found, "Set the clock: certificates are refused by the wrong time.")


def _last_written(kit: Kit) -> datetime.datetime | None:
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    try:
        path = PartyFile.load(kit.site()["party"]).ledger
        return datetime.datetime.fromisoformat(Ledger.open(path).entries()[-1].time)
    except (KeyError, ColonnadeError):
        # Whatever is wrong with these files is told of the files.
        return None


def _certificate(what: str, kit: Kit) -> Finding:
    from colonnade.runtime.identity import NotTrusted, fingerprint

    identity = kit.identity()
    name = identity.name
    try:
        certificate = kit.trust().certificate(identity.to_bytes(), name)
    except NotTrusted as error:
        return Finding(what, False, f"{name}: {error}", "Ask for a new one: `colonnade federation join`.")
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    found = f"{name}, valid for {left.days} days, fingerprint {fingerprint(certificate)}"
    return Finding(what, left > SOON, found, "It ends soon. Ask for a new one: `colonnade federation join`.")


def _key(what: str, kit: Kit) -> Finding:
    stem = "server" if kit.kind == "server" else "client"
    path = kit.path / "startup" / f"{stem}.key"
    shared = path.stat().st_mode & 0o077
    found = f"{path} can be read by {'others too' if shared else 'its owner only'}"
    return Finding(what, not shared, found, f"chmod 600 {path}")


def _rights(what: str, kit: Kit) -> Finding:
    """Whether a kit still forbids what `Kit.harden` forbade."""
    import json

    from colonnade.runtime.kit import COORDINATOR, MEMBER

    if kit.kind == "admin":
        return Finding(what, True, "an administrator's kit runs no jobs")
    local = kit.path / "local"
    resources = json.loads((local / "resources.json").read_text(encoding="utf-8"))
    roles = json.loads((local / "authorization.json").read_text(encoding="utf-8"))["permissions"].values()
    wanted = [COORDINATOR if kit.kind == "server" else MEMBER]
    closed = all(
        isinstance(role, dict) and role.get(right, "none") == "none"
        for role in roles
        for right in ("byoc", "shell_commands")
    )
    fine = closed and resources["class_allow_list"] == wanted
    fine = fine and resources["class_list_enforcement_mode"] == "enforce"
    found = (
        "no code with jobs, no foreign class, no shell"
        if fine
        else f"{local} permits more than Colonnade needs"
    )
    return Finding(
        what, fine, found, "Make the kit again, or put resources.json and authorization.json back."
    )


def _server(what: str, kit: Kit) -> Finding:
    from colonnade.runtime.operations import answers

    host, port = kit.address
    if kit.kind == "server":
        taken = answers(kit.address)
        found = f"port {port} {'is in use: this server runs, or something else does' if taken else 'is free'}"
        return Finding(what, True, found)
    if not answers(kit.address, timeout=5.0):
        remedy = "Ask whether the server was started, and whether a firewall lets you through to that port."
        return Finding(what, False, f"nothing answers at {host}:{port}", remedy)
    startup, stem = kit.path / "startup", "client"
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.load_cert_chain(startup / f"{stem}.crt", startup / f"{stem}.key")
    import socket

    try:
        with (
            socket.create_connection(kit.address, 5.0) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return Finding(
                what, True, f"{host}:{port} answers and proves itself under this federation's root"
            )
    except ssl.SSLError as error:
        remedy = "Compare the clocks, then the roots: `openssl x509 -in startup/rootCA.pem -noout -dates -fingerprint`."
        return Finding(
            what,
            False,
            f"{host}:{port} answers, but not as this federation's server ({error.reason})",
            remedy,
        )


def _files(what: str, kit: Kit) -> Finding:
    from colonnade.cli.federation.party_site import check_site

    if kit.kind != "party":
        return Finding(what, True, "this kit needs none")
    check_site(kit, kit.site())
    return Finding(what, True, f"{kit.site()['party']} and {kit.site()['policy']} are in order")


def _policy(what: str, kit: Kit) -> Finding:
    from colonnade.federation.policy import Policy

    if kit.kind != "party" or "policy" not in kit.site():
        return Finding(what, True, "this kit needs none" if kit.kind != "party" else "no policy is known yet")
    try:
        return Finding(what, True, Policy.load(kit.site()["policy"]).words)
    except ColonnadeError:
        # What is wrong with it stands with the files.
        return Finding(what, True, "it cannot be read")


def _ledger(what: str, kit: Kit) -> Finding:
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    if kit.kind != "party" or "party" not in kit.site():
        return Finding(
            what, True, "this kit charges nothing" if kit.kind != "party" else "no party file is known yet"
        )
    path = PartyFile.load(kit.site()["party"]).ledger
    if not path.exists():
        return Finding(what, True, f"{path} is made by the first run", doubtful=True)
    verified = Ledger.open(path).verify([])
    return Finding(what, True, f"{path}: {verified.entries} entries, their chain is in order")


def _disk(what: str, kit: Kit) -> Finding:
    free = shutil.disk_usage(kit.path).free
    return Finding(
        what, free >= LEAST_DISK, f"{free >> 20} MB are free", f"Make room: {LEAST_DISK >> 20} MB at least."
    )
