"""A table of synthetic people from a release: post-processing, so it costs nothing and may be shared as the release is.

It holds each column, each pair of columns, and each column with the class; what three do together is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.files import csv_text
from colonnade.errors import CannotWrite, DataError, DrownedByNoise, InputError, NameInUse
from colonnade.federation.files import whole_file, write_whole
from colonnade.models.tables.margins import Margins
from colonnade.models.tables.mixture import Fit, Progress, draw_levels, fit_mixture, values_of_levels
from colonnade.randomness import SeededRandomness, SystemRandomness, below

MOST_ROWS = 10_000_000
FORMATS = (".parquet", ".csv")
NOT_TO_DO = (
    "The number of rows is not a number of people: standard errors, intervals and tests computed from this table are "
    "invalid.",
    "No row is a person. Nothing is to be looked up or decided about anybody from a row.",
    "Judge what is trained on it on real people who were held out, never on rows of this table.",
    "It holds columns by themselves and in pairs, each with the class. What three columns do together is an artefact "
    "of the fit: boosted trees and networks learn it as if it were true.",
)
NOT_TO_DO_CONDITIONAL = (
    *NOT_TO_DO[:3],
    "It holds columns by themselves and in pairs, by class. What three columns do together within a class is an "
    "artefact of the fit.",
)


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Synthetic people by column, in the parties' own units and spellings, with the manifest that goes with them."""

    columns: Mapping[str, NDArray[Any]]
    manifest: Mapping[str, Any]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"SyntheticTable({len(self)} synthetic people, {len(self.columns)} columns)"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table to a new .parquet or .csv file, and its manifest beside it; the manifest's path."""
        target = checked_target(Path(path))
        try:
            if target.suffix == ".csv":
                columns = (
                    ["" if value is None or value != value else value for value in values.tolist()]
                    for values in self.columns.values()
                )
                write_whole(target, csv_text([self.column_names, *zip(*columns, strict=True)]))
            else:
                _write_parquet(self, target)
            companion = manifest_of(target)
            write_whole(companion, json.dumps(dict(self.manifest), ensure_ascii=False, indent=2) + "\n")
        except OSError as error:
            raise CannotWrite(
                f"cannot write {target}: {error.strerror}. Choose a folder you can write to."
            ) from None
        return companion


@dataclass(frozen=True, eq=False)
class TableModel:
    """The mixture fitted to a release, from which any number of tables is drawn; manifests tell its `origin`."""

    margins: Margins
    fit: Fit
    origin: Mapping[str, Any]

    @cached_property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if not self.fit.reached:
            notes.append(
                f"The fit stopped after {self.fit.steps} steps with {self.fit.residual:.2f} times the distance that "
                "the noise alone would leave: pairs of columns are less exact than the release would allow."
            )
        for name in self.margins.drowned():
            notes.append(
                f"The shares of {name} do not stand out of the noise: what the table says of it is noise."
            )
        for name in [column.name for column in self.margins.columns if column.column.open_ended]:
            notes.append(f"{name} declares no low or no high: how far its outer bins reach is a guess.")
        return tuple(notes)

    def draw(self, rows: int, *, seed: int | None = None, progress: Progress | None = None) -> SyntheticTable:
        """So many synthetic people; with a seed, the same ones each time."""
        checked_rows(rows)
        seed = below(1 << 32, SystemRandomness()) if seed is None else seed
        randomness = SeededRandomness(f"table {seed}")
        levels, classes = draw_levels(self.fit, rows, randomness, progress)
        columns = {
            column.name: values_of_levels(column.column, codes, randomness)
            for column, codes in zip(self.margins.columns, levels, strict=True)
        }
        label = self.margins.label
        if label.classes:
            name = str(label.label and label.label.column)
            if name in columns:
                raise DataError(f"the label and a column of another party are both called {name!r}.")
            columns[name] = label.names(classes)
        return SyntheticTable(MappingProxyType(columns), self._manifest(rows, seed))

    def _manifest(self, rows: int, seed: int) -> dict[str, Any]:
        conditional = self.margins.conditional
        return {
            "format": "colonnade synthetic table",
            "version": 1,
            "rows": rows,
            "seed": seed,
            **self.origin,
            "extra_epsilon": 0,
            "fit": {
                "components": len(self.fit.classes),
                "steps": self.fit.steps,
                "residual_over_noise": round(self.fit.residual, 4),
                "label_residual_over_noise": round(self.fit.label_residual, 4),
                "residual_of_unrelated_columns": round(self.fit.start, 4),
                "reached_the_noise": self.fit.reached,
            },
            "notes": list(self.notes),
            "not_to_do": list(NOT_TO_DO_CONDITIONAL if conditional else NOT_TO_DO),
        }


def table_model(
    margins: Margins, origin: Mapping[str, Any], *, progress: Progress | None = None
) -> TableModel:
    """A mixture fitted to these margins, unless they are all noise."""
    drowned = margins.drowned()
    if len(drowned) == len(margins.columns):
        raise DrownedByNoise(
            f"the shares of {'every column are' if len(drowned) > 1 else f'{drowned[0]} are'} within their noise, so a "
            "table would be noise. Declare fewer bins or categories, use more people, or a larger ε."
        )
    return TableModel(margins, fit_mixture(margins, progress=progress), origin)


def checked_rows(rows: int) -> int:
    """How many rows, if a table can have so many."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or not 1 <= rows <= MOST_ROWS:
        raise InputError(
            f"a table has from 1 to {MOST_ROWS:,} rows, not {rows!r}. More rows than people add nothing to what a "
            "release says."
        )
    return int(rows)


def checked_target(path: Path) -> Path:
    """A new file for a table, and for its manifest, if they can be made there."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: a table is written as {' or '.join(FORMATS)}. Name such a file.")
    for used in (path, manifest_of(path)):
        if used.exists() or used.is_symlink():
            raise NameInUse(f"{used} exists already. Name another file, or remove it first.")
    if not path.parent.is_dir():
        raise CannotWrite(f"cannot write {path}: there is no folder {path.parent}. Make it first.")
    return path


def manifest_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.manifest.json")


def _write_parquet(table: SyntheticTable, target: Path) -> None:
    from pyarrow import array, parquet, string
    from pyarrow import table as arrow_table

    def held(values: NDArray[Any]) -> Any:
        if values.dtype.kind == "O":
            return array([None if value is None else str(value) for value in values], string())
        return array(values, mask=np.isnan(values)) if values.dtype.kind == "f" else array(values)

    columns = {name: held(values) for name, values in table.columns.items()}
    with whole_file(target) as file:
        parquet.write_table(arrow_table(columns), file, compression="zstd")
