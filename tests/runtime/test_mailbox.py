"""Whatever the order in which threads deliver, a line hands out each frame once and in order."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime import wire as mailbox
from colonnade.runtime.wire import AHEAD, Mailbox


def used(box: Mailbox, count: int, timeout: float = 0.05) -> list[bytes]:
    async def main() -> list[bytes]:
        box.attach(asyncio.get_running_loop())
        return [await box.take("bank", "s", timeout) for _ in range(count)]

    return asyncio.run(main())


@given(st.permutations(range(AHEAD)), st.lists(st.integers(0, AHEAD - 1), max_size=4))
def test_frames_come_out_once_and_in_order(order: list[int], again: list[int]) -> None:
    box = Mailbox("shop", ("bank",))
    for number in (*order, *again):
        box.put("bank", number, "s", bytes([number]))
    assert used(box, AHEAD) == [bytes([number]) for number in range(AHEAD)]
    with pytest.raises(PeerTimeout, match=r"shop waited 0.01 s at step 's' for bank"):
        used(box, 1, 0.01)


@given(st.binary(min_size=1, max_size=40), st.integers(1, 6), st.randoms(use_true_random=False))
def test_pieces_in_any_order_make_the_frame(frame: bytes, size: int, shuffler: object) -> None:
    pieces = [frame[at : at + size] for at in range(0, len(frame), size)]
    order = list(range(len(pieces)))
    shuffler.shuffle(order)  # type: ignore[attr-defined]
    box = Mailbox("shop", ("bank",))
    for index in (*order, *order):
        box.put("bank", 0, "s", pieces[index], index=index, of=len(pieces))
    assert used(box, 1) == [frame]


def test_memory_is_bounded_whatever_is_sent() -> None:
    box = Mailbox("shop", ("bank",))
    for number in range(100):
        box.put("bank", number, "s", bytes(8))
        box.put("stranger", number, "s", bytes(8))
    box.put("bank", 0, "s", b"", index=5, of=2)
    box.put("bank", 0, "s", b"", index=0, of=1 << 30)
    assert len(box._lines["bank"].whole) == AHEAD
    assert list(box._lines) == ["bank"]
    assert (box.progress("bank"), box.progress("stranger")) == ((0, AHEAD), (0, 0))


def test_what_arrived_before_a_peer_left_is_handed_out_and_then_its_reason_is_told() -> None:
    box = Mailbox("shop", ("bank",))
    box.put("bank", 0, "s", b"x")
    box.end("bank", "its budget")
    box.end("bank", "something else")
    box.end("stranger", "no")
    assert box.ended("bank")
    assert used(box, 1) == [b"x"]
    with pytest.raises(RemoteProtocolError, match="bank stopped: its budget"):
        used(box, 1)


def test_a_goodbye_may_overtake_the_last_frames() -> None:
    box = Mailbox("shop", ("bank",))
    box.end("bank", None, total=2)
    assert (box.ended("bank"), box.fell("bank")) == (True, None)
    for number in range(3):
        box.put("bank", number, "s", bytes([number]))
    assert used(box, 2) == [bytes([0]), bytes([1])]
    gone = Mailbox("shop", ("bank",))
    gone.end("bank", None, total=0)
    with pytest.raises(RemoteProtocolError, match="bank stopped before it sent"):
        used(gone, 1)
    gone.end("bank", "it fell after all")
    assert gone.fell("bank") == "it fell after all"


def test_a_waiting_party_wakes_up_for_a_frame_of_another_thread() -> None:
    box = Mailbox("shop", ("bank",))

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        box.attach(loop)
        waiting = asyncio.create_task(box.take("bank", "s", 5))
        await asyncio.sleep(0.01)
        await loop.run_in_executor(None, lambda: box.put("bank", 0, "s", b"x"))
        return await waiting

    assert asyncio.run(main()) == b"x"


def test_an_interruption_ends_waiting_but_what_has_arrived_is_handed_out() -> None:
    box = Mailbox("shop", ("bank",))
    box.put("bank", 0, "s", b"x")
    box.interrupt("the job was stopped")
    assert used(box, 1) == [b"x"]
    with pytest.raises(RemoteProtocolError, match="shop waits at step 's' for bank: the job was stopped"):
        used(box, 1, 60)
    box.end("bank", "its own reason")
    with pytest.raises(RemoteProtocolError, match="bank stopped: its own reason"):
        used(box, 1, 60)


def test_a_peer_that_gets_on_with_its_work_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(mailbox, "time", SimpleNamespace(monotonic=lambda: now[0]))
    box = Mailbox("shop", ("bank", "server"))

    async def late(moved: float) -> bytes:
        box.attach(asyncio.get_running_loop())
        taking = asyncio.create_task(box.take("bank", "s", 10))
        await asyncio.sleep(0)
        now[0] = moved
        box.move("bank")
        box.move("nobody")
        now[0] = moved + 9
        box.move("server")
        await asyncio.sleep(0)
        box.put("bank", 0, "s", b"at last")
        return await taking

    assert asyncio.run(late(50.0)) == b"at last"
    now[0] = 1000.0
    with pytest.raises(PeerTimeout, match="waited 0 s"):
        used(box, 1, 0)
