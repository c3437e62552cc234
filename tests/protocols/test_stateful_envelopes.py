"""A frame is taken if and only if it is the next one, in this run, at this step, in this direction."""

import asyncio
import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from typed import untyped

from colonnade.errors import RemoteProtocolError
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message, decode

GROUP = Group.of(("bank", "insurer"), active="bank")
RUNS = ("first", "second")
STEPS = ("columns 0", "columns 1", "noise")
members = st.sampled_from(GROUP.members)


class Wire:
    """What was sent last, and what will be received next."""

    def __init__(self) -> None:
        self.sent, self.next = b"", b""

    async def send(self, to: str, step: str, frame: Any) -> None:
        self.sent = frame

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return self.next

    def stop(self, reason: Any) -> None:
        return None


class Envelopes(RuleBasedStateMachine):
    """Three parties in two runs; whoever carries the frames may keep, repeat, reorder and redirect them."""

    frames = Bundle("frames")

    @initialize()
    def meet(self) -> None:
        self.parties = {
            (run, name): Party(name, GROUP, Wire(), untyped(None), run=run, timeout=5.0)
            for run in RUNS
            for name in GROUP.members
        }
        self.used: dict[Any, Any] = {}
        self.count = 0

    @rule(
        target=frames,
        run=st.sampled_from(RUNS),
        sender=members,
        receiver=members,
        step=st.sampled_from(STEPS),
    )
    def send(self, run: Any, sender: str, receiver: str, step: str) -> Any:
        party = self.parties[run, sender]
        asyncio.run(tell(party, receiver, step, Message({"n": self.count})))
        self.count += 1
        return (run, sender, receiver, step, untyped(party.channel).sent)

    @rule(
        frame=frames,
        run=st.sampled_from(RUNS),
        receiver=members,
        peer=members,
        step=st.sampled_from(STEPS),
        faithful=st.booleans(),
    )
    def deliver(self, frame: Any, run: Any, receiver: str, peer: str, step: str, faithful: Any) -> None:
        """Hand a frame to somebody who waits for somebody's step; refusals end the run, so try on a copy."""
        if faithful:
            run, peer, receiver, step, _ = frame
        party = self.parties[run, receiver]
        trial = copy.copy(party)
        trial.numbers, trial.channel = dict(party.numbers), Wire()
        trial.channel.next = frame[-1]
        number = self.used.get((run, peer, receiver), 0)
        is_next = frame[:4] == (run, peer, receiver, step) and decode(frame[-1])[0].number == number
        try:
            asyncio.run(hear(trial, peer, step))
        except RemoteProtocolError as error:
            assert not is_next, f"the next frame was refused: {error}"
            assert receiver in str(error) and peer in str(error) and repr(step) in str(error)
            return
        assert is_next, "a frame was taken that is not the next one"
        party.numbers = trial.numbers
        self.used[run, peer, receiver] = number + 1

    @rule(frame=frames, cut=st.integers(1, 30), receiver=members, peer=members)
    def deliver_a_piece(self, frame: Any, cut: Any, receiver: str, peer: str) -> None:
        trial = copy.copy(self.parties[frame[0], receiver])
        trial.numbers, trial.channel = dict(trial.numbers), Wire()
        trial.channel.next = frame[-1][:-cut]
        try:
            asyncio.run(hear(trial, peer, frame[3]))
        except RemoteProtocolError:
            return
        raise AssertionError("a piece of a frame was taken")

    @invariant()
    def nobody_takes_more_than_was_sent(self) -> None:
        for (run, sender, receiver), used in getattr(self, "used", {}).items():
            assert used <= self.parties[run, sender].numbers.get(("to", receiver), 0)


Envelopes.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestEnvelopes = Envelopes.TestCase
