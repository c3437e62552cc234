"""How a number between its bounds, or a level, becomes a block of norm at most 1.

u in [−1, 1] is where the number stands between its bounds, after its transform.

* linear: (u). A rule is a straight line.
* circle: (sin πu/2, cos πu/2). A rule may bend once.
* hats: k knots stand evenly from −1 to 1, each at a vertex of the regular simplex in k − 1 dimensions, and u is as far
  between two vertices as it is between their knots. A rule is any line with a corner at each knot.

With an axis for what is missing, a block f of width w becomes (f·√(w/(w + 1)), −1/√(w + 1)), and a missing number
(0, …, 0, 1). Proof of the norms: docs/proofs/encoding-norm.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.graph import Graph

Array = NDArray[np.float64]
Mode = Literal["circle", "linear"]


def simplex(vertices: int) -> Array:
    """The vertices of a regular simplex around the origin, one row each, norm 1, in k − 1 dimensions.

    Row i and row j have inner product −1/(k − 1). Axis a is positive at vertex a + 1, negative at the
    vertices before it and 0 at those after it (Helmert's contrasts), so axes can be read.
    """
    if vertices < 2:
        raise ValueError(f"a simplex needs two vertices or more, not {vertices}")
    corners = np.zeros((vertices, vertices - 1))
    for axis in range(vertices - 1):
        corners[: axis + 1, axis] = -1.0
        corners[axis + 1, axis] = axis + 1.0
        corners[:, axis] *= math.sqrt(vertices / ((vertices - 1) * (axis + 1) * (axis + 2)))
    return corners


def thermometer(levels: int, *, missing: bool = False) -> Array:
    """The codes of ordered levels, one row each, norm 1, in k − 1 dimensions: which edges a level has passed.

    Entry a is +1/√(k − 1) from level a + 1 up and −1/√(k − 1) before it. `missing` adds one level that is on neither
    side of any edge and has an axis of its own: 1 there, where the k ordered levels have −1/√k beside their ±1/√k.
    """
    if levels < 2:
        raise ValueError(f"ordered levels are two or more, not {levels}")
    passed = np.where(np.arange(1, levels) <= np.arange(levels)[:, None], 1.0, -1.0)
    if not missing:
        return np.asarray(passed / math.sqrt(levels - 1))
    known = np.column_stack([passed, np.full(levels, -1.0)]) / math.sqrt(levels)
    return np.vstack([known, np.eye(1, levels, levels - 1)])


@dataclass(frozen=True)
class NumberCode:
    """A shape, the knots of hats, and whether missing numbers have an axis of their own."""

    shape: Literal["circle", "linear", "hats"]
    knots: int = 0
    missing: bool = False

    @property
    def plain(self) -> bool:
        return self.shape != "hats" and not self.missing

    @property
    def width(self) -> int:
        return self._known + self.missing

    def names(self, name: str, knots: Array) -> tuple[str, ...]:
        """A name for each feature; of hats, at which number an axis is largest: `knots` are the numbers."""
        own = (f"{name}:missing",) if self.missing else ()
        if self.shape == "circle":
            return (f"{name}:sin", f"{name}:cos", *own)
        if self.shape == "linear":
            return (name, *own)
        for digits in (6, 17):
            texts = [f"{at:.{digits}g}" for at in knots]
            if len(set(texts)) == len(texts):
                break
        else:
            texts = [f"knot {number}" for number in range(self.knots)]
        return (*(f"{name}:{at}" for at in texts[1:]), *own)

    def features(self, u: Array) -> Array:
        """One row for each place, NaN where the number is missing; each of norm at most 1."""
        absent = np.isnan(u)
        if not self.missing:
            return self._shaped(u)
        made = np.empty((len(u), self.width))
        made[:, :-1] = self._shaped(np.where(absent, 0.0, u)) * self._size
        made[:, -1] = -1.0 / math.sqrt(self._known + 1)
        made[absent] = np.eye(1, self.width, self.width - 1)
        return made

    def places(self, features: Array) -> Array:
        """The places whose features are nearest, NaN for what is missing."""
        known = features[:, : self._known] / (self._size if self.missing else 1.0)
        if self.shape == "circle":
            u = np.arctan2(known[:, 0], known[:, 1]) * (2.0 / math.pi)
        elif self.shape == "linear":
            u = known[:, 0]
        else:
            u = self._along(known)
        u = np.clip(u, -1.0, 1.0)
        if self.missing:
            halfway = (1.0 - 1.0 / math.sqrt(self._known + 1)) / 2.0
            u = np.where(features[:, -1] > halfway, np.nan, u)
        return u

    def score_range(self, weights: Array) -> tuple[float, float]:
        """The least and the largest product of a block with these weights."""
        own = weights[: self._known] * (self._size if self.missing else 1.0)
        if self.shape == "linear":
            low, high = -abs(float(own[0])), abs(float(own[0]))
        elif self.shape == "circle":
            # On the half circle (sin u, cos u) the cosine is never negative.
            sine, cosine = abs(float(own[0])), float(own[1])
            whole = math.hypot(sine, cosine)
            low, high = (-sine, whole) if cosine >= 0 else (-whole, sine)
        else:
            at_knots = simplex(self.knots) @ own
            low, high = float(at_knots.min()), float(at_knots.max())
        if not self.missing:
            return low, high
        axis = float(weights[-1])
        moved = -axis / math.sqrt(self._known + 1)
        return min(low + moved, axis), max(high + moved, axis)

    def onnx(self, graph: Graph, unit: str, raw: str) -> str:
        """The block of a number at the place `unit`, in a graph; `raw` is the number as it came."""
        block, size = unit, self._size if self.missing else 1.0
        if self.shape == "circle":
            angle = graph.add("Mul", [unit, graph.constant(math.pi / 2.0)])
            both = [graph.add("Sin", [angle]), graph.add("Cos", [angle])]
            block = graph.add("Concat", both, attributes={"axis": 1})
        elif self.shape == "hats":
            # How near a knot is, in steps: what is one step away or more has no part in it.
            knots, step = np.linspace(-1.0, 1.0, self.knots), 2.0 / (self.knots - 1)
            away = graph.add("Abs", [graph.add("Sub", [unit, graph.constant([knots])])])
            near = graph.add("Sub", [graph.constant(1.0), graph.add("Div", [away, graph.constant(step)])])
            hats = graph.add("Max", [near, graph.constant(0.0)])
            # A factor of its own beside a product may be rounded to single precision by a runtime.
            block, size = graph.add("MatMul", [hats, graph.constant(simplex(self.knots) * size)]), 1.0
        if not self.missing:
            return block
        absent, present = self.features(np.array([math.nan, 0.0]))
        axis = graph.add("Add", [graph.add("Mul", [unit, graph.constant(0.0)]), graph.constant(present[-1])])
        block = block if size == 1.0 else graph.add("Mul", [block, graph.constant(size)])
        known = graph.add("Concat", [block, axis], attributes={"axis": 1})
        return graph.either(graph.add("IsNaN", [raw]), [absent], known)

    @property
    def _known(self) -> int:
        return {"linear": 1, "circle": 2, "hats": self.knots - 1}[self.shape]

    @property
    def _size(self) -> float:
        return math.sqrt(self._known / (self._known + 1))

    def _shaped(self, u: Array) -> Array:
        if self.shape == "circle":
            return np.column_stack([np.sin(u * (math.pi / 2)), np.cos(u * (math.pi / 2))])
        if self.shape == "linear":
            return u[:, None]
        step = (np.clip(u, -1.0, 1.0) + 1.0) * ((self.knots - 1) / 2.0)
        before = np.minimum(step.astype(np.int64), self.knots - 2)
        corners, share = simplex(self.knots), (step - before)[:, None]
        return np.asarray((1.0 - share) * corners[before] + share * corners[before + 1])

    def _along(self, features: Array) -> Array:
        corners = simplex(self.knots)
        least, along = np.full(len(features), np.inf), np.zeros(len(features))
        for knot in range(self.knots - 1):
            step = corners[knot + 1] - corners[knot]
            share = np.clip((features - corners[knot]) @ step / (step @ step), 0.0, 1.0)
            away = np.sum((features - corners[knot] - share[:, None] * step) ** 2, axis=1)
            along = np.where(away < least, knot + share, along)
            least = np.minimum(away, least)
        return along * (2.0 / (self.knots - 1)) - 1.0
