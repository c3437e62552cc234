"""A channel over the cells of NVIDIA FLARE: bytes in, bytes out, and no opinion about what they mean.

This is the one module that touches FLARE's messaging, which is internal to it; the version is pinned, and a contract
test holds what is used here. FLARE relays what sites say to each other through its server, so this channel promises
neither secrecy nor authenticity: it is to be sealed (`runtime/sealed.py`).

Every frame is a request that the receiver's mailbox acknowledges; one that is not acknowledged is sent again, and the
mailbox drops what it has. A peer is given up when FLARE says that it cannot be reached, never because it is slow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message

from colonnade.errors import LocalProtocolError, PeerTimeout, RemoteProtocolError
from colonnade.runtime.channel import readable
from colonnade.runtime.mailbox import AHEAD, Mailbox

_CHANNEL = "colonnade"
_FRAME, _ROOM, _STOP = "frame", "room", "stop"
# Above this a frame goes in pieces: FLARE copies what it relays, and one large message would hold up the others.
_PIECE = 1 << 22
_ACKNOWLEDGED_WITHIN = 30.0
_PING_SECONDS = 1.0
_PING_PATIENCE = 10.0
_PAUSE_SECONDS = (0.002, 0.1)
_FAREWELL_SECONDS = 5.0
_MOST_REASON = 1 << 12
# What FLARE answers if there is nobody at an address, as opposed to somebody who is busy.
_GONE = (ReturnCode.COMM_ERROR, ReturnCode.TARGET_UNREACHABLE)


def server_address(job: str) -> str:
    """Where the server's process of a job is reached."""
    return str(FQCN.join([FQCN.ROOT_SERVER, job]))


def site_address(site: str, job: str) -> str:
    """Where a site's process of a job is reached."""
    return str(FQCN.join([site, job]))


