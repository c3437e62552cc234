"""`colonnade party`: run this organisation's part of a federation, and its metrics."""

from __future__ import annotations

import contextlib
import getpass
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.screen import Answer, argument, as_json, flag, group, note, option, say, say_json
from colonnade.errors import InputError, KitError
from colonnade.report.plain import left_text, table_lines

if TYPE_CHECKING:
    from colonnade.sites.approval import Request
    from colonnade.sites.health import Health
    from colonnade.sites.kit import Kit


LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost", "[::1]")
PATH, HEALTH = "/metrics", "/healthz"
KIND = "text/plain; version=0.0.4; charset=utf-8"
HEADERS = (
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)
_FRESH_SECONDS = 5.0


class Tally:
    """The numbers of one member, looked at every few seconds at most: a probe that asks often costs little."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._health: tuple[float, Health] | None = None

    def health(self) -> Health:
        from colonnade.sites.health import health

        at = time.monotonic()
        if self._health is None or at - self._health[0] > _FRESH_SECONDS:
            self._health = at, health(self._kit)
        return self._health[1]

    def text(self) -> str:
        """All numbers, in the format that Prometheus reads."""
        facts = self.health()
        gauges = {
            "up": ("Whether the server hears the member.", int(facts.connected)),
            "healthy": ("Whether nothing is to be done.", int(facts.fine)),
            "last_heartbeat_seconds": ("Seconds since the server last heard it.", facts.heard_seconds),
            "certificate_days": ("Days until the certificate ends.", facts.certificate_days),
            "ledger_verified_timestamp_seconds": (
                "When the chain was last found in order.",
                facts.ledger_verified,
            ),
            "free_disk_bytes": ("Bytes that are free where the kit lies.", facts.free_disk),
        }
        member = "server" if self._kit.kind == "server" else self._kit.identity().name
        lines: list[str] = []
        for metric, (meaning, value) in gauges.items():
            if value is not None:
                lines += [f"# HELP colonnade_{metric} {meaning}", f"# TYPE colonnade_{metric} gauge"]
                lines += [f'colonnade_{metric}{{member="{member}"}} {value:.12g}']
        lines += ["# HELP colonnade_jobs Jobs by how they stand.", "# TYPE colonnade_jobs gauge"]
        for state, count in sorted(facts.jobs.items()):
            lines.append(f'colonnade_jobs{{member="{member}",state="{state}"}} {count}')
        return "\n".join(lines) + "\n"


@contextmanager
def served(kit: Kit, port: int) -> Iterator[int]:
    """Answer on loopback while the block lasts; yields the port, which the system chooses if 0 was asked for.

    Where something else has the port, this says so: a member runs without numbers too.
    """
    tally = Tally(kit)

    class HealthHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, kind = 200, KIND
            port = self.connection.getsockname()[1]
            hosts = self.headers.get_all("Host", [])
            # Two hosts in one request: whoever stands in between may have read the other one.
            if len(hosts) != 1 or hosts[0] not in [f"{name}:{port}" for name in NAMES]:
                code, body = 403, f"These numbers are read at {LOOPBACK}:{port}.\n".encode()
            elif self.path == PATH:
                body = tally.text().encode()
            elif self.path == HEALTH:
                facts = tally.health()
                code, kind = 200 if facts.fine else 503, "application/json"
                body = (json.dumps(facts.to_data(), ensure_ascii=False) + "\n").encode()
            else:
                code, body = 404, f"{PATH} and {HEALTH} are all there is.\n".encode()
            self.send_response(code)
            for header, value in (*HEADERS, ("Content-Type", kind), ("Content-Length", str(len(body)))):
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a terminal is for people."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), HealthHandler)
    except OSError as error:
        in_use = f"--metrics: port {port} cannot be had ({error.strerror}). Name a free one."
        note(f"{in_use} This member runs without {PATH} and {HEALTH}.")
        yield port
        return
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


GLANCE_SECONDS = 0.2
LOOK_SECONDS = 10.0
ANSWER_SECONDS = 3.0
ATTEMPTS = 3
MEMBER = argument("KIT", "A party's or the server's kit.")
KIT = argument("KIT", "The party's kit.")
JOB = argument("JOB", "The id of the job, as `party requests` shows it.")
PERSON = option("--as NAME", "Who decides; the name of the account on this machine if left out.", "")
KEY = option("--key FILE", "The person's own key, where the policy names `approvers`.")


def start(
    kit: Path = MEMBER,
    party: Path | None = option("--party FILE", "The party's own file (TOML)."),
    policy: Path | None = option("--policy FILE", "What this party agrees to (TOML)."),
    score: Path | None = option("--score FILE", "A party file (TOML) that names the people to score."),
    pin: list[str] = option("--pin NAME=FINGERPRINT", "Accept only this certificate of a peer; repeat.", []),
    metrics: int | None = option(
        "--metrics PORT", "Serve /metrics and /healthz on this port, if it is free, on this machine only."
    ),
) -> None:
    """Start a party or the server and keep it running until Ctrl-C.

    Files given once are remembered in the kit. They are checked before anything is started.

    Examples:
      colonnade party start ours/server
      colonnade party start bank/kit --party bank.toml --policy bank/bank.policy.toml
    """
    from colonnade.cli.doctor import check_site
    from colonnade.runtime.identity import plain_fingerprint
    from colonnade.sites import processes
    from colonnade.sites.kit import Kit
    from colonnade.sites.presence import refusal

    place = Kit.load(kit)
    if place.kind == "admin":
        raise KitError(
            f"{kit} is an administrator's kit, which starts nothing. Name a party's or the server's."
        )
    if place.kind == "server" and (party or policy or score):
        raise InputError(
            f"--party, --policy and --score are for a party's kit, and {kit} is the server's, which holds no data."
        )
    processes.check_startable(place)
    if place.kind == "server" and processes.answers(place.address):
        raise InputError(
            f"port {place.address[1]} is in use by another program. End that one, or make the federation with "
            "another --port."
        )
    if metrics is not None and not 0 <= metrics < 1 << 16:
        raise InputError(f"--metrics: port {metrics} does not exist; ports are 1 to 65535.")
    site = {key: value for key, value in place.site().items() if key != "noise_seed"}
    for name, path in (("party", party), ("policy", policy), ("score", score)):
        if path is not None:
            site[name] = str(path.resolve())
    for text in pin:
        peer, equals, fingerprint = text.partition("=")
        if not equals:
            raise InputError(f"--pin: found {text!r}; write NAME=FINGERPRINT.")
        site.setdefault("pins", {})[peer] = plain_fingerprint(fingerprint)
    if place.kind == "party":
        check_site(place, site)
    place.tell_site(site)
    note_lost(place)
    if place.kind == "party":
        check_way(place)
        processes.wait_for_server(place)
        if why := refusal(place):
            raise KitError(f"{place.path}: {why}.")
    code = 0
    metered = contextlib.nullcontext() if metrics is None else served(place, metrics)
    with contextlib.suppress(KeyboardInterrupt), metered, processes.process_group() as begin:
        process = begin(place)
        # Where another copy of this kit is connected, the two take the connection from each other, and FLARE may give
        # up before the server could say so: it is asked again.
        for attempt in range(ATTEMPTS):
            while process.poll() is None and not processes.connected(place):
                time.sleep(GLANCE_SECONDS)
            if process.poll() is None or place.kind == "server" or attempt == ATTEMPTS - 1:
                break
            check_refused(place)
            process = begin(place)
        host, port = place.address
        facts = {"kit": str(place.path), "name": place.identity().name, "process": process.pid}
        if process.poll() is None:
            here = f"listens on port {port}" if place.kind == "server" else f"is connected to {host}:{port}"
            say_json(facts) if as_json() else say(f"{facts['name']} {here}. Ctrl-C ends it.")
        code = attend(place, process)
    check_refused(place)
    if code:
        raise KitError(
            f"{place.path}: FLARE's process ended with code {code}. {place.path / processes.CONSOLE} and "
            f"`colonnade doctor {kit}` say more."
        )


def check_way(kit: Kit) -> None:
    """Raise what `doctor` finds wrong with the way to the server, of which FLARE says nothing; or wait for it."""
    from colonnade.cli.doctor import examine_kit
    from colonnade.sites import processes

    looks = ["clock", "certificate", "server"]
    if not processes.answers(kit.address, timeout=ANSWER_SECONDS):
        host, port = kit.address
        note(
            f"nothing answers at {host}:{port} yet. Waiting for it; `colonnade doctor` says what to look at."
        )
        looks.remove("server")
    for finding in examine_kit(kit, looks):
        if not finding.fine and finding.remedy.startswith("It ends soon"):
            note(f"{finding.what}: {finding.found}. {finding.remedy}")
        elif not finding.fine:
            raise KitError(f"{kit.path}, {finding.what}: {finding.found}. {finding.remedy}")


def note_lost(kit: Kit) -> None:
    """Give every job whose process ended without a word an outcome that says so, and say it here."""
    from colonnade.sites.health import reconcile

    for job in reconcile(kit):
        note(
            f"job {job} had no outcome: its process ended without a word. `colonnade job status` says so now."
        )


def attend(kit: Kit, process: Any) -> int:
    """Wait until a member's process ends, or is to end; says meanwhile what the server tells it. Returns its code."""
    from colonnade.sites.presence import Presence

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


