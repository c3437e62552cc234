"""A proxy between a party and its server: it delays what passes, cuts connections, or holds everything back."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_federation import Live, live

from colonnade.runtime.kit import Kit


class Proxy:
    """Passes bytes between parties and their server, late if it likes, until it cuts them off."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.pause = 0.0
        # While it is set nothing passes, and nobody is told: what a partition looks like from both sides.
        self.dark = threading.Event()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self._welcome, daemon=True).start()

    def _welcome(self) -> None:
        while True:
            try:
                caller, _ = self.door.accept()
                called = socket.create_connection(self.server)
            except OSError:
                return
            self.pairs.append((caller, called))
            for one, other in ((caller, called), (called, caller)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                while self.dark.is_set():
                    time.sleep(0.1)
                if self.pause:
                    time.sleep(self.pause)
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
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
    finally:
        end.close()


@contextmanager
def proxied(folder: Path, **more: Any) -> Iterator[tuple[Live, Proxy]]:
    """A federation whose shop calls its server through a proxy."""
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
