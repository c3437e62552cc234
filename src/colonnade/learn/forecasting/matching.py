"""What it costs the parties to find the people they have in common, by finding some invented ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from colonnade.data.schema import PublicSchema
from colonnade.learn.federation import Federation
from colonnade.learn.forecasting.clock import Clock
from colonnade.learn.forecasting.cost import Cost, weighted
from colonnade.learn.forecasting.invented import Invented
from colonnade.protocols.alignment import Alignment
from colonnade.runtime.group import Group

# People at the party that holds most: the cost of matching is a straight line in their number.
FEW, MORE = 256, 1024
_UNLIMITED = (1e9, 0.5)


def matching_cost(
    group: Group,
    schemas: Mapping[str, PublicSchema],
    *,
    alignment: Alignment,
    rows: int,
    held: Mapping[str, int],
) -> Cost | None:
    """What matching adds to a run whose parties hold so many people each; None where their ids are simply equal.

    "auto" matches people only where the parties hold different ones, or in another order: with as many at every party
    as they have in common it is taken to find them equal.
    """
    if alignment == "equal" or (alignment == "auto" and all(count == rows for count in held.values())):
        return None
    largest = max(held.values())
    equal = _aligned(group, schemas, "equal", rows=8, held=dict.fromkeys(held, 8))
    # Comparing digests is part of every other run; here it is replaced.
    compared = weighted([(-1.0, equal)])
    if largest <= MORE:
        found = _aligned(group, schemas, alignment, rows=rows, held=held)
        return _sum(found, compared, found.seconds)
    few, more = (
        _aligned(
            group,
            schemas,
            alignment,
            rows=max(1, rows * size // largest),
            held={party: max(1, count * size // largest) for party, count in held.items()},
        )
        for size in (FEW, MORE)
    )
    weight = (largest - FEW) / (MORE - FEW)
    whole = weighted([(1.0 - weight, few), (weight, more)])
    return _sum(whole, compared, whole.seconds)


def _sum(found: Cost, compared: Cost, seconds: float) -> Cost:
    return replace(weighted([(1.0, found), (1.0, compared)]), seconds=seconds)


def _aligned(
    group: Group,
    schemas: Mapping[str, PublicSchema],
    alignment: Alignment,
    *,
    rows: int,
    held: Mapping[str, int],
) -> Cost:
    """The cost of aligning alone, for parties with `rows` people in common, in different orders unless "equal"."""
    tables = []
    for number, (party, count) in enumerate(held.items()):
        ids = [f"person {place}" for place in range(rows)]
        ids += [f"{party} {place}" for place in range(count - rows)]
        if alignment != "equal":
            ids = ids[number % len(ids) :] + ids[: number % len(ids)]
        tables.append(Invented({party: schemas[party]}, len(ids)).table(party, ids))
    federation = Federation(
        tables,
        budget=_UNLIMITED,
        server=group.server,
        threshold=group.threshold,
        keepers=group.keepers,
        disclosed_noise=group.disclosed_noise,
        alignment=alignment,
    )
    with Clock() as clock:
        outcome = federation.align()
    return Cost.of(outcome, seconds=clock.seconds)