def check_refused(kit: Kit) -> None:
    """Raise if the server told this kit's process that it is not to be there."""
    from colonnade.sites.presence import Presence

    presence = Presence.load(kit.path) if kit.kind == "party" else None
    if presence is not None and presence.refused:
        raise KitError(f"{kit.path}: {presence.refused}.")


def health(kit: Path = MEMBER) -> Answer:
    """Say how a member is: connected or not, certificate, ledger, disk, jobs. Exit code 0 if all is well, 3 if not.

    Example:
      colonnade party health bank/kit
    """
    from colonnade.sites.health import health as measured
    from colonnade.sites.kit import Kit

    place = Kit.load(kit)
    if place.kind == "admin":
        raise InputError(
            f"{kit} is an administrator's kit, which runs nothing. Name a party's or the server's."
        )
    facts = measured(place)
    contact = "" if facts.heard_seconds is None else f", heard {facts.heard_seconds:.0f} s ago"
    lines = [
        f"{facts.member} is {'connected' if facts.connected else 'not connected'}{contact}",
        f"  certificate  {facts.certificate_days} days left",
        f"  ledger       {'in order' if facts.ledger_verified is not None else 'none that is in order'}",
        f"  disk         {facts.free_disk >> 20} MB free",
        f"  jobs         {', '.join(f'{count} {state}' for state, count in facts.jobs.items())}",
        *(f"PROBLEM  {problem}" for problem in facts.problems),
    ]
    ill = None if facts.fine else typer.Exit(InputError.exit_code)
    return Answer(facts.to_data(), "\n".join(lines), ill)


