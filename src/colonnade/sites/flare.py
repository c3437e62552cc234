"""A channel over the cells of NVIDIA FLARE: bytes in, bytes out, and no opinion about what they mean.

FLARE's messaging is internal to it: the version is pinned, and a contract test holds what is used here. Its server
relays what sites say to each other, so this channel is to be sealed (`runtime/identity.py`).

Frames are numbered and go out without waiting; what arrived is told with every frame that goes back, and asked once a
second. A frame that did not arrive is sent again. A peer is given up when FLARE cannot reach it, when it does not
answer for `SILENCE_SECONDS`, or when it sent nothing to anybody for as long as the job allows.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime.channel import readable
from colonnade.runtime.wire import AHEAD, Mailbox

_CHANNEL = "colonnade"
_FRAME, _ROOM, _STOP = "frame", "room", "stop"
# Above this a frame goes in pieces: FLARE copies what it relays, and one large message would hold up the others.
_PIECE = 1 << 22
# Up to this size a frame fits into a connection's buffer, and handing it over takes less than changing threads.
_AT_ONCE = 1 << 14
# A frame that has not arrived after this long is sent again.
_LOST_SECONDS = 1.0
_PING_SECONDS = 1.0
_PING_PATIENCE = 10.0
# Before somebody is said not to answer either: on a busy machine an answer takes longer than a second.
_SURE_SECONDS = 5.0
#: Whoever answers nothing for so long is cut off: answering takes a thread of FLARE's, whatever the protocol does.
SILENCE_SECONDS = 22.0
_PAUSE_SECONDS = (0.002, 0.1)
_FAREWELL_SECONDS = 5.0
_MOST_REASON = 1 << 12
# What FLARE answers if there is nobody at an address, as opposed to somebody who is busy.
_GONE = (ReturnCode.COMM_ERROR, ReturnCode.TARGET_UNREACHABLE)


def server_address(job: str) -> str:
    return str(FQCN.join([FQCN.ROOT_SERVER, job]))


def site_address(site: str, job: str) -> str:
    return str(FQCN.join([site, job]))


class FlareChannel:
    """One member's end, for one job. Make it when the job's process starts: peers may be quicker."""

    def __init__(self, name: str, cell: Any, addresses: Mapping[str, str]) -> None:
        self.name = name
        self._cell = cell.core_cell
        self._addresses = {peer: address for peer, address in addresses.items() if peer != name}
        self._members = {address: peer for peer, address in self._addresses.items()}
        self._mailbox = Mailbox(name, tuple(self._addresses))
        self._sent = dict.fromkeys(self._addresses, 0)
        self._used = dict.fromkeys(self._addresses, 0)
        self._moves = dict.fromkeys(self._addresses, 0)
        self._last_contact = dict.fromkeys(self._addresses, math.inf)
        # By number: step, frame and since when, of frames of which the peer has not said that they arrived.
        self._underway: dict[str, dict[int, tuple[str, bytes, float]]] = {
            peer: {} for peer in self._addresses
        }
        self._threads = ThreadPoolExecutor(2 * len(self._addresses) + 2, thread_name_prefix="colonnade")
        self._watching: list[asyncio.Task[None]] = []
        self._farewells: list[asyncio.Task[str]] = []
        # Who said goodbye, or why it stops: whoever did was heard over a connection that was good then.
        self._spoke: set[str] = set()
        # Whoever is asked before its process is there is answered for by a process that FLARE's server then complains
        # of. So parties call the server's, which waits to be called and tells each of them who has done so.
        roots = {peer: FQCN.get_root(address) for peer, address in addresses.items()}
        self._relay = next((peer for peer, root in roots.items() if root == FQCN.ROOT_SERVER), None)
        self._called: set[str] = set()
        self._there: set[str] | None = set() if self._relay else None
        for topic, answer in ((_FRAME, self._arrived), (_ROOM, self._requested), (_STOP, self._on_stop)):
            self._cell.register_request_cb(_CHANNEL, topic, answer)

    async def open(self, timeout: float) -> None:
        """Return when every peer's process of this job answers; then watch that it stays."""
        self._mailbox.attach(asyncio.get_running_loop())
        deadline = time.monotonic() + timeout
        for peer in sorted(self._addresses, key=lambda peer: peer != self._relay):
            while not await self._answers(peer):
                for other in self._addresses:
                    await self._refuse_gone(other, "joining", ReturnCode.OK)
                if time.monotonic() > deadline:
                    raise PeerTimeout(
                        f"{self.name} waited {timeout:g} s at step 'joining' for {peer}. See whether {peer} runs "
                        "(`colonnade party start`), and what its log says."
                    )
                await asyncio.sleep(_PAUSE_SECONDS[1])
        self._last_contact = dict.fromkeys(self._addresses, time.monotonic())
        self._watching = [asyncio.create_task(self._watch(peer)) for peer in self._addresses]

    async def _answers(self, peer: str) -> bool:
        if self._relay == self.name:
            self._there = self._called
        elif self._relay is not None and peer != self._relay:
            await self._ask(self._relay, _ROOM, _PING_SECONDS)
        if self._there is not None and peer not in (*self._there, self._relay):
            return False
        return bool(await self._ask(peer, _ROOM, _PING_SECONDS) == ReturnCode.OK)

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self._mailbox.check_peer(to)
        number = self._sent[to]
        self._sent[to] += 1
        pause, most = _PAUSE_SECONDS
        while number - self._used[to] >= AHEAD:
            code = await self._ask(to, _ROOM, _PING_PATIENCE)
            await self._refuse_gone(to, step, code)
            if number - self._used[to] >= AHEAD:
                await asyncio.sleep(pause)
                pause = min(2 * pause, most)
        self._underway[to][number] = (step, frame, time.monotonic())
        loop = asyncio.get_running_loop()
        for headers, piece in self._pieces(to, number, step, frame):
            if len(piece) <= _AT_ONCE:
                code = self._fire(to, headers, piece)
            else:
                code = await loop.run_in_executor(self._threads, self._fire, to, headers, piece)
            await self._refuse_gone(to, step, code)

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        return await self._mailbox.take(peer, step, timeout)

    def stop(self, reason: str | None) -> None:
        for peer in self._addresses:
            headers = {"reason": (reason or "")[:_MOST_REASON], "total": self._sent[peer]}
            # Whoever seems to be gone is told too, and not waited for: this member has its own outcome to write.
            patience = _FAREWELL_SECONDS if self._mailbox.fell(peer) is None else _PING_SECONDS
            self._farewells.append(asyncio.create_task(self._ask(peer, _STOP, patience, headers)))

    async def interrupt(self, reason: str) -> None:
        """End all waiting, for this reason or for a peer that died: an engine then stops the job for everybody."""
        peers = [peer for peer in self._addresses if not self._mailbox.ended(peer)]
        gone = await self._silent(await self._silent(peers))
        lost = [
            peer
            for peer in self._addresses
            if self._mailbox.fell(peer) is not None and peer not in self._spoke
        ]
        if unreachable := [*lost, *gone]:
            reason = f"{' and '.join(unreachable)} cannot be reached any more, so the job was stopped"
            if len(unreachable) == len(self._addresses):
                reason += f". Nobody answers {self.name}: look at its own connection first"
        elif fell := {peer: why for peer in self._addresses if (why := self._mailbox.fell(peer)) is not None}:
            reason = ", and ".join([reason, *(f"{peer} stopped: {why}" for peer, why in fell.items())])
        self._mailbox.interrupt(reason)

    async def _silent(self, peers: list[str]) -> list[str]:
        """Those of these peers that do not answer, within a second each: the engine does not wait much longer."""
        codes = await asyncio.gather(*(self._ask(peer, _ROOM, _PING_SECONDS) for peer in peers))
        return [peer for peer, code in zip(peers, codes, strict=True) if code != ReturnCode.OK]

    async def close(self) -> None:
        """Finish saying goodbye, see that everything has arrived where somebody waits for it, and stop watching."""
        await asyncio.gather(*self._farewells, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                for peer in self._addresses:
                    while self._underway[peer]:
                        if self._mailbox.ended(peer) or self._mailbox.interrupted is not None:
                            break
                        if await self._ask(peer, _ROOM, _PING_SECONDS) in _GONE:
                            break
                        await self._again(peer)
                        await asyncio.sleep(_PAUSE_SECONDS[0])
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _refuse_gone(self, peer: str, step: str, code: str) -> None:
        if code in _GONE:
            await self._lose(peer)
        if (reason := self._mailbox.fell(peer)) is not None:
            raise RemoteProtocolError(f"{self.name} at step {step!r}: {peer} stopped: {reason}")
        if self._mailbox.interrupted is not None:
            raise RemoteProtocolError(f"{self.name} at step {step!r}: {self._mailbox.interrupted}")

    async def _lose(self, peer: str, why: str = "its process cannot be reached any more") -> None:
        others = [other for other in self._addresses if other != peer and not self._mailbox.ended(other)]
        codes = await asyncio.gather(*(self._ask(other, _ROOM, _SURE_SECONDS) for other in others))
        answered = {other for other, code in zip(others, codes, strict=True) if code == ReturnCode.OK}
        answered |= self._spoke
        # While these were asked, another task may have found that one of them is gone.
        silent = [
            other
            for other in self._addresses
            if other not in (peer, *answered) and (self._mailbox.fell(other) is not None or other in others)
        ]
        more = f", nor did {' and '.join(silent)} answer" if silent else ""
        if not answered - {peer}:
            more += f". Nobody answers {self.name}: look at its own connection first"
        self._mailbox.end(peer, why + more)

    async def _watch(self, peer: str) -> None:
        while not self._mailbox.ended(peer):
            await asyncio.sleep(_PING_SECONDS)
            code = await self._ask(peer, _ROOM, self._patience(peer))
            if code == ReturnCode.OK:
                code = await self._again(peer)
            if code in _GONE:
                await self._lose(peer)
            elif time.monotonic() - self._last_contact[peer] > SILENCE_SECONDS:
                await self._lose(peer, f"it has not answered for {SILENCE_SECONDS:g} s")

    async def _again(self, peer: str) -> str:
        for number, (step, frame, since) in list(self._underway[peer].items()):
            if number in self._underway[peer] and time.monotonic() - since > _LOST_SECONDS:
                for headers, piece in self._pieces(peer, number, step, frame):
                    code = await self._ask(peer, _FRAME, self._patience(peer), headers, piece)
                    if code != ReturnCode.OK:
                        return code
        return str(ReturnCode.OK)

    def _patience(self, peer: str) -> float:
        """How long to wait for an answer: not much longer than until the peer has been silent for too long."""
        left = self._last_contact[peer] + SILENCE_SECONDS - time.monotonic()
        return min(_PING_PATIENCE, max(_PING_SECONDS, left))

    def _pieces(
        self, to: str, number: int, step: str, frame: bytes
    ) -> Iterator[tuple[dict[str, Any], bytes]]:
        pieces = max(1, -(-len(frame) // _PIECE))
        for index in range(pieces):
            headers = {"number": number, "step": step, "index": index, "of": pieces, **self._progress(to)}
            yield headers, frame if pieces == 1 else frame[index * _PIECE : (index + 1) * _PIECE]

    def _progress(self, peer: str) -> dict[str, int]:
        used, arrived = self._mailbox.progress(peer)
        return {"taken": used, "arrived": arrived, "moves": sum(self._sent.values())}

    def _learn(self, peer: str, message: Any) -> None:
        used, arrived, moves = (message.get_header(key) for key in ("taken", "arrived", "moves"))
        if type(moves) is int:
            self._last_contact[peer] = time.monotonic()
        if type(moves) is int and moves > self._moves[peer]:
            self._moves[peer] = moves
            self._mailbox.move(peer)
        if type(used) is int and type(arrived) is int:
            self._used[peer] = max(self._used[peer], used)
            for number in [number for number in list(self._underway[peer]) if number < arrived]:
                self._underway[peer].pop(number, None)

    def _fire(self, to: str, headers: Mapping[str, Any], piece: bytes) -> str:
        message = new_cell_message(dict(headers), piece)
        try:
            sent = self._cell.fire_and_forget(_CHANNEL, _FRAME, [self._addresses[to]], message, optional=True)
        except RuntimeError:
            # FLARE has ended this process's own messaging.
            return str(ReturnCode.COMM_ERROR)
        return str(sent.get(self._addresses[to]) or ReturnCode.OK)

    async def _ask(
        self, peer: str, topic: str, timeout: float, headers: dict[str, Any] | None = None, piece: Any = None
    ) -> str:
        def ask() -> str:
            message = new_cell_message(headers or {}, piece)
            try:
                reply = self._cell.send_request(
                    _CHANNEL, topic, self._addresses[peer], message, timeout, optional=True
                )
            except RuntimeError:
                # FLARE has ended this process's own messaging.
                return str(ReturnCode.COMM_ERROR)
            self._learn(peer, reply)
            code = str(reply.get_header(MessageHeaderKey.RETURN_CODE, ""))
            if peer == self._relay and topic == _ROOM and code == ReturnCode.OK:
                # A server of another release says nothing of this; then everybody is asked.
                there = reply.get_header("there")
                self._there = {str(name) for name in there} if isinstance(there, list) else None
            return code

        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    # What follows runs on FLARE's threads.

    def _arrived(self, message: Any) -> Any:
        number, index, of = (message.get_header(key) for key in ("number", "index", "of"))
        step, peer = message.get_header("step"), self._peer(message)
        # FLARE delivers an empty payload as none at all.
        piece = b"" if message.payload is None else message.payload
        shaped = all(type(count) is int for count in (number, index, of)) and isinstance(step, str)
        if peer is None or not shaped or not isinstance(piece, bytes | bytearray | memoryview):
            return make_reply(ReturnCode.INVALID_REQUEST)
        self._learn(peer, message)
        self._mailbox.put(peer, number, step, bytes(piece), index=index, of=of)
        return self._acknowledged(peer)

    def _requested(self, message: Any) -> Any:
        peer = self._peer(message)
        if peer is not None:
            self._called.add(peer)
        reply = self._acknowledged(peer)
        reply.add_headers({"there": sorted(self._called)})
        return reply

    def _on_stop(self, message: Any) -> Any:
        peer, reason, total = self._peer(message), message.get_header("reason"), message.get_header("total")
        if peer is not None:
            self._spoke.add(peer)
            why = readable(reason[:_MOST_REASON]) if isinstance(reason, str) and reason else None
            self._mailbox.end(peer, why, total=total if type(total) is int else None)
        return self._acknowledged(peer)

    def _peer(self, message: Any) -> str | None:
        return self._members.get(message.get_header(MessageHeaderKey.ORIGIN))

    def _acknowledged(self, peer: str | None) -> Any:
        reply = make_reply(ReturnCode.OK)
        if peer is not None:
            reply.add_headers(self._progress(peer))
        return reply
