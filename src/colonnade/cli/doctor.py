"""`colonnade doctor`: look an installation, a job's files or a kit over before a run finds what is wrong with it.

The self-tests of an installation take about a second. Those that look at fresh randomness are wrong about a good
machine less often than once in 10¹² times.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import platform
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.screen import Answer, argument, as_json, say
from colonnade.errors import ColonnadeError, InputError, KitError, PartyMismatch

if TYPE_CHECKING:
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger
    from colonnade.sites.kit import Kit
    from colonnade.sites.policy import Policy

SOON = datetime.timedelta(days=30)
WIDTH = 18
EXTRAS = {
    "networks": "neural networks",
    "flare": "federations between machines",
    "postgres": "data in PostgreSQL",
    "onnx": "models as ONNX",
    "board": "the web page of an organisation",
}
# Eight standard deviations.
FAR = 8.0
DRAWS = 20_000


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, what was found, and what to do; of what is `doubtful` its owner alone can tell."""

    what: str
    fine: bool
    found: str
    remedy: str = ""
    doubtful: bool = False


def doctor(
    target: Path | None = argument(
        "[KIT|JOB]",
        "A party's, the server's or an administrator's kit; or a job (TOML). Without it, this installation.",
        None,
    ),
) -> Answer:
    """Say what is wrong with this installation, with a job's files or with a kit, and what to do about it.

    Nothing is run, released or charged. Rows are checked against their schema as a job would; a ledger's chain of
    hashes is gone through.

    Examples:
      colonnade doctor
      colonnade doctor demo-run/job.toml
      colonnade doctor bank/kit
    """
    if target is None:
        looked_at = examine_installation()
    elif target.is_file() or target.suffix == ".toml":
        looked_at = examine_job(target)
    else:
        from colonnade.sites.kit import Kit

        looked_at = examine_kit(Kit.load(target))
    findings = []
    for finding in looked_at:
        findings.append(finding)
        if not as_json():
            mark = "PROBLEM" if not finding.fine else "LOOK" if finding.doubtful else "ok"
            say(f"{mark:<7}  {finding.what:<{WIDTH}} {finding.found}")
            if finding.remedy and not finding.fine:
                say(f"{'':{WIDTH + 10}}{finding.remedy}")
    fine = all(finding.fine for finding in findings)
    data: dict[str, Any] = {"target": None if target is None else str(target), "fine": fine}
    data["findings"] = [asdict(finding) for finding in findings]
    return Answer(data, None, None if fine else typer.Exit(InputError.exit_code))


def examine_installation() -> Iterator[Check]:
    """These packages, and whether they compute right, one after the other."""
    looks: dict[str, Callable[[str], Check]] = {
        **dict.fromkeys(("packages", *EXTRAS), _packages),
        "integers": _integers,
        "randomness": _randomness,
        "noise": _noise,
    }
    for what, look in looks.items():
        try:
            yield look(what)
        except Exception as error:
            # Whatever a broken package raises is what is wrong with it.
            reason = str(error).splitlines()[0] if str(error) else ""
            remedy = "Install Colonnade again in a new environment: pip install colonnade."
            yield Check(what, False, f"it stopped with {type(error).__name__}: {reason}", remedy)


def _packages(what: str) -> Check:
    """A missing extra is not a problem; one of a version that was never tested is."""
    from packaging.requirements import Requirement

    from colonnade import __version__

    requirements = map(Requirement, importlib.metadata.requires("colonnade") or ())
    wrong, versions = {}, []
    for need in requirements:
        if need.marker.evaluate({"extra": what}) if need.marker else what not in EXTRAS:
            try:
                installed = importlib.metadata.version(need.name)
            except importlib.metadata.PackageNotFoundError:
                wrong[f"'{need}'"] = f"{need.name} is not installed"
                continue
            versions.append(f"{need.name} {installed}")
            if not need.specifier.contains(installed, prereleases=True):
                wrong[f"'{need}'"] = f"{need.name}{need.specifier} is needed, and {installed} is installed"
    if what in EXTRAS:
        install = f"pip install 'colonnade[{what}]'"
        if wrong and all(problem.endswith("is not installed") for problem in wrong.values()):
            return Check(what, True, f"not installed; for {EXTRAS[what]}: {install}")
        good = f"{', '.join(versions)}, for {EXTRAS[what]}"
    else:
        install = f"pip install {' '.join(wrong)}"
        python = f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}"
        good = f"colonnade {__version__} and the {len(versions)} packages it needs, {python}"
    return Check(what, not wrong, "; ".join(wrong.values()) or good, install)


def _integers(what: str) -> Check:
    """Products in the field by the compiled loops, and of large numbers by gmpy2, against Python's own integers."""
    import gmpy2
    import numpy as np

    from colonnade.numbers.field import FIELD126

    values = np.arange(-500, 500, dtype=np.int64) * 9_007_199_254
    array = FIELD126.encode(values)
    products = array.multiply(array).decode()
    right = [int(value) ** 2 for value in values] == [int(value) for value in products]
    base, exponent, modulus = 3**200, 5**180, 7**190
    right = right and int(gmpy2.powmod(base, exponent, modulus)) == pow(base, exponent, modulus)
    text = "products in the field and of large numbers are right" if right else "products are wrong"
    return Check(what, right, text, "Install numba, numpy and gmpy2 again; do not use this installation.")


