"""A table of synthetic people from a release: post-processing, so it costs nothing and may be shared as the release is.

It holds each column, each pair of columns, and each column with the class; what three do together is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from colonnade.data.files import csv_text
from colonnade.data.levels import LevelKind
from colonnade.errors import CannotWrite, DataError, DrownedByNoise, InputError, NameInUse, NotConverged
from colonnade.federation.files import whole_file, write_whole
from colonnade.models.tables.margins import Margins
from colonnade.numbers.threads import one_thread
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness, below

Floats = NDArray[np.float32]
Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

COMPONENTS = 300
STEPS = 800
RATE = 0.1
ENOUGH = 0.85
"""Of the residual that the noise alone would leave: there the fit stops."""
LABEL_WEIGHT = 4.0
"""How much more the sums by class count than their noise alone says: what is learnt later rests on them."""
_AFTER = 40
_LEAST_NOISE = 1e-4


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted mixture: for each component, the probabilities of the levels of every column and of the classes.

    Residuals are mean square distances to the release in units of its noise; `start` is that of unrelated columns.
    """

    levels: tuple[Array, ...]
    classes: Array
    steps: int
    residual: float
    label_residual: float
    start: float

    @property
    def reached(self) -> bool:
        return self.residual <= 1.0 and self.label_residual <= 1.0


