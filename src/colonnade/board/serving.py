"""The board as a process: a socket, links for people, and pages until somebody ends it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Any

import uvicorn

from colonnade.board.access import Access, Person
from colonnade.board.acts import Acts, alone
from colonnade.board.pages import Board
from colonnade.board.place import Place
from colonnade.board.proxy import Proxy
from colonnade.board.site import site
from colonnade.errors import InputError

Told = Callable[[dict[str, Any]], None]


def serve(
    place: Place, people: Iterable[Person], *, listen: str, port: int, proxy: Proxy | None, tell: Told
) -> None:
    """Answer until the process is ended; `tell` gets the address and the link of each person once it answers."""
    with alone(place.folder) as first, bound(listen, port, proxied=proxy is not None) as opened:
        chosen = int(opened.getsockname()[1])
        access = Access(() if proxy else people)
        acts = Acts(place.folder)
        acts.note(None, "started the board", of=str(place.folder))
        board = Board(place, access, acts, port=chosen, proxied=proxy is not None)
        app = site(board, port=chosen, proxy=proxy)
        address = proxy.origin if proxy else f"http://{_written(listen)}:{chosen}"
        links = [
            {"name": person.name, "role": person.role, "link": f"{address}/enter?token={token}"}
            for person, token in access.tokens.items()
        ]
        tell({"board": str(place.folder), "address": address, "links": links, "alone": first})
        try:
            server(app, board).run(sockets=[opened])
        finally:
            board.forecasts.close()


def server(app: Any, board: Board) -> uvicorn.Server:
    """What answers for a board's application until it is told to exit, and then lets go of pages that follow something.

    It writes no log: addresses hold tokens until they are exchanged, and what goes wrong is said on the page.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="critical",
        server_header=False,
        # Who asks is read by the gate, and by nothing else.
        proxy_headers=False,
        forwarded_allow_ips="",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=1 << 15,
        limit_concurrency=200,
    )
    running = uvicorn.Server(config)
    board.ending = lambda: running.should_exit
    return running


def bound(listen: str, port: int, *, proxied: bool) -> socket.socket:
    """A socket at this address; one that others could reach only where a proxy stands before it."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if listen == "localhost" else listen)
    except ValueError:
        raise InputError(f"--listen: {listen!r} is no address of this machine, such as 127.0.0.1.") from None
    if str(address) not in ("127.0.0.1", "::1") and not proxied:
        # Names by which the gate lets people in are those of these two.
        raise InputError(
            f"--listen {listen}: others on the network could reach it, and the board has no TLS of its own. Put a "
            "proxy before it that has, and name it with --proxy FILE; or leave --listen out."
        )
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port: {port} does not exist; ports are 1 to 65535.")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((str(address), port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise InputError(
            f"--port: {port} cannot be had at {listen} ({error.strerror}). Another board may be there; name a "
            "free one, or 0 for any."
        ) from None
    return opened


def _written(listen: str) -> str:
    return f"[{listen}]" if ":" in listen else listen
