"""One member's record of one run, so that the run can go on after a crash without anything happening twice.

A member that goes on runs its program again from the beginning, with the key of its randomness and the frames it had
received. So it comes to the frames that it had sent, each of which must be the one in the record, byte for byte; it is
sent again only to a peer that did not receive it.

Every frame is on the disk before it leaves, and what was received before anything that was made from it leaves: no
noise is ever drawn twice for different messages. The folder is as private as the member's data, and is deleted when
the run has ended or, where a run is short, when the common people are found.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from colonnade.errors import CannotWrite, InputError, LocalProtocolError, RemoteProtocolError
from colonnade.randomness import KeyedRandomness, SystemRandomness
from colonnade.runtime.channel import Channel, Frame
from colonnade.runtime.party import AskingAccountant
from colonnade.runtime.wire import Envelope, Message, decode, encode

RESUMED = "resumed"
KNOWN, PROVED = "known entries", "proved entries"
# Said anew when a run goes on and never kept: ledgers have gone on since, or one of them was put back.
_NEVER_KEPT = frozenset({KNOWN, PROVED})
_KEY, _FRAMES = "key", "frames"
_HEAD = struct.Struct("<BHHQI")
_SENT, _RECEIVED = 0, 1
_PIECE = 1 << 20


class ReplayRandomness(KeyedRandomness):
    """A member's randomness for one run, from a key that only the member has: nobody else can repeat it."""

    reproducible = False


@dataclass(frozen=True)
class FramePosition:
    step: str
    start: int
    size: int


class Journal:
    """The record in a folder. Make it with `begin` or `resume`; it is one process's until that closes it or ends.

    Two that went on from one record would draw alike for messages that differ, and the difference of the two
    would show what the noise was to hide.
    """

    def __init__(self, folder: Path, key: bytes, file: BinaryIO) -> None:
        self._folder = folder
        self.key = key
        self.sent: dict[str, list[FramePosition]] = defaultdict(list)
        self.received: dict[str, list[FramePosition]] = defaultdict(list)
        self._file = file
        self._end = 0
        self.resumed = False

    @classmethod
    def begin(cls, folder: Path) -> Journal:
        folder.mkdir(mode=0o700, parents=True)
        key = SystemRandomness().bytes(32)
        with open(folder / _KEY, "xb", opener=_own) as file:
            file.write(key)
            os.fsync(file.fileno())
        return cls(folder, key, _alone(folder))

    @classmethod
    def resume(cls, folder: Path) -> Journal:
        """The record of a run that stopped. A last entry that was not written whole had not left, and is dropped."""
        try:
            if not (folder / _FRAMES).exists():
                raise FileNotFoundError
            file = _alone(folder)
            key = (folder / _KEY).read_bytes()
        except OSError:
            raise InputError(
                f"{folder} holds no record of a run that stopped: it has ended, or never began here. Submit the job "
                "anew; it is charged anew."
            ) from None
        journal = cls(folder, key, file)
        journal.resumed = True
        with (folder / _FRAMES).open("rb") as content:
            for kind, peer, kept in _entries(content):
                (journal.sent if kind == _SENT else journal.received)[peer].append(kept)
                journal._end = kept.start + kept.size
        file.truncate(journal._end)
        return journal

    def frame(self, kept: FramePosition) -> bytes:
        self._file.flush()
        with (self._folder / _FRAMES).open("rb") as content:
            content.seek(kept.start)
            return content.read(kept.size)

    def note_sent(self, peer: str, step: str, frame: bytes) -> None:
        """Keep a frame, on the disk, before it leaves."""
        self.sent[peer].append(self._append(_SENT, peer, step, frame, now=True))

    def note_received(self, peer: str, step: str, frame: bytes) -> None:
        """Keep a frame before it is used; the next one that leaves puts it on the disk first."""
        self.received[peer].append(self._append(_RECEIVED, peer, step, frame))

    def close(self) -> None:
        # What a full disk did not take had not left.
        with suppress(OSError):
            self._file.close()

    def forget(self) -> None:
        self.close()
        destroy(self._folder)

    def _append(self, kind: int, peer: str, step: str, frame: bytes, *, now: bool = False) -> FramePosition:
        names = peer.encode(), step.encode()
        head = _HEAD.pack(kind, len(names[0]), len(names[1]), len(frame), zlib.crc32(frame))
        start = self._end + len(head) + len(names[0]) + len(names[1])
        try:
            self._file.write(b"".join((head, *names, frame)))
            if now:
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise CannotWrite(
                f"{self._folder} cannot be written to ({error.strerror or error}), and nothing leaves that is not in "
                "the record of the run. Make room there, then resume the job."
            ) from None
        self._end = start + len(frame)
        return FramePosition(step, start, len(frame))


def destroy(folder: Path) -> None:
    """Write over the key of a record, then delete all of it. A disk that keeps old blocks keeps them all the same."""
    with suppress(OSError), (folder / _KEY).open("r+b") as key:
        key.write(bytes(32))
        os.fsync(key.fileno())
    shutil.rmtree(folder, ignore_errors=True)


