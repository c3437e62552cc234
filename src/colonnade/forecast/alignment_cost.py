"""What it costs the parties to find the people they have in common, by finding some invented ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from colonnade.data.schema import PublicSchema
from colonnade.federation.federation import Federation
from colonnade.forecast.clock import Clock
from colonnade.forecast.cost import Cost, weighted
from colonnade.forecast.synthetic import Invented
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.intersection import Way, way_for
from colonnade.runtime.group import Group

# People at the party that holds most: the cost of matching is a straight line in their number.
SIZES: dict[Way, tuple[int, int]] = {"curve": (256, 1024), "oprf": (8192, 32768)}
_UNLIMITED = (1e9, 0.5)


def matched_by(group: Group, *, alignment: Alignment, rows: int, held: Mapping[str, int]) -> Way | None:
    """How parties that hold so many people each find the common ones; None where their ids are simply equal.

    Pairs of owners may take different ways: this is the one of the pair that holds most.

    "auto" matches people only where the parties hold different ones, or in another order: with as many at every party
    as they have in common it is taken to find them equal.

    >>> matched_by(Group.of(("bank", "shop")), alignment="auto", rows=9, held={"bank": 9, "shop": 1_000_000})
    'oprf'
    """
    if alignment == "equal" or (alignment == "auto" and all(count == rows for count in held.values())):
        return None
    if alignment == "curve" or alignment == "oprf":
        return alignment
    hub = group.active or group.owners[0]
    return way_for(held[hub], max(count for party, count in held.items() if party != hub))


def matching_cost(
    group: Group,
    schemas: Mapping[str, PublicSchema],
    *,
    alignment: Alignment,
    rows: int,
    held: Mapping[str, int],
) -> Cost | None:
    """What matching adds to a run whose parties hold so many people each; None where their ids are simply equal."""
    way = matched_by(group, alignment=alignment, rows=rows, held=held)
    if way is None:
        return None
    few_people, more_people = SIZES[way]
    largest = max(held.values())
    equal = _aligned(group, schemas, "equal", rows=8, held=dict.fromkeys(held, 8))
    # Comparing digests is part of every other run; here it is replaced.
    compared = weighted([(-1.0, equal)])
    if way == "oprf":
        # What a process does once, loading kernels above all, is no part of what each id costs.
        _aligned(group, schemas, way, rows=1, held=dict.fromkeys(held, 1))
    if largest <= more_people:
        matched = _aligned(group, schemas, alignment, rows=rows, held=held)
        return _sum(matched, compared, matched.seconds)
    few, more = (
        _aligned(
            group,
            schemas,
            way,
            rows=max(1, rows * size // largest),
            held={party: max(1, count * size // largest) for party, count in held.items()},
        )
        for size in (few_people, more_people)
    )
    weight = (largest - few_people) / (more_people - few_people)
    whole = weighted([(1.0 - weight, few), (weight, more)])
    return _sum(whole, compared, whole.seconds)


def _sum(matched: Cost, compared: Cost, seconds: float) -> Cost:
    return replace(weighted([(1.0, matched), (1.0, compared)]), seconds=seconds)


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
