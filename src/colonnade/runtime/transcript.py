"""What a party saw and sent: sizes for everybody, contents only where a test or an attack asks for them."""

from __future__ import annotations

from collections import defaultdict
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

    A round is one labelled step at which this party had to wait for others.
    """

    sent: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    messages: int = 0
    rounds: int = 0
    _steps: set[str] = field(default_factory=set)

    def note_sent(self, to: str, step: str, size: int) -> None:
        """Count an outgoing frame."""
        self.sent[to, step.split(" ")[0]] += size
        self.messages += 1

    def note_received(self, step: str) -> None:
        """Count the round of an incoming frame."""
        if step not in self._steps:
            self._steps.add(step)
            self.rounds += 1

    @property
    def bytes_sent(self) -> int:
        """Everything this party sent."""
        return sum(self.sent.values())