def _randomness(what: str) -> Check:
    """The stream of a known key against its known bytes; fresh bits that are balanced and never the same."""
    import numpy as np

    from colonnade.randomness import KeyedRandomness, SystemRandomness

    # AES-256 in counter mode, key and counter zero: the block cipher of FIPS 197 on an empty block.
    known = KeyedRandomness(bytes(32)).bytes(16).hex() == "dc95c078a2408989ad48a21492842087"
    began = time.perf_counter()
    words = SystemRandomness().words(1 << 20)
    rate = 8 * len(words) / (time.perf_counter() - began) / 1e6
    bits = 64 * len(words)
    balanced = abs(2 * int(np.bitwise_count(words).sum()) - bits) < FAR * math.sqrt(bits)
    fresh = SystemRandomness().bytes(32) != SystemRandomness().bytes(32)
    if known and balanced and fresh:
        return Check(what, True, f"bits are fresh and balanced, {rate:.0f} MB a second")
    remedy = "Do not use this installation: noise would not hide anything."
    return Check(what, False, "the source of random bits fails its test", remedy)


def _noise(what: str) -> Check:
    from colonnade.noise.skellam import SkellamNoise
    from colonnade.randomness import SystemRandomness

    mu = 10**6
    drawn = SkellamNoise(Fraction(mu)).draw(DRAWS, SystemRandomness()).astype(float)
    mean = abs(drawn.mean()) / math.sqrt(2 * mu / DRAWS)
    spread = abs((drawn**2).mean() / (2 * mu) - 1) / math.sqrt(2 / DRAWS)
    if mean < FAR and spread < FAR:
        return Check(what, True, f"{DRAWS} draws have the mean and the variance they must have")
    remedy = "Do not use this installation: its ε would be wrong."
    return Check(what, False, "noise has the wrong mean or variance", remedy)


def examine_job(path: Path) -> Iterator[Check]:
    """The job first; then the files that lie beside it, party by party."""
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    try:
        job = Job.load(path)
    except ColonnadeError as error:
        yield _refused("job", error)
        return
    yield Check("job", True, f"{path}: {job.task} by {job.method}")
    own = {party: path.parent / f"{party}.toml" for party in job.parties}
    ledgers = {}
    for party, place in own.items():
        with suppress(ColonnadeError):
            ledgers[party] = Ledger.open(PartyFile.load(place).ledger)
    for party, place in own.items():
        if not place.exists():
            yield Check(party, True, f"{place} is not here; it lies with {party}")
            continue
        try:
            file = PartyFile.load(place)
        except ColonnadeError as error:
            yield _refused(party, error)
            continue
        yield Check(party, True, f"{place} is in order")
        yield from examine_party(file, ledgers)


def examine_party(file: PartyFile, ledgers: Mapping[str, Ledger]) -> Iterator[Check]:
    """A party's rows against its schema, and its ledger against its chain and the receipts that lie here."""
    from colonnade.federation.party_file import check_ledger

    what = f"{file.party} data"
    try:
        table = file.table().check()
        yield Check(what, True, f"{file.data}: {table.rows} rows, each with an id of its own")
        if table.clipping.warning:
            yield Check(f"{file.party} columns", True, table.clipping.warning, doubtful=True)
    except ColonnadeError as error:
        yield _refused(what, error)
    what = f"{file.party} ledger"
    try:
        agreed = check_ledger(file, ledgers)
        many = "receipt that peers here hold agrees" if agreed == 1 else "receipts that peers here hold agree"
        yield _in_order(what, file.ledger, f", and {agreed} {many}" if agreed else "")
    except ColonnadeError as error:
        yield _refused(what, error)


def _in_order(what: str, path: Path, witnessed: str = "") -> Check:
    """A ledger whose chain is in order, or that is not there yet."""
    from colonnade.ledger import Ledger

    if not path.exists():
        return Check(what, True, f"{path} is made by the first run", doubtful=True)
    entries = Ledger.open(path).verify().entries
    return Check(what, True, f"{path}: {entries} entries, their chain is in order{witnessed}")


def _refused(what: str, error: ColonnadeError) -> Check:
    return Check(what, False, f"{error.number} {error}", f"colonnade explain {error.number}")


def examine_kit(kit: Kit, among: Sequence[str] = ()) -> Iterator[Check]:
    """Everything about a kit that can be looked at from here, or what is `among` it, one after the other."""
    looks: dict[str, Callable[[str, Kit], Check]] = {
        "clock": _kit_clock,
        "certificate": _kit_certificate,
        "key": _kit_key,
        "rights": _kit_rights,
        "server": _kit_server,
        "files": _kit_files,
        "ledger": _kit_ledger,
    }
    for what in among or looks:
        try:
            yield looks[what](what, kit)
        except ColonnadeError as error:
            yield Check(what, False, str(error))
        except OSError as error:
            yield Check(what, False, f"{error.filename or kit.path}: {error.strerror or error}")


