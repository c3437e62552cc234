"""How a member is and what it did, in numbers that Prometheus reads: heartbeat, certificate, ledger, disk, jobs, bytes.

Numbers come from the member's own kit, and are told on loopback only, and under its names only: sizes and times can
depend on the data, so they are for the member, and a page elsewhere can make a name of its own lead here. `/healthz`
says the same as `colonnade party health`, with 200 or 503.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.cli.screen import note
from colonnade.errors import InputError

if TYPE_CHECKING:
    from colonnade.federation.health import Health
    from colonnade.runtime.kit import Kit

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost", "[::1]")
PATH, HEALTH = "/metrics", "/healthz"
KIND = "text/plain; version=0.0.4; charset=utf-8"
TOTALS = {
    "steps": ("colonnade_steps_total", "Steps of all jobs."),
    "sent": ("colonnade_sent_bytes_total", "Bytes of frames that were sent."),
    "received": ("colonnade_received_bytes_total", "Bytes of frames that arrived."),
    "seconds": ("colonnade_step_seconds_total", "Seconds spent in steps."),
}


_FRESH_SECONDS = 5.0


class Tally:
    """The numbers of one member, read anew where its logs have grown."""

    def __init__(self, kit: Kit) -> None:
        self._runs = kit.path / "runs"
        self._kit = kit
        self._name = "server" if kit.kind == "server" else kit.identity().name
        self._read: dict[Path, int] = {}
        self._totals: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._health: tuple[float, Health] | None = None

    def health(self) -> Health:
        """How the member is, looked at every few seconds at most: a probe that asks often costs little."""
        from colonnade.federation.health import health

        at = time.monotonic()
        if self._health is None or at - self._health[0] > _FRESH_SECONDS:
            self._health = at, health(self._kit)
        return self._health[1]

    def text(self) -> str:
        """All numbers, in the format that Prometheus reads."""
        with self._lock:
            self._take_in()
            facts = self.health()
            lines: list[str] = []
            heard = facts.heard_seconds
            for metric, said, value in (
                ("colonnade_up", "Whether the server hears the member.", int(facts.connected)),
                ("colonnade_healthy", "Whether nothing is to be done.", int(facts.fine)),
                ("colonnade_last_heartbeat_seconds", "Seconds since the server last heard it.", heard),
                ("colonnade_certificate_days", "Days until the certificate ends.", facts.certificate_days),
                (
                    "colonnade_ledger_verified_timestamp_seconds",
                    "When the chain was last found in order.",
                    facts.ledger_verified,
                ),
                ("colonnade_free_disk_bytes", "Bytes that are free where the kit lies.", facts.free_disk),
            ):
                if value is not None:
                    lines += _lines(metric, said, "gauge")
                    lines.append(f'{metric}{{member="{self._name}"}} {value:.12g}')
            lines += _lines("colonnade_jobs", "Jobs by how they stand.", "gauge")
            for state, count in sorted(facts.jobs.items()):
                lines.append(f'colonnade_jobs{{member="{self._name}",state="{state}"}} {count}')
            for key, (metric, said) in TOTALS.items():
                lines += _lines(metric, said, "counter")
                lines.append(f'{metric}{{member="{self._name}"}} {self._totals[key]:.12g}')
        return "\n".join(lines) + "\n"

    def _take_in(self) -> None:
        from colonnade.federation.own_files import LOG

        for path in self._runs.glob(f"*/{LOG}"):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                # A last line that is being written is read the next time.
                whole, newline, _ = log.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                step = json.loads(line)
                self._totals.update(
                    steps=1, sent=step["sent"], received=step["received"], seconds=step["seconds"]
                )


@contextmanager
def served(tally: Tally, port: int) -> Iterator[int]:
    """Answer on loopback while the block lasts; yields the port, which the system chooses if 0 was asked for."""

    class Answer(BaseHTTPRequestHandler):
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
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a terminal is for people."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Answer)
    except OSError as error:
        raise InputError(
            f"--metrics: port {port} cannot be had ({error.strerror}). Name a free one."
        ) from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def served_if_free(kit: Kit, port: int) -> Iterator[None]:
    """Answer while the block lasts; where something else has the port, say so: a member runs without numbers too."""
    with ExitStack() as stack:
        try:
            stack.enter_context(served(Tally(kit), port))
        except InputError as error:
            note(f"{error} This member runs without {PATH} and {HEALTH}.")
        yield


def _lines(metric: str, said: str, kind: str) -> list[str]:
    return [f"# HELP {metric} {said}", f"# TYPE {metric} {kind}"]
