"""From one record zeroed out to one record replaced: two steps, by way of the zero row.

If zeroing a record moves a value by at most Δ in a norm, replacing it moves the value by at most 2Δ in that norm: from
the one row to zero, and from zero to the other. For normal noise that is four times the Rényi divergence, not twice.
"""

from __future__ import annotations

from dataclasses import replace

from colonnade.privacy.events import Approximated, Composed, Event, PoissonSampled, Repeated
from colonnade.privacy.leaves import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixChange,
    MatrixSkellam,
    PerStep,
    PoissonBinomial,
    Skellam,
)


def replaced_from_zeroed(event: Event) -> Event | None:
    """What an event for "record" is, at most, for "record-replaced"; None where no sensitivity can be doubled.

    A sample that hides a zeroed record is proved for that unit only; without it the bound holds whatever the sample is
    (docs/proofs/ledger.md).
    """
    match event:
        case Gaussian() | DiscreteGaussian() | Laplace() | DiscreteLaplace():
            return replace(event, sensitivity=2 * event.sensitivity)
        case Skellam():
            return replace(event, l1=2 * event.l1, l2=2 * event.l2)
        case MatrixSkellam(change=change):
            return replace(event, change=_doubled(change))
        case PerStep():
            return replace(event, sensitivities=tuple(2 * step for step in event.sensitivities))
        case PoissonBinomial():
            return None
        case PoissonSampled():
            return replaced_from_zeroed(event.event)
        case Repeated() | Approximated():
            inner = replaced_from_zeroed(event.event)
            return None if inner is None else replace(event, event=inner)
    parts = tuple(replaced_from_zeroed(part) for part in event.events)
    known = tuple(part for part in parts if part is not None)
    return Composed(known) if len(known) == len(parts) else None


def _doubled(change: MatrixChange) -> MatrixChange:
    return MatrixChange(
        frobenius=2 * change.frobenius,
        weighted_l1=2 * change.weighted_l1,
        fourth=4 * change.fourth,  # a sum of squares
        fourth_l1=2 * change.fourth_l1,
    )
