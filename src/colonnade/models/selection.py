"""Some of the columns of a release, as a release of their own: a part of a public matrix is public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.declaring import nearest_name
from colonnade.data.encoder import Encoder
from colonnade.data.kinds import Column
from colonnade.errors import DataError
from colonnade.models.columns import Encoders, column_names


@dataclass(frozen=True)
class Unit:
    """What can be selected or ranked: one column, or all columns that went through one party's map together."""

    name: str
    party: str
    columns: tuple[Column, ...]
    span: slice
    mapped: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Every way in which this unit as a whole can be asked for."""
        full = () if self.mapped else (f"{self.party}.{self.columns[0].name}",)
        return (self.name, *full)


def units(encoders: Encoders) -> tuple[Unit, ...]:
    """The units of a release, in the order of its features.

    A column is called as in `column_names`; a map is called party.kind, or by its own name.
    """
    units: list[Unit] = []
    names = iter(column_names(encoders))
    start = 0
    for party, encoder in encoders:
        called = {column.name: next(names) for column in encoder.columns}
        for column in encoder.plain:
            span = encoder.spans[column.name]
            place = slice(start + span.start, start + span.stop)
            units.append(Unit(called[column.name], party, (column,), place, False))
        if encoder.map is not None:
            width = sum(span.stop - span.start for span in encoder.spans.values())
            place = slice(start + width, start + encoder.width)
            units.append(Unit(f"{party}.{encoder.map.name}", party, encoder.mapped, place, True))
        start += encoder.width
    return tuple(units)


def selected(
    encoders: Encoders, columns: Iterable[str] | None, parties: Iterable[str] | None
) -> tuple[NDArray[np.intp], tuple[tuple[str, Encoder], ...]]:
    """The places of the features of these units, and their encoders; what is not held is a `DataError`."""
    held = units(encoders)
    if parties is not None:
        held = _of_parties(encoders, held, _listed("parties", parties))
    if columns is not None:
        held = _of_columns(held, _listed("columns", columns))
    if not held:
        raise DataError("no columns were selected. Name at least one, or leave the argument out for all.")
    places = np.concatenate([np.arange(unit.span.start, unit.span.stop) for unit in held])
    kept = []
    for party, encoder in encoders:
        names = {column.name for unit in held if unit.party == party for column in unit.columns}
        if names:
            keeps_map = any(unit.mapped and unit.party == party for unit in held)
            chosen = tuple(column for column in encoder.columns if column.name in names)
            kept.append((party, Encoder(chosen, encoder.mode, encoder.map if keeps_map else None)))
    return places, tuple(kept)


def _listed(argument: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise DataError(f"{argument} = {names!r} is a text. Give a list of names: {argument}=[{names!r}].")
    return list(names)


def _of_parties(encoders: Encoders, held: tuple[Unit, ...], parties: list[str]) -> tuple[Unit, ...]:
    known = [party for party, _ in encoders]
    for party in parties:
        if party not in known:
            raise DataError(
                f"this release holds no columns of party {party!r}; it has those of {', '.join(known)}."
                + nearest_name(party, known)
            )
    return tuple(unit for unit in held if unit.party in parties)


def _of_columns(held: tuple[Unit, ...], columns: list[str]) -> tuple[Unit, ...]:
    chosen: set[str] = set()
    left = set(columns)
    for unit in held:
        if left & set(unit.names):
            chosen.add(unit.name)
            left -= set(unit.names)
        inside = {name for column in unit.columns for name in (column.name, f"{unit.party}.{column.name}")}
        if unit.mapped and left & inside:
            missing = [
                column.name
                for column in unit.columns
                if not {column.name, f"{unit.party}.{column.name}"} & left
            ]
            if missing:
                raise DataError(
                    f"column {min(left & inside)!r} went through the map of {unit.party} together with "
                    f"{len(unit.columns) - 1} others and has no features of its own. Select them all, by "
                    f"{unit.name!r}, or none."
                )
            chosen.add(unit.name)
            left -= inside
    for name in columns:
        if name in left:
            raise DataError(_not_held(name, held))
    return tuple(unit for unit in held if unit.name in chosen)


def _not_held(name: str, held: tuple[Unit, ...]) -> str:
    shared = [unit.name for unit in held if unit.name == f"{unit.party}.{name}"]
    if shared:
        return f"more than one party has a column {name!r}. Say which: {', '.join(shared)}."
    known = [unit.name for unit in held]
    also = [column.name for unit in held if unit.mapped for column in unit.columns]
    shown = f" It holds {', '.join(known[:8])}{' and others' if len(known) > 8 else ''}."
    return f"this release holds no column {name!r}." + (nearest_name(name, known + also) or shown)
