"""A run that stopped anywhere goes on to where it would have come, and nobody sees two messages for one draw."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from typed import untyped

from colonnade.errors import CannotWrite, ColonnadeError, InputError, LocalProtocolError, RemoteProtocolError
from colonnade.runtime.channel import Channel, Frame, memory_network
from colonnade.runtime.journal import Journal, JournalChannel, ReplayRandomness
from colonnade.sites.kit import Kit

NAMES = ("bank", "shop")
ROUNDS = 4


class Crash(Exception):
    """A process that ended here."""


class Mortal:
    """A channel that ends its member after so many frames, before or after the last one left."""

    def __init__(self, inner: Channel, lives: int, seen: list[tuple[str, str, bytes]]) -> None:
        self.inner, self.lives, self.seen = inner, lives, seen

    def _age(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise Crash

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self._age()
        self.seen.append((to, step, frame))
        await self.inner.send(to, step, frame)
        self._age()

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        self._age()
        return await self.inner.receive(peer, step, timeout)

    def stop(self, reason: str | None) -> None:
        self.inner.stop(reason)


async def program(name: str, channel: Channel, randomness: ReplayRandomness) -> str:
    """Each round is made from fresh coins and everything heard so far, as noisy messages are."""
    (peer,) = [other for other in NAMES if other != name]
    heard = b""
    for number in range(ROUNDS):
        mine = hashlib.sha256(randomness.bytes(8) + heard).digest()
        await channel.send(peer, f"round {number}", mine)
        heard += bytes(await channel.receive(peer, f"round {number}", 1))
    return hashlib.sha256(heard).hexdigest()


def attempt(
    folder: Path, lives: int, seen: list[tuple[str, str, bytes]], *, resumed: bool, victim: str = "bank"
) -> dict[str, str] | None:
    """One attempt of both members; None if somebody fell."""

    async def member(name: str, inner: Channel) -> str:
        record = folder / name
        journal = Journal.resume(record) if resumed else Journal.begin(record)
        wire: Channel = Mortal(inner, lives if name == victim else 10**6, seen)
        channel = JournalChannel(name, wire, journal)
        try:
            if resumed:
                await channel.compare(tuple(other for other in NAMES if other != name), timeout=1)
            return await program(name, channel, ReplayRandomness(journal.key))
        except BaseException:
            inner.stop("it fell")
            raise
        finally:
            journal.close()

    async def main() -> list[Any]:
        network = memory_network(NAMES)
        return await asyncio.gather(*(member(name, network[name]) for name in NAMES), return_exceptions=True)

    results = asyncio.run(main())
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Crash | ColonnadeError):
            raise result
    if any(isinstance(result, BaseException) for result in results):
        return None
    return dict(zip(NAMES, results, strict=True))


@pytest.mark.parametrize("lives", range(3 * ROUNDS))
@pytest.mark.parametrize("victim", NAMES)
def test_a_run_that_fell_anywhere_ends_as_its_messages_say(tmp_path: Path, lives: int, victim: str) -> None:
    seen: list[tuple[str, str, bytes]] = []
    ended = attempt(tmp_path, lives, seen, resumed=False, victim=victim)
    again = 1
    while ended is None:
        # It falls once more while it goes on, a little later, and is then left alone.
        ended = attempt(tmp_path, lives if again == 1 else 10**6, seen, resumed=True, victim=victim)
        again += 1
        assert again < 5
    rounds = {(to, step): frame for to, step, frame in seen if step.startswith("round")}
    for to, step, frame in seen:
        assert not step.startswith("round") or rounds[to, step] == frame, "one step, two messages"
    for name in NAMES:
        announced = b"".join(rounds[name, f"round {number}"] for number in range(ROUNDS))
        assert ended[name] == hashlib.sha256(announced).hexdigest()


def test_this_search_would_notice_new_coins(tmp_path: Path) -> None:
    assert attempt(tmp_path, 4, [], resumed=False) is None
    (tmp_path / "bank" / "key").write_bytes(bytes(32))
    journal = Journal.resume(tmp_path / "bank")
    channel = JournalChannel("bank", memory_network(NAMES)["bank"], journal)
    with pytest.raises(LocalProtocolError, match="something else than the record says"):
        asyncio.run(program("bank", channel, ReplayRandomness(journal.key)))
    journal.close()


def test_an_entry_that_was_not_written_whole_is_dropped(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "j")
    journal.note_sent("shop", "s", b"whole")
    journal.note_received("shop", "t", b"torn")
    journal.close()
    whole = (tmp_path / "j" / "frames").read_bytes()
    for cut in range(1, 10):
        (tmp_path / "j" / "frames").write_bytes(whole[:-cut])
        found = Journal.resume(tmp_path / "j")
        (kept,) = found.sent["shop"]
        assert (kept.step, found.frame(kept)) == ("s", b"whole") and not found.received["shop"]
        found.close()


def test_a_disk_that_fills_up_stops_the_run_by_name_and_it_goes_on_later(tmp_path: Path) -> None:
    class Full:
        def write(self, content: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            raise OSError(28, "No space left on device")

    journal = Journal.begin(tmp_path / "j")
    journal.note_sent("shop", "s", b"whole")
    whole, journal._file = journal._file, untyped(Full())
    with pytest.raises(CannotWrite, match=r"No space left on device.*resume the job"):
        journal.note_sent("shop", "t", b"more")
    journal.close()
    whole.close()
    found = Journal.resume(tmp_path / "j")
    assert [kept.step for kept in found.sent["shop"]] == ["s"]
    found.close()


def test_a_peer_that_has_more_than_was_sent_is_refused(tmp_path: Path) -> None:
    async def talk() -> None:
        network = memory_network(NAMES)
        ahead = Journal.begin(tmp_path / "shop")
        ahead.note_received("bank", "s", b"x")
        mine = JournalChannel("bank", network["bank"], Journal.begin(tmp_path / "bank"))
        theirs = JournalChannel("shop", network["shop"], ahead)
        await asyncio.gather(mine.compare(("shop",), timeout=1), theirs.compare(("bank",), timeout=1))

    with pytest.raises(RemoteProtocolError, match="shop has 1 frames of bank, whose record has 0"):
        asyncio.run(talk())


def test_without_a_record_nothing_is_resumed_and_an_ended_run_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record of a run that stopped"):
        Journal.resume(tmp_path / "none")
    journal = Journal.begin(tmp_path / "j")
    assert (tmp_path / "j").stat().st_mode & 0o077 == 0
    journal.note_sent("shop", "s", b"x")
    journal.forget()
    assert not (tmp_path / "j").exists()


def test_a_record_at_another_step_is_named(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "j")
    journal.note_received("shop", "noise", b"x")
    channel = JournalChannel("bank", memory_network(NAMES)["bank"], journal)
    with pytest.raises(LocalProtocolError, match="at step 'columns', where its record is at 'noise'"):
        asyncio.run(channel.receive("shop", "columns", 1))


def test_a_record_is_one_process_s_until_it_is_closed(tmp_path: Path) -> None:
    running = Journal.begin(tmp_path / "record")
    with pytest.raises(InputError, match="still goes on in another process"):
        Journal.resume(tmp_path / "record")
    running.close()
    resumed = Journal.resume(tmp_path / "record")
    with pytest.raises(InputError, match="still goes on in another process"):
        Journal.resume(tmp_path / "record")
    resumed.close()
    Journal.resume(tmp_path / "record").forget()


@pytest.mark.parametrize("name", ["../backup", "a/b", "", ".."])
def test_a_record_is_found_by_the_id_of_a_job_and_by_nothing_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not the id of a job"):
        Kit(tmp_path, untyped("client"), {}).run_folder(name)
