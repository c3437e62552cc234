"""Runs whose coins are known by who draws them where: one place can be given others, and nothing else changes."""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import colonnade
from colonnade.federation.federation import Federation
from colonnade.randomness import Randomness, SeededRandomness
from colonnade.runtime.journal import Journal
from colonnade.runtime.run import Outcome

ROOT = Path(colonnade.__file__).parent
ROOMS = ("crypto/", "protocols/", "methods/")
ALIGNMENT = "alignment"
_UNSPECIFIC = re.compile(r" [\d.]+| about \w+$")


def place(*, aligned: bool) -> tuple[str, int]:
    """The function of crypto, protocols or methods that draws now, the nearest one, and its line.

    With `aligned` all that alignment draws is drawn at one place.
    """
    frame: FrameType | None = sys._getframe(1)
    found = "elsewhere", 0
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        within = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        if aligned and within == "protocols/alignment.py":
            return ALIGNMENT, 0
        if found[1] == 0 and within.startswith(ROOMS):
            found = f"{within}:{frame.f_code.co_qualname.partition('.<locals>')[0]}", frame.f_lineno
        frame = frame.f_back
    return found


class Coins:
    """A stream for each place that draws; the place in `other` has another one than it would have had.

    `drawn` is what was drawn at each place, `lines` at how many lines of it.
    """

    reproducible = False

    def __init__(self, who: str = "", other: str = "", *, aligned: bool = False) -> None:
        self._who, self._other, self._aligned = who, other, aligned
        self._streams: dict[str, SeededRandomness] = {}
        self.drawn: dict[str, list[bytes]] = defaultdict(list)
        self.lines: dict[str, set[int]] = defaultdict(set)

    def _stream(self) -> tuple[SeededRandomness, list[bytes]]:
        where, line = place(aligned=self._aligned)
        if where not in self._streams:
            self._streams[where] = SeededRandomness(f"{self._who} {where} {where == self._other}")
        self.lines[where].add(line)
        return self._streams[where], self.drawn[where]

    def bytes(self, count: int) -> bytes:
        stream, drawn = self._stream()
        drawn.append(stream.bytes(count))
        return drawn[-1]

    def words(self, count: int) -> NDArray[np.uint64]:
        stream, drawn = self._stream()
        found = stream.words(count)
        drawn.append(found.tobytes())
        return found


class CoinsFederation(Federation):
    def __init__(self, *arguments: Any, other: str = "", aligned: bool = True, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.draws = {member: Coins(member, other, aligned=aligned) for member in self.group.members}
        self.outcomes: list[Outcome] = []

    def randomness(self, member: str, journal: Journal | None = None) -> Randomness:
        return self.draws[member]

    def _run(self, program: Any, *agreed: Any, record: bool = False, **how: Any) -> Outcome:
        self.outcomes.append(super()._run(program, *agreed, record=True, **how))
        return self.outcomes[-1]

    @property
    def lines(self) -> dict[str, int]:
        found: dict[str, set[int]] = defaultdict(set)
        for draws in self.draws.values():
            for where, lines in draws.lines.items():
                found[where] |= lines
        return {where: len(lines) for where, lines in found.items()}

    @property
    def frames(self) -> Mapping[tuple[str, str, str], list[bytes]]:
        """What arrived, by step without its number and without whom it is about, sender and receiver."""
        found: dict[tuple[str, str, str], list[bytes]] = defaultdict(list)
        for outcome in self.outcomes:
            for member, seen in outcome.seen.items():
                for one in seen or ():
                    found[_UNSPECIFIC.sub("", one.step), one.sender, member].append(one.frame)
        return found
