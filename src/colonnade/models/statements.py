"""Guarantees as plain values and back: what a release or a model carries with it to wherever it goes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.neighbours import parse_unit
from colonnade.privacy.observers import parse_observer


def guarantees_to_data(guarantees: Iterable[Guarantee]) -> list[dict[str, Any]]:
    return [
        {
            "observer": item.observer.name,
            "unit": item.unit.name,
            # JSON has no infinity; no bound at all is null.
            "epsilon": item.epsilon if math.isfinite(item.epsilon) else None,
            "delta": item.delta,
            "assumption": item.assumption,
            "method": item.method,
        }
        for item in guarantees
    ]


def guarantees_from_data(data: Sequence[Any]) -> tuple[Guarantee, ...]:
    """The guarantees that these values describe; whatever is none raises `KeyError`, `TypeError` or `ValueError`."""
    return tuple(
        Guarantee(
            observer=parse_observer(item["observer"]),
            unit=parse_unit(item["unit"]),
            epsilon=math.inf if item["epsilon"] is None else item["epsilon"],
            delta=item["delta"],
            assumption=item["assumption"],
            method=item["method"],
        )
        for item in data
    )
