"""People to predict for: columns by name, what a model needs to read them, and some columns of a release."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.arrays import columns_by_name
from colonnade.data.block import Block, code_mapping
from colonnade.data.declaring import nearest_name
from colonnade.data.encoder import Encoder
from colonnade.data.kinds import Column
from colonnade.data.labels import LabelBlock
from colonnade.errors import DataError, ModelError

Array = NDArray[np.float64]
Encoders = Sequence[tuple[str, Encoder]]


class NamedColumns(Protocol):
    """A table in memory: an Arrow table, a data frame, a mapping from names to values."""

    def __getitem__(self, name: str, /) -> Any: ...


Rows = NamedColumns | NDArray[Any] | Sequence[Sequence[float]]


def column_names(encoders: Encoders) -> tuple[str, ...]:
    """The raw columns in order; a name that occurs at two parties is written party.column."""
    count = Counter(column.name for _, encoder in encoders for column in encoder.columns)
    return tuple(
        column.name if count[column.name] == 1 else f"{party}.{column.name}"
        for party, encoder in encoders
        for column in encoder.columns
    )


def feature_names(encoders: Encoders) -> tuple[str, ...]:
    """The features in order; one that could be either of two parties' is written party.feature."""
    columns = Counter(column.name for _, encoder in encoders for column in encoder.columns)
    features = Counter(name for _, encoder in encoders for name in encoder.feature_names)
    named: list[str] = []
    for party, encoder in encoders:
        of = [column for column, span in encoder.spans.items() for _ in encoder.feature_names[span]]
        # Features of a map belong to no column by name.
        mapped = [""] * (len(encoder.feature_names) - len(of))
        for name, column in zip(encoder.feature_names, [*of, *mapped], strict=True):
            plain = columns[column] <= 1 and features[name] == 1
            named.append(name if plain else f"{party}.{name}")
    return tuple(named)


def _encoded(rows: Any, width: int) -> Array:
    try:
        given = np.asarray(rows)
        array = given.astype(np.float64, casting="same_kind" if given.dtype.kind not in "iub" else "unsafe")
    except (TypeError, ValueError):
        raise DataError(
            f"rows without column names must be encoded features, {width} numbers each; "
            "what was given is not numbers. Give raw columns by name instead."
        ) from None
    if array.ndim != 2 or array.shape[1] != width:
        raise DataError(
            f"rows without column names must be encoded features of shape (people, {width}), not "
            f"{array.shape}. Give raw columns by name, or encode them with MomentRelease.features."
        )
    if not np.isfinite(array).all():
        raise DataError("the encoded features hold values that are not finite numbers. Leave those rows out.")
    return array


class ReadsPeople:
    """What reads people by the columns of its encoders."""

    encoders: tuple[tuple[str, Encoder], ...]
    attributes: int

    @property
    def columns(self) -> int:
        return sum(encoder.width for _, encoder in self.encoders)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return feature_names(self.encoders)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The raw columns that `features` reads; one that two parties use is written party.column."""
        return column_names(self.encoders)

    @property
    def named_columns(self) -> tuple[Column, ...]:
        """The raw columns as they are declared, under those names."""
        declared = (column for _, encoder in self.encoders for column in encoder.columns)
        return tuple(
            replace(column, name=name) for name, column in zip(self.column_names, declared, strict=True)
        )

    def features(self, rows: Rows) -> Array:
        """People as rows of features, divided by √m: raw columns by name are encoded, encoded rows are checked."""
        table = columns_by_name(rows)
        if table is None:
            return _encoded(rows, self.columns)
        return self.block_features(code_mapping(table, self.named_columns))

    def block_features(self, block: Block) -> Array:
        """The same of `named_columns` in a block."""
        names, parts = iter(self.column_names), []
        for _, encoder in self.encoders:
            own = {column.name: block.columns[next(names)] for column in encoder.columns}
            parts.append(encoder.encode(Block(own, None, block.rows)))
        return np.concatenate(parts, axis=1) / math.sqrt(self.attributes)


@dataclass(frozen=True)
class InputSpec(ReadsPeople):
    """Encoders by party, the label's declaration and m, by whose root features are divided: enough to encode rows."""

    encoders: tuple[tuple[str, Encoder], ...]
    label: LabelBlock
    attributes: int = 0

    def __post_init__(self) -> None:
        declared = sum(encoder.attributes for _, encoder in self.encoders)
        object.__setattr__(self, "attributes", self.attributes or declared)

    @classmethod
    def joined(cls, parts: Sequence[InputSpec], label: LabelBlock) -> InputSpec:
        """Parts of one frame beside each other again; refused where one of them is not here."""
        encoders = tuple(pair for part in parts for pair in part.encoders)
        attributes = parts[0].attributes
        here = sum(encoder.attributes for _, encoder in encoders)
        if here < attributes:
            raise ModelError(
                f"the model reads {attributes} columns, but the parts found here, of "
                f"{', '.join(party for party, _ in encoders)}, read {here} of them: a party's part is missing. "
                "Give the whole folder of the run."
            )
        return cls(encoders, label, attributes)

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(party for party, encoder in self.encoders for _ in encoder.feature_names)


