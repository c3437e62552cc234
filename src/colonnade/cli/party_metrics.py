"""What a member did, in numbers that Prometheus reads: jobs by state, steps, bytes and seconds. There is no data in it.

Numbers come from the logs and outcomes in the member's own kit, and are told on loopback only: sizes and times can
depend on the data, so they are for the member.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import InputError

if TYPE_CHECKING:
    from colonnade.runtime.kit import Kit

LOOPBACK = "127.0.0.1"
PATH = "/metrics"
KIND = "text/plain; version=0.0.4; charset=utf-8"
TOTALS = {
    "steps": ("colonnade_steps_total", "Steps of all jobs."),
    "sent": ("colonnade_sent_bytes_total", "Bytes of frames that were sent."),
    "received": ("colonnade_received_bytes_total", "Bytes of frames that arrived."),
    "seconds": ("colonnade_step_seconds_total", "Seconds spent in steps."),
}


class Tally:
    """The numbers of one member, read anew where its logs have grown."""

    def __init__(self, kit: Kit) -> None:
        self._runs = kit.path / "runs"
        self._kit = kit
        self._name = "server" if kit.kind == "server" else kit.identity().name
        self._read: dict[Path, int] = {}
        self._totals: Counter[str] = Counter()
        self._lock = threading.Lock()

    def text(self) -> str:
        """All numbers, in the format that Prometheus reads."""
        from colonnade.runtime.processes import connected

        with self._lock:
            self._take_in()
            lines = _lines("colonnade_up", "Whether the member is connected.", "gauge")
            lines.append(f'colonnade_up{{member="{self._name}"}} {int(connected(self._kit))}')
            lines += _lines("colonnade_jobs", "Jobs by how they stand.", "gauge")
            for state, count in sorted(self._states().items()):
                lines.append(f'colonnade_jobs{{member="{self._name}",state="{state}"}} {count}')
            for key, (metric, said) in TOTALS.items():
                lines += _lines(metric, said, "counter")
                lines.append(f'{metric}{{member="{self._name}"}} {self._totals[key]:.12g}')
        return "\n".join(lines) + "\n"

    def _take_in(self) -> None:
        from colonnade.learn.own_files import LOG

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

    def _states(self) -> Counter[str]:
        from colonnade.learn.own_files import OUTCOME

        states = Counter({"finished": 0, "failed": 0, "running": 0})
        for run in self._runs.glob("*"):
            try:
                states[json.loads((run / OUTCOME).read_text(encoding="utf-8"))["state"]] += 1
            except FileNotFoundError:
                states["running"] += 1
        return states


@contextmanager
def served(tally: Tally, port: int) -> Iterator[int]:
    """Answer on loopback while the block lasts; yields the port, which the system chooses if 0 was asked for."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == PATH
            body = (tally.text() if found else f"{PATH} is all there is.\n").encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", KIND)
            self.send_header("Content-Length", str(len(body)))
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


def _lines(metric: str, said: str, kind: str) -> list[str]:
    return [f"# HELP {metric} {said}", f"# TYPE {metric} {kind}"]