def _own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def journals_in(folder: Path, members: tuple[str, ...]) -> Mapping[str, Journal]:
    """A record for each member who runs in this process: those of a run that stopped there, or new ones."""
    places = {member: folder / member for member in members}
    holders = [member for member, place in places.items() if place.exists()]
    if holders and len(holders) < len(members):
        raise InputError(
            f"{folder} has records of {', '.join(holders)} and none of "
            f"{', '.join(member for member in members if member not in holders)}. To go on, restore the whole folder; "
            "to begin a new run, at its own cost, name an empty one."
        )
    journals: dict[str, Journal] = {}
    try:
        for member, place in places.items():
            journals[member] = Journal.resume(place) if holders else Journal.begin(place)
    except BaseException:
        for journal in journals.values():
            journal.close()
        raise
    return journals


@dataclass(frozen=True, eq=False)
class ResumedLedger(AskingAccountant):
    """An accountant asked again for a charge that it may have made: the same noise for the same release, once."""

    def charge(self, release: Any, dataset: str, *, fresh: bool = False) -> Any:
        # The run's name and its noise come from the record, so this id stands for one draw whoever asks again.
        return self.ledger.charge(release, dataset, fresh=False)

    def keep_receipt(self, receipt: Any, *, after: int | None = None) -> None:
        """Remember the head of a peer's ledger when it charged, which other runs may have passed since."""
        self.ledger.keep_receipt(receipt, after=0)


def _alone(folder: Path) -> BinaryIO:
    file = os.fdopen(_own(str(folder / _FRAMES), os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(
            f"{folder}: this run still goes on in another process. Stop it first, or wait until it has ended."
        ) from None
    return file


class JournalChannel:
    """A channel that keeps the record, and goes through it first where there is one."""

    def __init__(self, name: str, inner: Channel, journal: Journal) -> None:
        self.name = name
        self._inner = inner
        self._journal = journal
        self._at: dict[tuple[int, str], int] = defaultdict(int)
        self._has: dict[str, int] = defaultdict(int)
        self._ended = False

    def end(self) -> None:
        """Delete the record; from here on this is the channel alone."""
        self._ended = True
        self._journal.forget()

    @property
    def resumed(self) -> bool:
        return self._journal.resumed

    async def compare(self, peers: tuple[str, ...], *, timeout: float) -> None:
        for peer in peers:
            had = Message({"frames": len(self._journal.received[peer])})
            await self._inner.send(peer, RESUMED, encode(Envelope("", self.name, peer, RESUMED, 0), had))
        for peer in peers:
            _, said = decode(await self._inner.receive(peer, RESUMED, timeout))
            self._has[peer] = said.integer("frames")
            if not 0 <= self._has[peer] <= len(self._journal.sent[peer]):
                raise RemoteProtocolError(
                    f"{self.name} at step {RESUMED!r}: {peer} has {self._has[peer]} frames of {self.name}, whose "
                    f"record has {len(self._journal.sent[peer])}: one is not of this run. Submit the job anew."
                )

    async def send(self, to: str, step: str, frame: bytes) -> None:
        if self._ended or step in _NEVER_KEPT:
            await self._inner.send(to, step, frame)
            return
        number, recorded = self._next(_SENT, to), self._journal.sent[to]
        if number >= len(recorded):
            self._journal.note_sent(to, step, frame)
        elif recorded[number].step != step or self._journal.frame(recorded[number]) != frame:
            raise LocalProtocolError(
                f"{self.name} at step {step!r}: going on would send {to} something else than the record says was sent, "
                "so it stops. Data, job or program changed since. Submit the job anew; it is charged anew."
            )
        if number >= self._has[to]:
            await self._inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        if self._ended or step in _NEVER_KEPT:
            return await self._inner.receive(peer, step, timeout)
        number, recorded = self._next(_RECEIVED, peer), self._journal.received[peer]
        if number >= len(recorded):
            frame = await self._inner.receive(peer, step, timeout)
            self._journal.note_received(peer, step, bytes(frame))
            return frame
        kept = recorded[number]
        if kept.step != step:
            raise LocalProtocolError(
                f"{self.name} is at step {step!r}, where its record is at {kept.step!r}. Submit the job anew."
            )
        return self._journal.frame(kept)

    def stop(self, reason: str | None) -> None:
        self._inner.stop(reason)

    def _next(self, kind: int, peer: str) -> int:
        number = self._at[kind, peer]
        self._at[kind, peer] = number + 1
        return number


def _entries(content: BinaryIO) -> Iterator[tuple[int, str, FramePosition]]:
    at = 0
    while len(head := content.read(_HEAD.size)) == _HEAD.size:
        kind, peer_size, step_size, size, check = _HEAD.unpack(head)
        names = content.read(peer_size + step_size)
        start = at + _HEAD.size + len(names)
        checksum, left = 0, size
        while left and (piece := content.read(min(left, _PIECE))):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
        if left or checksum != check:
            return
        yield kind, names[:peer_size].decode(), FramePosition(names[peer_size:].decode(), start, size)
        at = start + size
