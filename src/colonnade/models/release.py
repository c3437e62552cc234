"""The one object every model here is fitted from: a noisy matrix of second moments, paid for and public."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import LabelBlock, LabelBlocks, RealLabel, label_named
from colonnade.errors import DataError, ModelDamaged, path_of
from colonnade.markup import html_table
from colonnade.models.estimator import NoRows
from colonnade.models.files.document import IMPOSSIBLE, Privacy, guarantees_to_data
from colonnade.models.files.release_file import read_release, release_fields, write_release
from colonnade.models.inputs import Array, ReadsPeople, selected
from colonnade.models.moments import ClassMoments, ConstantMoments, ValueMoments
from colonnade.models.tables.margins import Margins, level_columns
from colonnade.models.tables.synthetic import Progress, SyntheticTable, TableModel, checked_rows, table_model
from colonnade.privacy.guarantee import Guarantee


@dataclass(frozen=True, eq=False)
class MomentRelease(ReadsPeople, NoRows):
    """Σ z̃z̃ᵀ plus noise over the aligned rows, on the integer grid, with all that is needed to read it.

    A row is z̃ = (features, label block): the encoded columns of the parties in the order of `encoders`, each divided
    by √m for `attributes` = m and rounded on the grid of `gamma`; then the label's block. Products that are zero for
    every row, such as that of two classes, are not released and are 0.

    `mu` is half the variance of the noise on the diagonal, with every party's part in it: 2·mu there, mu elsewhere. A
    `reproducible` release had noise from a seed and protects nobody. A `conditional` one has one matrix of (features,
    the constant) for each class, along the diagonal of `matrix`. Models are fitted to `label` where none of
    `more_labels` is named.

    >>> EXAMPLE
    MomentRelease(1 feature of 1 party, a label of kind 'real', 50 rows, noise 0.1)
    >>> EXAMPLE.gram
    array([[16.]])
    """

    matrix: NDArray[np.int64]
    gamma: int
    rows: int
    encoders: tuple[tuple[str, Encoder], ...]
    label: LabelBlock
    mu: Fraction
    guarantees: tuple[Guarantee, ...]
    plan: str
    run: str
    reproducible: bool
    attributes: int = 0
    conditional: bool = False
    more_labels: tuple[LabelBlock, ...] = ()

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix)
        declared = sum(encoder.attributes for _, encoder in self.encoders)
        if self.attributes and self.attributes < declared:
            raise ValueError(f"{self.attributes} attributes in all, but the encoders have {declared}")
        object.__setattr__(self, "attributes", self.attributes or declared)
        width = self.columns + self.labels.width
        if {block.among for block in self.labels.blocks} != {self.label.among} or (
            self.label.among < len(self.labels.blocks)
        ):
            raise ValueError("labels of one release have equal shares of one norm")
        if self.conditional:
            if not self.labels.one_hot:
                raise ValueError("a release by class has the classes of one label")
            width = self.label.width * (self.columns + 1)
        if matrix.dtype != np.int64 or matrix.shape != (width, width):
            raise ValueError(
                f"a release of {self.columns} features and {self.labels.width} label columns is an int64 matrix "
                f"of {width} × {width}, not {matrix.dtype} of shape {matrix.shape}"
            )
        if not np.array_equal(matrix, matrix.T):
            raise ValueError("a matrix of second moments is symmetric")
        if np.any(matrix[~self.opened]):
            raise ValueError("products of two classes are not released and must be 0")
        if self.gamma < 2 or self.rows < 1 or self.mu < 0:
            given = f"{self.gamma}, {self.rows}, {self.mu}"
            raise ValueError(f"gamma ≥ 2, rows ≥ 1 and mu ≥ 0 are needed, not {given}")
        matrix.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)

    def __repr__(self) -> str:
        features = "1 feature" if self.columns == 1 else f"{self.columns} features"
        parties = "1 party" if len(self.encoders) == 1 else f"{len(self.encoders)} parties"
        by_class = " by class" if self.conditional else ""
        about = f"labels {', '.join(self.label_names)}" if self.more_labels else _described(self.label)
        return (
            f"MomentRelease({features} of {parties}{by_class}, {about}, {self.rows} rows, "
            f"noise {self.noise:.3g})"
        )

    @property
    def labels(self) -> LabelBlocks:
        return LabelBlocks((self.label, *self.more_labels))

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(block.label.column for block in self.labels.blocks if block.label is not None)

    def for_label(self, label: str | None = None) -> MomentRelease:
        """The release of one of its labels, the first if none is named, at no cost; itself where it has no other.

        Of k labels each carries √k times the noise that it would have alone, and a count k times.
        """
        blocks = self.labels.blocks
        declared = tuple(block.label for block in blocks if block.label is not None)
        place = 0 if label is None else declared.index(label_named(label, declared))
        if not self.more_labels:
            return self
        span = self.labels.spans[place]
        kept = np.r_[0 : self.columns, self.columns + span.start : self.columns + span.stop]
        return replace(self, matrix=self.matrix[np.ix_(kept, kept)], label=blocks[place], more_labels=())

    @property
    def opened(self) -> NDArray[np.bool_]:
        """Which entries of the matrix were released; the others are 0 for every row."""
        if self.conditional:
            size = self.columns + 1
            return np.kron(np.eye(self.label.width), np.ones((size, size))).astype(bool)
        seen = np.ones((self.columns + self.labels.width,) * 2, dtype=bool)
        seen[self.columns :, self.columns :] = self.labels.opened
        return seen

    @property
    def parts(self) -> int:
        return self.label.width if self.conditional else 1

    @property
    def noise(self) -> float:
        return math.sqrt(self.mu * self.parts) / self.gamma**2

    @property
    def border(self) -> float:
        return self.label.constant(self.gamma) / self.gamma

    @property
    def gram(self) -> Array:
        """Σ xxᵀ with noise, in natural units."""
        return np.asarray(self.grams.sum(axis=0))

    @property
    def grams(self) -> Array:
        """Σ xxᵀ with noise, of everybody, or of each class where the release tells them apart."""
        spans = [slice(start, start + self.columns) for start in self.starts]
        return np.array([self._block(span, span) for span in spans]) / float(self.gamma**2)

    @property
    def starts(self) -> range:
        """Where the matrices of the classes begin; one of everybody begins at 0."""
        return range(0, self.parts * (self.columns + 1), self.columns + 1)

    @property
    def privacy(self) -> Privacy:
        return Privacy(self.guarantees, reproducible=self.reproducible)

    def select(
        self, columns: Iterable[str] | None = None, *, parties: Iterable[str] | None = None
    ) -> MomentRelease:
        """The release of some columns or parties, with the label, at no cost; what one map took is taken together."""
        places, kept = selected(self.encoders, columns, parties)
        if self.conditional:
            one = np.append(places, self.columns)
            places = np.concatenate([one + start for start in self.starts])
        else:
            places = np.concatenate([places, np.arange(self.columns, len(self.matrix))])
        return replace(self, matrix=self.matrix[np.ix_(places, places)], encoders=kept)

    def class_moments(self) -> ClassMoments:
        """G, class sums and class counts, in natural units."""
        if not self.label.one_hot:
            raise DataError(
                f"this release has {_described(self.label)}, so it cannot be used to classify. "
                "Make one whose active party declares a label of kind 'classes'."
            )
        one = self.label.constant(self.gamma)
        edge = self._edge
        sums, counts = self._block(edge, slice(0, self.columns)), np.diag(self._block(edge, edge))
        if self.conditional:
            edges = [start + self.columns for start in self.starts]
            sums = np.array([self._block(slice(e, e + 1), slice(e - self.columns, e))[0] for e in edges])
            counts = np.diag(self.matrix)[edges].astype(np.float64)
        sums, counts = sums / float(self.gamma * one), counts / float(one**2)
        return ClassMoments(self.gram, sums, counts, self.noise, self.border, self.parts)

    def value_moments(self) -> ValueMoments:
        """G, n, Σx, Σxv, Σv and Σv² for the label v scaled to [−1, 1]."""
        if not self.label.numeric:
            raise DataError(
                f"this release has {_described(self.label)}, so it cannot be used for regression. "
                "Make one whose active party declares a label of kind 'real' or 'count'."
            )
        one = self.label.constant(self.gamma)
        edge = self._edge
        sums = self._block(edge, slice(0, self.columns)) / float(self.gamma * one)
        values = self._block(edge, edge) / float(one**2)
        return ValueMoments(
            self.gram,
            float(values[0, 0]),
            sums[0],
            cross=sums[1],
            value_total=float(values[0, 1]),
            value_square=float(values[1, 1]),
            noise=self.noise,
            border=self.border,
        )

    def plain_moments(self) -> ConstantMoments:
        """G, n and Σx, whatever the label is."""
        if self.label.one_hot:
            return self.class_moments().plain()
        if self.label.numeric:
            return self.value_moments().plain()
        one = self.label.constant(self.gamma)
        total = self._block(slice(-1, None), slice(0, self.columns))[0] / float(self.gamma * one)
        return ConstantMoments(self.gram, float(self.matrix[-1, -1]) / one**2, total, self.noise, self.border)

    def margins(self) -> Margins:
        """Counts and moments of columns one and two at a time, where the coding tells their levels apart."""
        if self.label.numeric:
            raise DataError(
                f"this release has {_described(self.label)}, of which it knows averages only. Tables are made of "
                "releases with classes or without a label."
            )
        columns = level_columns(self.encoders)
        scale = float(self.attributes)
        if self.label.one_hot:
            known = self.class_moments()
            sums, counts, noise = known.sums, known.counts, known.noise / math.sqrt(known.parts)
        else:
            plain = self.plain_moments()
            sums, counts, noise = plain.total[None, :], np.array([plain.count]), plain.noise
        return Margins(
            columns,
            self.label,
            self.grams * scale,
            sums * math.sqrt(scale),
            counts,
            noise=noise * scale,
            sum_noise=noise / self.border * math.sqrt(scale),
            count_noise=math.sqrt(2.0) * noise / self.border**2,
        )

    def table_model(self, *, progress: Progress | None = None) -> TableModel:
        """A model of synthetic people fitted to this release, from which any number of tables is drawn."""
        return table_model(self.margins(), self._origin(), progress=progress)

    def synthesize(
        self, rows: int, *, seed: int | None = None, progress: Progress | None = None
    ) -> SyntheticTable:
        """A table of so many synthetic people that agrees with this release, in its parties' own units: at no cost."""
        checked_rows(rows)
        return self.table_model(progress=progress).draw(rows, seed=seed, progress=progress)

    def _origin(self) -> dict[str, object]:
        return {
            "release": {
                "run": self.run,
                "plan": self.plan,
                "people": self.rows,
                "columns": list(self.column_names),
                "reproducible": self.reproducible,
            },
            "privacy": str(self.privacy).splitlines(),
            "guarantees": guarantees_to_data(self.guarantees),
        }

    def _repr_html_(self) -> str:
        rows = [
            (column.name, party, str(column.to_data()["kind"]))
            for party, encoder in self.encoders
            for column in encoder.columns
        ]
        about = f"a label of kind {self.label.kind}" if self.label.label is not None else "no label"
        about = f"labels {', '.join(self.label_names)}" if self.more_labels else about
        caption = f"Second moments of {self.columns} features with {about}, run {self.run[:12]}"
        return html_table(caption, ("column", "party", "kind"), rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to one file; see `colonnade.models.files.release_file`."""
        write_release(path_of(path), self._described(), self.matrix)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MomentRelease:
        """The release that `save` wrote; a damaged file and one of another version are refused."""
        described, matrix = read_release(path_of(path))
        try:
            return cls(matrix=matrix, **release_fields(described))
        except IMPOSSIBLE as error:
            raise ModelDamaged(f"{path} describes a release that cannot be: {error}") from None

    def _described(self) -> dict[str, object]:
        return {
            "gamma": self.gamma,
            "rows": self.rows,
            "attributes": self.attributes,
            "mu": str(self.mu),
            "encoders": [{"party": party, "encoder": encoder.to_data()} for party, encoder in self.encoders],
            "label": self.label.to_data(),
            "guarantees": guarantees_to_data(self.guarantees),
            "plan": self.plan,
            "run": self.run,
            "reproducible": self.reproducible,
            **({"conditional": True} if self.conditional else {}),
            **({"among": self.label.among} if self.label.among > 1 else {}),
            **({"more_labels": [one.to_data() for one in self.more_labels]} if self.more_labels else {}),
        }

    @property
    def _edge(self) -> slice:
        return slice(self.columns, self.columns + self.label.width)

    def _block(self, rows: slice, columns: slice) -> Array:
        return np.asarray(self.matrix[rows, columns], dtype=np.float64)


def _described(label: LabelBlock) -> str:
    return "no label" if label.label is None else f"a label of kind {label.kind!r}"


EXAMPLE = MomentRelease(
    matrix=np.array([[160000, 0, 75000], [0, 125000, 0], [75000, 0, 50000]]),
    gamma=100,
    rows=50,
    encoders=(("bank", Encoder((NumericColumn("age", low=0, high=90),), mode="linear")),),
    label=LabelBlock(RealLabel("pays", low=0, high=9)),
    mu=Fraction(10**6),
    guarantees=(),
    plan="",
    run="",
    reproducible=False,
)
