"""What moments and margin descent cost against people, columns and parties: time, bytes and memory.

Every run has a process for each member (`scale_processes`) and is kept as soon as it is there, so that an interruption
loses one. What would take longer than `MOST_SECONDS` of the processor is a forecast by the law of what was run, and is
marked as such.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from colonnade.errors import ColonnadeError
from reproduction.scale_page import METHODS_TRIED, PLAIN, TRIED, Runs, section_of, title_of
from reproduction.scale_processes import Members, Shape
from reproduction.sections import Part, Pieces, Section

MOST_SECONDS = 35.0
KEPT = Path("build/scale.json")


def study(_data: Path, quick: bool) -> list[Part]:
    """One section for each of people, columns and parties."""
    if quick:
        return [Part(title_of("rows"), partial(_section, "rows", (400, 800), kept=None))]
    return [
        Part(title_of(what), partial(_section, what, values, kept=KEPT)) for what, values in TRIED.items()
    ]


def _section(what: str, values: Sequence[int], *, kept: Path | None) -> Section:
    return section_of(what, _runs(what, values, kept), drawn=kept is not None)


def _runs(what: str, values: Sequence[int], kept: Path | None) -> Mapping[str, Runs]:
    """For each method every value's figures: measured, foretold, or none where the method has no plan."""
    pieces = Pieces(kept)
    found: dict[str, dict[int, Mapping[str, float]]] = {method: {} for method in METHODS_TRIED}
    shapes = {value: Shape(**(PLAIN | {what: value})) for value in values}
    for parties in dict.fromkeys(shape.parties for shape in shapes.values()):
        with Members(parties) as members:
            for method, runs in found.items():
                for value, shape in shapes.items():
                    if shape.parties != parties:
                        continue
                    law, make = _law(runs, value), partial(members.run, method, shape)
                    try:
                        runs[value] = (
                            pieces.get(f"{method} {shape}", make)
                            if law["all_seconds"] < MOST_SECONDS
                            else law
                        )
                    except ColonnadeError as error:
                        sys.stdout.write(f"{method} {shape}: {error}\n")
                        continue
                    sys.stdout.write(f"{method} {shape}: {runs[value]['all_seconds']:.2f} s\n")
                    sys.stdout.flush()
    return found


def _law(runs: Runs, value: int) -> dict[str, float]:
    """Time and bytes by power laws through the last two values, at least in proportion; none where there are fewer."""
    if len(runs) < 2:
        return {"all_seconds": 0.0}
    before, last = sorted(runs)[-2:]

    def beyond(key: str) -> float:
        low, high = runs[before][key], runs[last][key]
        power = max(1.0, math.log(high / low) / math.log(last / before))
        return high * float((value / last) ** power)

    return {"all_seconds": beyond("all_seconds"), "bytes": beyond("bytes"), "forecast": 1.0}
