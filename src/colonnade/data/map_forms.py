"""The shapes that a schema's `[map]` table can have, by kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from colonnade.data.documents import Form
from colonnade.data.feature_maps import Ball, FeatureMap, GradientHistogram, RandomFourier, RandomRelu, Rule
from colonnade.data.name_ranges import expand_name
from colonnade.data.random_maps import Origin


class _Map(Form):
    columns: list[str] = Field(default_factory=list)
    weight: int | None = None

    def mapped(self, rule: Rule) -> FeatureMap:
        columns = tuple(name for one in self.columns for name in expand_name(one, ("map", "columns")))
        return FeatureMap(rule, columns, self.weight)


class _RandomRelu(_Map):
    kind: Literal["random-relu"]
    features: int
    seed: int
    origin: Origin = "middle"

    def feature_map(self) -> FeatureMap:
        return self.mapped(RandomRelu(self.features, self.seed, self.origin))


class _RandomFourier(_Map):
    kind: Literal["random-fourier"]
    features: int
    seed: int
    scale: float = 1.0
    origin: Origin = "middle"

    def feature_map(self) -> FeatureMap:
        return self.mapped(RandomFourier(self.features, self.seed, self.scale, self.origin))


class _GradientHistogram(_Map):
    kind: Literal["gradient-histogram"]
    rows: int
    cols: int
    cells: int = 4
    orientations: int = 8

    def feature_map(self) -> FeatureMap:
        return self.mapped(GradientHistogram(self.rows, self.cols, self.cells, self.orientations))


class _Ball(_Map):
    kind: Literal["ball"]
    bound: float
    name: str = ""
    sha256: str = ""

    def feature_map(self) -> FeatureMap:
        return self.mapped(Ball(self.bound, self.name, self.sha256))


MapForm = Annotated[_RandomRelu | _RandomFourier | _GradientHistogram | _Ball, Field(discriminator="kind")]
