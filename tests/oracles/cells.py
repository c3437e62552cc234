"""FLARE's own cells in one process: real messaging and a real relay, without FLARE's processes."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.drivers import tcp_driver
from nvflare.fuel.f3.stats_pool import StatsPoolManager

Relay = Callable[[Any], Any]


@contextmanager
def cells(names: tuple[str, ...], *, relay: Relay | None = None) -> Iterator[dict[str, Any]]:
    """The server's cell and one for each site, which talk through it; `relay` sees the requests that it receives."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"tcp://localhost:{probe.getsockname()[1]}"
    made: dict[str, Any] = {}
    with _sockets_closed():
        try:
            for name in ("server", *names):
                made[name] = Cell(
                    name, root_url=url, secure=False, credentials={}, create_internal_listener=False
                )
                # Cells of one process would hand messages to each other past the relay, and keep their names for good.
                CoreCell.ALL_CELLS.clear()
                StatsPoolManager.pools.clear()
                made[name].start()
            if relay is not None:
                made["server"].core_cell.set_message_interceptor(relay)
            yield made
        finally:
            # The server goes last: a site that is still there would call it again.
            for cell in reversed(made.values()):
                stop(cell)


@contextmanager
def _sockets_closed() -> Iterator[None]:
    """Close in the end what FLARE's driver leaves open: doors, and calls that the other side ended."""
    opened: list[Any] = []

    class Door(tcp_driver.TcpStreamServer):  # type: ignore[misc]
        def server_bind(self) -> None:
            opened.append(self.socket)
            super().server_bind()

        def serve_forever(
            self, poll_interval: float = 0.02
        ) -> None:  # half a second each time it ends, otherwise
            super().serve_forever(poll_interval)

    class Call(tcp_driver.SocketConnection):  # type: ignore[misc]
        def __init__(self, sock: Any, *rest: Any) -> None:
            opened.append(sock)
            super().__init__(sock, *rest)

    with (
        patch.object(tcp_driver, "TcpStreamServer", Door),
        patch.object(tcp_driver, "SocketConnection", Call),
    ):
        try:
            yield
        finally:
            for each in opened:
                each.close()


def stop(cell: Any) -> None:
    """Stop a cell. One that called its server again in this moment would wait for it for good, so it is cut off."""
    stopping = threading.Thread(target=cell.stop, daemon=True)
    stopping.start()
    stopping.join(2)
    while stopping.is_alive():
        for connector in list(cell.core_cell.communicator.conn_manager.connectors.values()):
            connector.driver.shutdown()
        stopping.join(0.5)


def addresses(made: dict[str, Any]) -> dict[str, str]:
    return {name: cell.core_cell.get_fqcn() for name, cell in made.items()}
