"""Images as histograms of their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.data.columns import Column, NumericColumn
from colonnade.data.declaring import check_whole
from colonnade.data.random_maps import MOST_FEATURES
from colonnade.errors import Misdeclared

Array = NDArray[np.float64]

MOST_ORIENTATIONS = 64
# Pixels run from −1 to 1: histograms shorter than this are those of no edge to speak of, and are not blown up.
_FAINT = 0.01


@dataclass(frozen=True)
class GradientHistogram:
    """How strongly an image changes in each direction, cell by cell (after Dalal and Triggs 2005).

    The mapped columns are the pixels, row by row. The gradient at a pixel is the difference of its neighbours, the
    edge repeated beyond the edge. Its length goes to the two nearest of `orientations` directions around the circle,
    and to the nearest of `cells` × `cells` cells, in proportion to closeness. Square roots of these sums are counted
    from their own mean and brought to norm 1, so that brightness and contrast drop out. An image without gradients
    is 0.
    """

    rows: int
    cols: int
    cells: int = 4
    orientations: int = 8
    kind: ClassVar[str] = "gradient-histogram"
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("rows", "cols"):
            check_whole(("map", name), f"map: {name}", getattr(self, name), low=2, high=MOST_FEATURES)
        check_whole(("map", "cells"), "map: cells", self.cells, low=1, high=min(self.rows, self.cols))
        turns = self.orientations
        check_whole(("map", "orientations"), "map: orientations", turns, low=2, high=MOST_ORIENTATIONS)
        if self._width > MOST_FEATURES:
            raise Misdeclared(
                ("map", "cells"),
                f"map: {self.cells} × {self.cells} cells of {turns} orientations make {self._width} features; "
                f"{MOST_FEATURES} is the most. Use fewer cells.",
            )

    @property
    def _width(self) -> int:
        return self.cells**2 * self.orientations

    def check(self, columns: tuple[Column, ...]) -> None:
        if len(columns) != self.rows * self.cols:
            raise Misdeclared(
                ("map", "rows"),
                f"map: an image of {self.rows} × {self.cols} has {self.rows * self.cols} pixels, but {len(columns)} "
                "columns go through it. Declare one numeric column for each pixel, row by row.",
            )
        check_numeric(self.kind, columns)

    def attributes(self, columns: int) -> int:
        """How many attributes the block counts as unless declared: as many as there are cells."""
        return self.cells**2

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """A name for every feature: cell, and direction in degrees."""
        return tuple(
            f"gradient:r{row}c{col}:{360 * turn / self.orientations:g}"
            for row in range(self.cells)
            for col in range(self.cells)
            for turn in range(self.orientations)
        )

    def apply(self, inputs: Array, columns: int) -> Array:
        """Features of linearly encoded rows; a row is a column of the array."""
        people = inputs.shape[1]
        image = inputs.reshape(self.rows, self.cols, people)
        across, down = _slope(image, axis=1), _slope(image, axis=0)
        length = np.hypot(across, down)
        turn = np.arctan2(down, across) * (self.orientations / (2.0 * math.pi))
        turn %= self.orientations
        tall, wide = _closeness(self.rows, self.cells), _closeness(self.cols, self.cells)
        histogram = np.empty((self.cells, self.cells, self.orientations, people))
        for place in range(self.orientations):
            apart = np.abs(turn - place)
            share = np.maximum(1.0 - np.minimum(apart, self.orientations - apart), 0.0) * length
            by_row = np.tensordot(tall, share, axes=(0, 0))
            histogram[:, :, place] = np.tensordot(by_row, wide, axes=(1, 0)).transpose(0, 2, 1)
        features = np.sqrt(histogram.reshape(self._width, people))
        features -= features.mean(axis=0)
        features /= np.maximum(np.sqrt(np.einsum("ij,ij->j", features, features)), _FAINT)
        return features

    def to_data(self) -> dict[str, object]:
        shape = {"rows": self.rows, "cols": self.cols, "cells": self.cells, "orientations": self.orientations}
        return {"kind": self.kind, **shape}


def check_numeric(kind: str, columns: tuple[Column, ...]) -> None:
    """Raise unless every column is a number, and one number a person: not in pieces, and not missing."""
    for column in columns:
        if not isinstance(column, NumericColumn):
            raise Misdeclared(
                ("columns", column.name),
                f"map: {kind} needs numbers, and column {column.name!r} is declared otherwise. Declare it numeric, or "
                "name the columns that go through the map (columns = [...]).",
            )
        if column.encoding or column.missing == "category":
            key = "encoding" if column.encoding else "missing"
            raise Misdeclared(
                ("columns", column.name, key),
                f"map: {kind} takes column {column.name!r} as the number it is. Leave {key} out, or name the columns "
                "that go through the map (columns = [...]).",
            )


def _slope(image: Array, *, axis: int) -> Array:
    """What comes after each pixel less what comes before it, the edge repeated."""
    size = image.shape[axis]
    after = np.take(image, np.minimum(np.arange(size) + 1, size - 1), axis=axis)
    return np.asarray(after - np.take(image, np.maximum(np.arange(size) - 1, 0), axis=axis))


def _closeness(pixels: int, cells: int) -> Array:
    place = (np.arange(pixels) + 0.5) * cells / pixels - 0.5
    return np.maximum(1.0 - np.abs(place[:, None] - np.arange(cells)), 0.0)