def clean(
    kit: Path = MEMBER,
    days: float | None = option("--older-than DAYS", "Instead of `record_days` of the party's file."),
    only_say: bool = flag("--dry-run", "Say what would be destroyed, and destroy nothing."),
) -> Answer:
    """Destroy the records of runs that failed long ago; they are as private as the data. Ledgers and logs stay.

    What FLARE keeps of jobs that ended by then goes too, at the server with its list of them.

    A record lets a run go on (`colonnade job resume`). It is kept for `record_days` of the party's file, 30 by default.

    Example:
      colonnade party clean bank/kit
    """
    from colonnade.sites.kit import Kit
    from colonnade.sites.site import clean as cleaned

    destroyed = cleaned(Kit.load(kit), days=days, only_say=only_say)
    lines = [f"{'would destroy' if only_say else 'destroyed'} {path}" for path in destroyed]
    data = {"destroyed": [str(path) for path in destroyed], "dry_run": only_say}
    return Answer(data, "\n".join(lines) or "There is nothing to destroy.")


def requests(kit: Path = KIT, ended: bool = flag("--ended", "Show also what no longer waits.")) -> Answer:
    """Show the jobs that wait for somebody here, with what each would cost and leave.

    Example:
      colonnade party requests bank/kit
    """
    from colonnade.sites.approval import list_requests

    waiting = list_requests(_party(kit), ended=ended)
    return Answer(
        [_facts(request) for request in waiting],
        lambda wide: (
            "\n\n".join(request_text(request, kit, wide) for request in waiting)
            or "No job waits for approval."
        ),
    )