@one_thread()  # People are drawn from it by chance: a difference in the last digit makes other people.
def fit_mixture(
    margins: Margins,
    *,
    components: int = COMPONENTS,
    steps: int = STEPS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """The mixture nearest to these margins; `NotConverged` where it comes no nearer than columns without relations."""
    state = _State(margins, components, seed)
    left: int | None = None
    step, gram, label, first = 0, np.inf, np.inf, 0.0
    for step in range(1, steps + 1):
        gram, label, gradient = state.loss()
        if step == 1:
            first = gram
        if not np.isfinite(gram):
            break
        if left is None and gram <= ENOUGH and label <= ENOUGH:
            left = _AFTER
        if left is not None:
            left -= 1
            if left <= 0:
                break
        state.descend(gradient, step, RATE if left is None else 0.3 * RATE)
        if progress is not None and step % 20 == 0:
            progress("fit", step, steps)
    if progress is not None:
        progress("fit", steps, steps)
    if not np.isfinite(gram) or (gram > 1.0 and gram > 0.9 * first):
        raise NotConverged(
            f"no table fits this release: after {step} steps the distance is {gram:.3g} of what its noise would leave, "
            f"and was {first:.3g} for columns that have nothing to do with each other. Select fewer columns, or merge "
            "rare levels in the next release."
        )
    levels, classes = state.distributions()
    return Fit(levels, classes, step, float(gram), float(label), float(first))


class _State:
    """Logarithms of the probabilities, what they are fitted to, and Adam's two averages."""

    def __init__(self, margins: Margins, components: int, seed: int) -> None:
        people = margins.people
        widths = [len(column.levels) for column in margins.columns]
        self._starts = np.concatenate([[0], np.cumsum([*widths])]).astype(np.intp)
        self._levels = int(sum(widths))
        self._size = components
        self._codes: Floats = block_diag(*(column.codes for column in margins.columns)).astype(np.float32)
        self._targets = (margins.grams / people).astype(np.float32)
        self._sums = (margins.sums / people).astype(np.float32)
        shares = np.clip(margins.counts / people, 1e-3, None)
        self._shares = (shares / shares.sum()).astype(np.float32)
        self._between = _between([column.codes.shape[1] for column in margins.columns])
        # Without noise there is nothing to stop at; a share of 1e-4 is below what anybody asks of a table.
        noise = max(margins.noise / people, _LEAST_NOISE)
        ratio = margins.sum_noise / margins.noise if margins.noise else 1.0
        # One column has nothing beside it, and no distance.
        pairs = max(float(self._between.sum()), 1.0)
        self._gram_noise = pairs * len(margins.grams) * noise**2
        self._label_noise = self._sums.size * (ratio * noise) ** 2
        # Each unordered pair stands twice in a Gram matrix, so a sum counts twice to count as much.
        self._label_weight = 2.0 * LABEL_WEIGHT / ratio**2
        self._count_weight = 4.0 / ratio**4
        self._conditional = margins.conditional
        self.logits = self._initial(margins, seed)
        self._first = np.zeros_like(self.logits)
        self._second = np.zeros_like(self.logits)

    def _initial(self, margins: Margins, seed: int) -> Floats:
        """The one-way margins for every component, moved at random so that components can part."""
        randomness = SeededRandomness(f"mixture {seed}")
        size = (self._size, self._levels + len(margins.counts))
        uniform = (
            (randomness.words(2 * size[0] * size[1]) >> np.uint64(12)).astype(np.float64) + 0.5
        ) * 2.0**-52
        one, two = uniform.reshape(2, *size)
        logits = np.sqrt(-2.0 * np.log(one)) * np.cos(2.0 * np.pi * two)
        for place, (start, stop) in enumerate(zip(self._starts[:-1], self._starts[1:], strict=True)):
            shares, _ = margins.level_shares(place)
            least = 0.3 / len(shares) / (1.0 + margins.people / 1e4)
            shares = np.maximum(shares, least)
            logits[:, start:stop] += np.log(shares / shares.sum())
        logits[:, self._levels :] += np.log(self._shares)
        return logits.astype(np.float32)

    def loss(self) -> tuple[float, float, Floats]:
        """Both residuals in units of noise, and the gradient by the logarithms."""
        probable = self._probabilities()
        levels, classes = probable[:, : self._levels], probable[:, self._levels :]
        features = levels @ self._codes
        by_feature = np.zeros_like(features)
        slopes = np.zeros_like(probable)
        gram = 0.0
        for kind, target in enumerate(self._targets):
            weighted = features * classes[:, kind : kind + 1] if self._conditional else features
            rest = (weighted.T @ features / self._size - target) * self._between
            gram += float((rest**2).sum())
            pulled = features @ rest
            if self._conditional:
                by_feature += 2.0 * classes[:, kind : kind + 1] * pulled
                slopes[:, self._levels + kind] += (features * pulled).sum(axis=1)
            else:
                by_feature += 2.0 * pulled
        off = classes.T @ features / self._size - self._sums
        by_feature += self._label_weight * (classes @ off)
        slopes[:, self._levels :] += self._label_weight * (features @ off.T)
        slopes[:, self._levels :] += self._count_weight * (classes.mean(axis=0) - self._shares)
        slopes[:, : self._levels] = by_feature @ self._codes.T
        label = float((off**2).sum())
        return gram / self._gram_noise, label / self._label_noise, self._back(probable, slopes)

    def descend(self, gradient: Floats, step: int, rate: float) -> None:
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.01 * (gradient * gradient - self._second)
        mean = self._first / (1.0 - 0.9**step)
        size = np.sqrt(self._second / (1.0 - 0.99**step)) + 1e-12
        self.logits -= np.float32(rate) * mean / size

    def distributions(self) -> tuple[tuple[Array, ...], Array]:
        """The probabilities of levels by column, and of classes."""
        probable = self._probabilities().astype(np.float64)
        pairs = zip(self._starts[:-1], self._starts[1:], strict=True)
        return tuple(probable[:, start:stop] for start, stop in pairs), probable[:, self._levels :]

    def _probabilities(self) -> Floats:
        highest = np.maximum.reduceat(self.logits, self._starts, axis=1)
        powers = np.exp(self.logits - self._spread(highest))
        return np.asarray(powers / self._spread(np.add.reduceat(powers, self._starts, axis=1)))

    def _back(self, probable: Floats, slopes: Floats) -> Floats:
        weighted = probable * slopes
        return np.asarray(weighted - probable * self._spread(np.add.reduceat(weighted, self._starts, axis=1)))

    def _spread(self, by_block: Floats) -> Floats:
        widths = np.diff(np.append(self._starts, self._levels + len(self._shares)))
        return np.repeat(by_block, widths, axis=1)


def _between(widths: list[int]) -> Floats:
    """1 between two columns, 0 within one: what a column is with itself, its own shares say."""
    owner = np.repeat(np.arange(len(widths)), widths)
    return np.asarray(owner[:, None] != owner[None, :], dtype=np.float32)


Codes = NDArray[np.int32]
_PIECE = 1 << 16


def draw_levels(
    fit: Fit, rows: int, randomness: Randomness, progress: Progress | None = None
) -> tuple[list[Codes], Codes]:
    """Levels of so many people by column, and their classes; components are taken in turn, as often each as can be."""
    components = len(fit.classes)
    order = np.argsort(_uniform(randomness, rows), kind="stable")
    chosen = (order % components).astype(np.int32)
    blocks = [*fit.levels, fit.classes]
    drawn = [np.empty(rows, dtype=np.int32) for _ in blocks]
    for start in range(0, rows, _PIECE):
        part = slice(start, min(start + _PIECE, rows))
        for target, block in zip(drawn, blocks, strict=True):
            upto = np.cumsum(block, axis=1)[:, :-1]
            places = _uniform(randomness, part.stop - part.start)
            target[part] = (places[:, None] >= upto[chosen[part]]).sum(axis=1)
        if progress is not None:
            progress("draw", part.stop, rows)
    return drawn[:-1], drawn[-1]


def values_of_levels(column: LevelKind, codes: Codes, randomness: Randomness) -> NDArray[Any]:
    """Values as the party that holds the column would write them: numbers within a bin, levels as declared."""
    return column.written(codes, lambda count: _uniform(randomness, count))


def _uniform(randomness: Randomness, count: int) -> Array:
    return (randomness.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


MOST_ROWS = 10_000_000
FORMATS = (".parquet", ".csv")
NOT_TO_DO = (
    "The number of rows is not a number of people: standard errors, intervals and tests computed from this table are "
    "invalid.",
    "No row is a person. Nothing is to be looked up or decided about anybody from a row.",
    "Evaluate what is trained on it on real people who were held out, never on rows of this table.",
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
            notes.append(f"The shares of {name} are below the noise: ignore them in the table.")
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

    def arrow_array(values: NDArray[Any]) -> Any:
        if values.dtype.kind == "O":
            return array([None if value is None else str(value) for value in values], string())
        return array(values, mask=np.isnan(values)) if values.dtype.kind == "f" else array(values)

    columns = {name: arrow_array(values) for name, values in table.columns.items()}
    with whole_file(target) as file:
        parquet.write_table(arrow_table(columns), file, compression="zstd")
