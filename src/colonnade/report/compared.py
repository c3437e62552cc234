"""A figure of a comparison, or on public data, with no more digits than the people it was measured on bear out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def compared_text(value: float, facts: dict[str, Any], name: str, *, spread: float | None = None) -> str:
    """A figure of that name, with its spread over the splits if there are several."""
    from colonnade.evaluation.figures import error_text, figure_text  # facts of ledgers have no figures

    text = figure_text(value, max(spread or 0.0, chance_of(value, facts, name)))
    return text if spread is None else f"{text} ± {error_text(spread)}"


def measured_text(value: float, facts: Mapping[str, Any], name: str) -> str:
    """A figure of that name on public data; of facts that do not say on how many people, three digits."""
    people = facts.get("measured_on")
    if not people:
        return f"{value:.3f}"
    return compared_text(value, {"held_out": people}, "R²" if name.startswith("R²") else "accuracy")


def measured_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured on public data, and how much it is."""
    measured = facts.get("measured") or {}
    return [(str(name), measured_text(float(value), facts, str(name))) for name, value in measured.items()]


def chance_of(value: float, facts: dict[str, Any], name: str) -> float:
    """About how far chance alone moves a mean over the people held out, over all splits.

    Of errors it is as if they were normal, by the delta method; of shares of people about a third of 1/√n.
    """
    people = facts.get("held_out", 0) * facts.get("seeds", 1)
    if not people:
        return 0.0
    match name:
        case "RMSE":
            return abs(value) / math.sqrt(2.0 * people)
        case "mean squared error":
            return abs(value) * math.sqrt(2.0 / people)
        case "R²":
            return abs(1.0 - value) * math.sqrt(2.0 / people)
        case _:
            return 0.3 / math.sqrt(people)
