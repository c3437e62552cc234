"""Watching a run: who sent what to whom, and what one side saw of it, from the frames of the run itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt

from colonnade import Federation
from colonnade.runtime.wire import Message, decode

# In every run, and about no column: greetings, agreement, alignment, farewell.
_MANNERS = (
    *("hello", "job", "introduction", "id", "set", "blinded", "twice", "common", "people", "rows", "plan"),
    *("receipts", "key", "mask", "finished", "comparison", "closing"),
)
_LEAST = 1000


class Watched(Federation):
    """A federation in which every member keeps what it saw."""

    def run(self, session: Any, spec: Any, **how: Any) -> Any:
        """Run a protocol, recorded."""
        return super().run(session, spec, **{**how, "record": True})


def seen(federation: Federation, member: str, step: str) -> Iterator[tuple[str, str, Message]]:
    """Sender, step and message of everything that a member received in steps of this kind, in the last run."""
    for each in federation.runs[-1].outcome.seen[member] or ():
        if each.step.split(" ")[0] == step:
            yield each.sender, each.step, decode(each.frame)[1]


def steps(federation: Federation) -> str:
    """The last run as lines: who sent how much to whom, in which kinds of steps."""
    lines = []
    for sender, traffic in federation.runs[-1].outcome.traffic.items():
        by_receiver: dict[str, list[str]] = defaultdict(list)
        for (receiver, step), size in traffic.sent.items():
            by_receiver[receiver].append(f"{step} {size:,}")
        lines += [
            f"{sender} to {receiver}, bytes: {', '.join(what)}" for receiver, what in by_receiver.items()
        ]
    return "\n".join(lines)


def draw_flow(federation: Federation, title: str) -> None:
    """Who sent what to whom in the last run: an arrow for each direction, and the steps with the most bytes on it."""
    outcome = federation.runs[-1].outcome
    names = list(outcome.traffic)
    # Two owners below, the server above; more of them in a circle.
    angles = [7 * math.pi / 6 + 2 * math.pi * place / len(names) for place in range(len(names))]
    places = {name: (2 * math.cos(a), math.sin(a)) for name, a in zip(names, angles, strict=True)}
    _, axes = plt.subplots(figsize=(7, 3.6))
    for sender, traffic in outcome.traffic.items():
        sent: dict[str, dict[str, int]] = defaultdict(dict)
        for (receiver, step), size in traffic.sent.items():
            if size >= _LEAST and step not in _MANNERS:
                sent[receiver][step] = size
        for receiver, kinds in sent.items():
            (x, y), (u, v) = places[sender], places[receiver]
            bend = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.16", "shrinkA": 26, "shrinkB": 26}
            axes.annotate("", (u, v), (x, y), arrowprops={**bend, "color": "0.3"})
            # On the sender's side of the bent arrow, so that the two directions do not write over each other.
            horizontal = (0.5 * (x + u) + 0.09 * (v - y), 0.5 * (y + v) - 0.09 * (u - x))
            most = sorted(kinds, key=lambda kind: -kinds[kind])[:2]
            text = "\n".join(f"{kind}, {kinds[kind] / 1000:,.0f} kB" for kind in most)
            axes.text(
                *horizontal,
                text,
                ha="center",
                va="center",
                fontsize=8,
                bbox={"fc": "white", "ec": "none", "pad": 1},
            )
    for name, place in places.items():
        axes.text(*place, name, ha="center", va="center", bbox={"boxstyle": "round", "fc": "white"})
    axes.set(xlim=(-2.6, 2.6), ylim=(-1.2, 1.2), title=title)
    axes.axis("off")
    plt.show()
