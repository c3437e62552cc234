"""What a party saw and sent: sizes for everybody, contents only where a test or an attack asks for them."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """One frame that arrived, as it arrived."""

    sender: str
    step: str
    frame: bytes


@dataclass
class Traffic:
    """Bytes and messages a party sent, by receiver and kind of step, and how many rounds it waited for.

    A round is one labelled step at which this party had to wait for others. `seconds` is wall time by kind of step,
    each stretch counted to the step that ends it; it can depend on the data, so it is for the party itself. So are the
    kinds of steps in `own`, whose number and length depend on people whom the parties do not have in common.
    """

    sent: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    messages: int = 0
    rounds: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    own: set[str] = field(default_factory=set)
    aligning: bool = False
    _steps: set[str] = field(default_factory=set)
    _last: float = field(default_factory=time.perf_counter)

    def note_sent(self, to: str, step: str, size: int) -> None:
        self.sent[to, step_kind(step)] += size
        self.messages += 1
        self._stretch(step)

    def note_received(self, step: str) -> None:
        if step not in self._steps:
            self._steps.add(step)
            self.rounds += 1
        self._stretch(step)

    def _stretch(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step_kind(step)] += now - self._last
        self._last = now
        if self.aligning:
            self.own.add(step_kind(step))

    @property
    def rounds_by_step(self) -> dict[str, int]:
        return dict(Counter(step_kind(step) for step in sorted(self._steps)))

    @property
    def bytes_sent(self) -> int:
        return sum(self.sent.values())

    @property
    def shared(self) -> Traffic:
        """What everybody may read of it: bytes and rounds of all but this party's own steps, and no seconds."""
        steps = {step for step in self._steps if step_kind(step) not in self.own}
        sent = {(to, kind): size for (to, kind), size in self.sent.items() if kind not in self.own}
        return Traffic(sent=sent, rounds=len(steps), _steps=steps)


def step_kind(step: str) -> str:
    """What steps are counted under: their name without what numbers them."""
    return step.split(" ")[0]