class FlareChannel:
    """One member's end, for one job. Make it when the job's process starts: peers may be quicker.

    `open` waits until every peer is there; `close` says goodbye. Both run inside the event loop of the protocol.
    """

    def __init__(self, name: str, cell: Any, addresses: Mapping[str, str]) -> None:
        self.name = name
        self._cell = cell.core_cell
        self._addresses = {peer: address for peer, address in addresses.items() if peer != name}
        self._members = {address: peer for peer, address in self._addresses.items()}
        self._mailbox = Mailbox(name, tuple(self._addresses))
        self._sent = dict.fromkeys(self._addresses, 0)
        self._taken = dict.fromkeys(self._addresses, 0)
        self._threads = ThreadPoolExecutor(2 * len(self._addresses) + 2, thread_name_prefix="colonnade")
        self._watching: list[asyncio.Task[None]] = []
        self._farewells: list[asyncio.Task[str]] = []
        for topic, answer in ((_FRAME, self._arrived), (_ROOM, self._asked), (_STOP, self._stopped)):
            self._cell.register_request_cb(_CHANNEL, topic, answer)

    async def open(self, timeout: float) -> None:
        """Return when every peer's process of this job answers; then watch that it stays."""
        self._mailbox.attach(asyncio.get_running_loop())
        deadline = time.monotonic() + timeout
        for peer in self._addresses:
            while await self._ask(peer, _ROOM, {}, None, _PING_SECONDS) != ReturnCode.OK:
                if time.monotonic() > deadline:
                    raise PeerTimeout(
                        f"{self.name} waited {timeout:g} s for {peer} to join the job. See whether {peer} runs "
                        "(`colonnade party start`), and what its log says."
                    )
                await asyncio.sleep(_PAUSE_SECONDS[1])
        self._watching = [asyncio.create_task(self._watch(peer)) for peer in self._addresses]

    async def send(self, to: str, step: str, frame: bytes) -> None:
        if to not in self._addresses:
            raise LocalProtocolError(
                f"{self.name} has no connection to {to!r}; its peers are {sorted(self._addresses)}"
            )
        number = self._sent[to]
        self._sent[to] += 1
        await self._room(to, number, step)
        pieces = max(1, -(-len(frame) // _PIECE))
        for index in range(pieces):
            headers = {"number": number, "step": step, "index": index, "of": pieces}
            piece = frame if pieces == 1 else frame[index * _PIECE : (index + 1) * _PIECE]
            while (code := await self._delivered(to, step, headers, piece)) != ReturnCode.OK:
                self._refuse_gone(to, step, code)
                await asyncio.sleep(_PAUSE_SECONDS[1])

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        if peer not in self._addresses:
            raise LocalProtocolError(
                f"{self.name} has no connection to {peer!r}; its peers are {sorted(self._addresses)}"
            )
        return await self._mailbox.take(peer, step, timeout)

    def stop(self, reason: str | None) -> None:
        headers = {"reason": (reason or "")[:_MOST_REASON]}
        self._farewells += [
            asyncio.create_task(self._ask(peer, _STOP, headers, None, _FAREWELL_SECONDS))
            for peer in self._addresses
        ]

    async def interrupt(self, reason: str) -> None:
        """Let whatever waits stop waiting, with the names of peers that are gone without a word, if there are any."""
        peers = [peer for peer in self._addresses if not self._mailbox.ended(peer)]
        codes = await asyncio.gather(*(self._ask(peer, _ROOM, {}, None, _PING_SECONDS) for peer in peers))
        gone = [peer for peer, code in zip(peers, codes, strict=True) if code != ReturnCode.OK]
        why = f"{reason}, and {' and '.join(gone)} cannot be reached any more" if gone else reason
        for peer in peers:
            self._mailbox.end(peer, why)

    async def close(self) -> None:
        """Finish saying goodbye, and stop watching."""
        await asyncio.gather(*self._farewells, return_exceptions=True)
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _delivered(self, to: str, step: str, headers: Mapping[str, Any], piece: bytes) -> str:
        """FLARE's code for a frame, unless its receiver is known to be gone before there is one."""
        asking = asyncio.ensure_future(self._ask(to, _FRAME, headers, piece, _ACKNOWLEDGED_WITHIN))
        gone = asyncio.ensure_future(self._mailbox.fallen(to))
        try:
            await asyncio.wait({asking, gone}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise RemoteProtocolError(f"{self.name} at step {step!r}: {to} stopped: {gone.result()}")
        finally:
            asking.cancel()
            gone.cancel()

    async def _room(self, to: str, number: int, step: str) -> None:
        """Wait while the receiver is far behind; the caller's own timeout bounds it."""
        pause, longest = _PAUSE_SECONDS
        while number - self._taken[to] >= AHEAD:
            code = await self._ask(to, _ROOM, {}, None, _ACKNOWLEDGED_WITHIN)
            self._refuse_gone(to, step, code)
            if number - self._taken[to] >= AHEAD:
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    def _refuse_gone(self, peer: str, step: str, code: str) -> None:
        if self._mailbox.ended(peer) or code in _GONE:
            self._mailbox.end(peer, "it cannot be reached any more")
            raise RemoteProtocolError(
                f"{self.name} at step {step!r}: {peer} cannot be reached any more ({code})"
            )

    async def _watch(self, peer: str) -> None:
        """Notice that a peer's process is gone while this member waits for it."""
        while not self._mailbox.ended(peer):
            await asyncio.sleep(_PING_SECONDS)
            code = await self._ask(peer, _ROOM, {}, None, _PING_PATIENCE)
            if code in _GONE:
                self._mailbox.end(peer, "its process cannot be reached any more")

    async def _ask(
        self, peer: str, topic: str, headers: Mapping[str, Any], payload: bytes | None, timeout: float
    ) -> str:
        """Send one request and return FLARE's code for what became of it."""

        def ask() -> tuple[str, int]:
            message = new_cell_message(dict(headers), payload)
            reply = self._cell.send_request(
                _CHANNEL, topic, self._addresses[peer], message, timeout, optional=True
            )
            taken = reply.get_header("taken", 0)
            return str(reply.get_header(MessageHeaderKey.RETURN_CODE, "")), taken if type(taken) is int else 0

        code, taken = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        self._taken[peer] = max(self._taken[peer], taken)
        return code

    # What follows runs on FLARE's threads.

    def _arrived(self, message: Any) -> Any:
        number, index, of = (message.get_header(key) for key in ("number", "index", "of"))
        step, piece, peer = message.get_header("step"), message.payload, self._peer(message)
        shaped = all(type(count) is int for count in (number, index, of)) and isinstance(step, str)
        if peer is None or not shaped or not isinstance(piece, bytes | bytearray | memoryview):
            return make_reply(ReturnCode.INVALID_REQUEST)
        return self._acknowledged(self._mailbox.put(peer, number, step, bytes(piece), index=index, of=of))

    def _asked(self, message: Any) -> Any:
        peer = self._peer(message)
        return self._acknowledged(0 if peer is None else self._mailbox.taken(peer))

    def _stopped(self, message: Any) -> Any:
        peer, reason = self._peer(message), message.get_header("reason")
        if peer is not None:
            self._mailbox.end(
                peer, readable(reason[:_MOST_REASON]) if isinstance(reason, str) and reason else None
            )
        return self._acknowledged(0)

    def _peer(self, message: Any) -> str | None:
        return self._members.get(message.get_header(MessageHeaderKey.ORIGIN))

    def _acknowledged(self, taken: int) -> Any:
        reply = make_reply(ReturnCode.OK)
        reply.add_headers({"taken": taken})
        return reply