@dataclass(frozen=True)
class ReleaseUnit:
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


def units(encoders: Encoders) -> tuple[ReleaseUnit, ...]:
    """The units of a release in the order of its features: columns as in `column_names`, maps as party.kind."""
    units: list[ReleaseUnit] = []
    names = iter(column_names(encoders))
    start = 0
    for party, encoder in encoders:
        called = {column.name: next(names) for column in encoder.columns}
        for column in encoder.plain:
            span = encoder.spans[column.name]
            place = slice(start + span.start, start + span.stop)
            units.append(ReleaseUnit(called[column.name], party, (column,), place, False))
        if encoder.map is not None:
            width = sum(span.stop - span.start for span in encoder.spans.values())
            place = slice(start + width, start + encoder.width)
            units.append(ReleaseUnit(f"{party}.{encoder.map.name}", party, encoder.mapped, place, True))
        start += encoder.width
    return tuple(units)


def selected(
    encoders: Encoders, columns: Iterable[str] | None, parties: Iterable[str] | None
) -> tuple[NDArray[np.intp], tuple[tuple[str, Encoder], ...]]:
    """The places of the features of these units, and their encoders; what is not held is a `DataError`."""
    selection, known = units(encoders), [party for party, _ in encoders]
    if parties is not None:
        chosen_parties = _listed("parties", parties)
        for party in chosen_parties:
            if party not in known:
                holds = f"it has those of {', '.join(known)}." + nearest_name(party, known)
                raise DataError(f"this release holds no columns of party {party!r}; {holds}")
        selection = tuple(unit for unit in selection if unit.party in chosen_parties)
    if columns is not None:
        selection = _of_columns(selection, _listed("columns", columns))
    if not selection:
        raise DataError("no columns were selected. Name at least one, or leave the argument out for all.")
    places = np.concatenate([np.arange(unit.span.start, unit.span.stop) for unit in selection])
    kept = []
    for party, encoder in encoders:
        names = {column.name for unit in selection if unit.party == party for column in unit.columns}
        if names:
            keeps_map = any(unit.mapped and unit.party == party for unit in selection)
            chosen = tuple(column for column in encoder.columns if column.name in names)
            kept.append((party, Encoder(chosen, encoder.mode, encoder.map if keeps_map else None)))
    return places, tuple(kept)


def _listed(argument: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise DataError(f"{argument} = {names!r} is a text. Give a list of names: {argument}=[{names!r}].")
    return list(names)


def _of_columns(candidates: tuple[ReleaseUnit, ...], columns: list[str]) -> tuple[ReleaseUnit, ...]:
    chosen: set[str] = set()
    left = set(columns)
    for unit in candidates:
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
            raise DataError(_absence(name, candidates))
    return tuple(unit for unit in candidates if unit.name in chosen)


def _absence(name: str, candidates: tuple[ReleaseUnit, ...]) -> str:
    shared = [unit.name for unit in candidates if unit.name == f"{unit.party}.{name}"]
    if shared:
        return f"more than one party has a column {name!r}. Say which: {', '.join(shared)}."
    known = [unit.name for unit in candidates]
    also = [column.name for unit in candidates if unit.mapped for column in unit.columns]
    shown = f" It holds {', '.join(known[:8])}{' and others' if len(known) > 8 else ''}."
    return f"this release holds no column {name!r}." + (nearest_name(name, known + also) or shown)