def approve(kit: Path = KIT, job: str = JOB, person: str = PERSON, key: Path | None = KEY) -> Answer:
    """Approve a job that waits; the ledger says who did, signed.

    Example:
      colonnade party approve bank/kit 596ca27d-8325-4ccd-bb80-460765e4591c --as "Ada Byron"
    """
    request = _decided("approve", kit, job, person, key)
    missing = request.people - len(request.approvals)
    then = "It begins now." if missing <= 0 else f"{missing} more must approve it."
    text = f"Job {job} is approved by {' and '.join(request.approvals)}. {then}"
    return Answer(_facts(request), text)


def decline(
    kit: Path = KIT,
    job: str = JOB,
    because: str = option("--because TEXT", "Why, for the ledger.", ...),
    person: str = PERSON,
    key: Path | None = KEY,
) -> Answer:
    """Decline a job that waits: one no ends it. Peers learn that it was declined, and not why.

    Example:
      colonnade party decline bank/kit 596ca27d-8325-4ccd-bb80-460765e4591c --because "after the audit in May"
    """
    request = _decided("decline", kit, job, person, key, because=because)
    return Answer(_facts(request), f"Job {job} is declined. Nothing was charged.")


def _decided(how: str, kit: Path, job: str, person: str, key: Path | None, **more: str) -> Request:
    from colonnade.ledger.export import signing_key
    from colonnade.sites import approval

    own = None if key is None else signing_key(key)
    decided: Request = getattr(approval, how)(
        _party(kit), job, by=person or getpass.getuser(), key=own, **more
    )
    return decided


def approver(key: Path = argument("FILE", "A person's key; made if it is not there.")) -> Answer:
    """Make a person's key for approving jobs, and print what the policy names under `approvers`.

    Example:
      colonnade party approver ada.key
    """
    from colonnade.ledger.export import signing_key

    public = signing_key(key).public.hex()
    return Answer({"key": str(key), "public": public}, public)


def _party(path: Path) -> Kit:
    from colonnade.sites.kit import Kit

    kit = Kit.load(path)
    if kit.kind != "party":
        raise InputError(f"{path} is the {kit.kind}'s kit. People approve jobs at a party: name its kit.")
    return kit


def _facts(request: Request) -> dict[str, Any]:
    shown = ("by", "approved", "because", "time")
    decisions = [{name: getattr(one, name) for name in shown} for one in request.decisions]
    return {**request.to_data(), "decisions": decisions}


def request_text(request: Request, kit: Path, wide: int | None = None) -> str:
    """A job that waits, what it would cost and leave, and who has decided."""

    times = f"asked {request.requested[:16].replace('T', ' ')} UTC"
    until = f", until {request.until[:16].replace('T', ' ')}" if request.state == "waiting" else ""
    lines = [f"{request.job}  {request.name}: {request.state}, {times}{until}", f"  {request.what}"]
    rows = [("observer", "unit", "this job", "left now", "left after", "at δ")]
    for cost in request.costs:
        left_now, left_after = left_text(cost.before), left_text(cost.left)
        rows.append(
            (cost.observer, cost.unit, f"ε = {cost.epsilon:.3g}", left_now, left_after, f"{cost.delta:g}")
        )
    lines += table_lines(rows, wide) if request.costs else []
    for decision in request.decisions:
        said = "approved" if decision.approved else f"declined: {decision.because}"
        lines.append(f"  {decision.by} {said}, {decision.time[:16].replace('T', ' ')} UTC")
    if request.state == "waiting":
        who = "one person" if request.people == 1 else f"{request.people} people"
        lines.append(f"  {who} must approve it: colonnade party approve {kit} {request.job} --as NAME")
    return "\n".join(lines)


app = group(
    "Run this organisation's part of a federation on this machine.",
    *(start, health, clean, requests, approve, decline, approver),
)
