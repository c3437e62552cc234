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
    each stretch counted to the step that ends it; it can depend on the data, so it is for the party itself.
    """

    sent: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    messages: int = 0
    rounds: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _steps: set[str] = field(default_factory=set)
    _last: float = field(default_factory=time.perf_counter)

    def note_sent(self, to: str, step: str, size: int) -> None:
        """Count an outgoing frame."""
        self.sent[to, step.split(" ")[0]] += size
        self.messages += 1
        self._stretch(step)

    def note_received(self, step: str) -> None:
        """Count the round of an incoming frame."""
        if step not in self._steps:
            self._steps.add(step)
            self.rounds += 1
        self._stretch(step)

    def _stretch(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step.split(" ")[0]] += now - self._last
        self._last = now

    @property
    def rounds_by_step(self) -> dict[str, int]:
        """How many rounds this party waited for, by kind of step."""
        return dict(Counter(step.split(" ")[0] for step in sorted(self._steps)))

    @property
    def bytes_sent(self) -> int:
        """Everything this party sent."""
        return sum(self.sent.values())
