"""A proxy between a party and its server: it delays what passes, slows it down, cuts connections, or holds it back.

What a network does beneath TCP looks like this above it: a packet that is lost comes late, because it is sent again.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from live_federation import Live, live

from colonnade.sites.kit import Kit

# The least that TCP waits before it sends again.
AGAIN_SECONDS = 0.2


class Proxy:
    """Passes bytes between parties and their server, late if it likes, until it cuts them off."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.pause = 0.0
        # Bytes a second, each way; 0: as fast as it goes.
        self.rate = 0.0
        # Of a hundred pieces so many come late by `AGAIN_SECONDS`, as TCP sends again what was lost.
        self.lost_percent = 0
        # While it is set nothing passes, and nobody is told: what a partition looks like from both sides.
        self.dark = threading.Event()
        self._passed = 0
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self._welcome, daemon=True).start()

    def _welcome(self) -> None:
        while True:
            try:
                caller, _ = self.door.accept()
            except OSError:
                return
            try:
                called = socket.create_connection(self.server)
            except OSError:
                # A server that is down refuses; it may be there when the party calls again.
                caller.close()
                continue
            self.pairs.append((caller, called))
            for one, other in ((caller, called), (called, caller)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def late(self, size: int) -> float:
        """Seconds by which a piece of this size comes late."""
        self._passed += 1
        lost = self._passed * self.lost_percent // 100 > (self._passed - 1) * self.lost_percent // 100
        return self.pause + (size / self.rate if self.rate else 0.0) + (AGAIN_SECONDS if lost else 0.0)

    def heal(self) -> None:
        self.pause, self.rate, self.lost_percent = 0.0, 0.0, 0
        self.dark.clear()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                while self.dark.is_set():
                    time.sleep(0.1)
                time.sleep(self.late(len(data)))
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _close(source)
            _close(sink)

    def cut(self) -> None:
        """End every connection that there is; parties may call again."""
        for pair in self.pairs:
            for end in pair:
                _close(end)
        self.pairs.clear()

    def close(self) -> None:
        self.door.close()
        self.cut()


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def proxied(folder: Path, **more: Any) -> Iterator[tuple[Live, Proxy]]:
    made: list[Proxy] = []

    def prepare(kits: dict[str, Kit]) -> None:
        path = kits["shop"].path / "startup" / "fed_client.json"
        config = json.loads(path.read_text())
        host, port = kits["shop"].address
        made.append(Proxy((host, port)))
        config["servers"][0]["service"]["target"] = f"{host}:{made[0].port}"
        path.write_text(json.dumps(config))

    try:
        with live(folder, prepare=prepare, **more) as running:
            yield running, made[0]
    finally:
        for proxy in made:
            proxy.close()