def _kit_clock(what: str, kit: Kit) -> Check:
    """No clock is right that is before what it has written itself."""
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    now = datetime.datetime.now(datetime.UTC)
    issued = kit.identity().certificate.not_valid_before_utc
    text, fine = f"{now:%Y-%m-%d %H:%M} UTC; the certificate is of {issued:%Y-%m-%d}", now >= issued
    # Whatever is wrong with these files is told of the files.
    with suppress(KeyError, ColonnadeError):
        entries = Ledger.open(PartyFile.load(kit.site()["party"]).ledger).entries()
        written = datetime.datetime.fromisoformat(entries[-1].time)
        if written > now:
            fine, text = False, f"{text}, and the ledger's last entry of {written:%Y-%m-%d %H:%M}"
    return Check(what, fine, text, "Set the clock: certificates are refused by the wrong time.")


def _kit_certificate(what: str, kit: Kit) -> Check:
    from colonnade.runtime.identity import NotTrusted, fingerprint

    identity = kit.identity()
    name = identity.name
    try:
        certificate = kit.trust().certificate(identity.to_bytes(), name)
    except NotTrusted as error:
        return Check(what, False, f"{name}: {error}", "Ask for a new one: `colonnade federation join`.")
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    text = f"{name}, valid for {left.days} days, fingerprint {fingerprint(certificate)}"
    return Check(what, left > SOON, text, "It ends soon. Ask for a new one: `colonnade federation join`.")


def _kit_key(what: str, kit: Kit) -> Check:
    path = kit.path / "startup" / f"{'server' if kit.kind == 'server' else 'client'}.key"
    shared = path.stat().st_mode & 0o077
    text = f"{path} can be read by {'others too' if shared else 'its owner only'}"
    return Check(what, not shared, text, f"chmod 600 {path}")


def _kit_rights(what: str, kit: Kit) -> Check:
    """Whether a kit still forbids what `Kit.harden` forbade."""
    from colonnade.sites.kit import COORDINATOR, MEMBER

    if kit.kind == "admin":
        return Check(what, True, "an administrator's kit runs no jobs")
    local = kit.path / "local"
    resources = json.loads((local / "resources.json").read_text(encoding="utf-8"))
    roles = json.loads((local / "authorization.json").read_text(encoding="utf-8"))["permissions"].values()
    closed = all(
        isinstance(role, dict) and role.get("byoc", "none") == role.get("shell_commands", "none") == "none"
        for role in roles
    )
    allow_list = [COORDINATOR if kit.kind == "server" else MEMBER]
    enforced = resources["class_list_enforcement_mode"] == "enforce"
    if closed and enforced and resources["class_allow_list"] == allow_list:
        return Check(what, True, "no code with jobs, no foreign class, no shell")
    remedy = "Make the kit again, or put resources.json and authorization.json back."
    return Check(what, False, f"{local} permits more than Colonnade needs", remedy)


def _kit_server(what: str, kit: Kit) -> Check:
    import socket

    from colonnade.sites.processes import answers

    host, port = kit.address
    if kit.kind == "server":
        used = "is in use: this server runs, or something else does" if answers(kit.address) else "is free"
        return Check(what, True, f"port {port} {used}")
    if not answers(kit.address, timeout=5.0):
        remedy = "Ask whether the server was started, and whether a firewall lets you through to that port."
        return Check(what, False, f"nothing answers at {host}:{port}", remedy)
    startup = kit.path / "startup"
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with socket.create_connection(kit.address, 5.0) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLError as error:
        text = f"{host}:{port} answers, but not as this federation's server ({error.reason})"
        remedy = "Compare the clocks, then the roots: `openssl x509 -in startup/rootCA.pem -noout -dates -fingerprint`."
        return Check(what, False, text, remedy)
    return Check(what, True, f"{host}:{port} answers and proves itself under this federation's root")


def _kit_files(what: str, kit: Kit) -> Check:
    if kit.kind != "party":
        return Check(what, True, "this kit needs none")
    agreed = check_site(kit, kit.site()).words
    return Check(what, True, f"{kit.site()['party']} and {kit.site()['policy']} are in order: {agreed}")


def check_site(kit: Kit, site: Mapping[str, Any]) -> Policy:
    """Find what is wrong with a party's files before a job does, and before a kit remembers them."""
    from colonnade.federation.party_file import PartyFile
    from colonnade.sites.policy import Policy

    for name in ("party", "policy"):
        if name not in site:
            raise KitError(f"{kit.path} does not know the {name} file yet. Give it with --{name}.")
    policy = Policy.load(site["policy"])
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
    return policy


def _kit_ledger(what: str, kit: Kit) -> Check:
    from colonnade.federation.party_file import PartyFile

    if kit.kind != "party":
        return Check(what, True, "this kit charges nothing")
    if "party" not in kit.site():
        return Check(what, True, "no party file is known yet")
    return _in_order(what, PartyFile.load(kit.site()["party"]).ledger)
