"""An ONNX graph as it grows: what kinds of columns, and models, write themselves into."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

PEOPLE = "people"


class Graph:
    """Nodes, constants and inputs of a graph; every value has a name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def constant(self, value: ArrayLike) -> str:
        from onnx import numpy_helper

        name = f"constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, name: str, *, text: bool = False, width: int = 1) -> str:
        from onnx import TensorProto, helper

        kind = TensorProto.STRING if text else TensorProto.DOUBLE
        self.inputs.append(helper.make_tensor_value_info(name, kind, [PEOPLE, width]))
        return name

    def add(
        self,
        operation: str,
        inputs: Sequence[str],
        *,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
        name: str | None = None,
        step: str | None = None,
    ) -> str:
        """The name of what an operation makes of these; `step` is what a runtime calls it that stops there."""
        from onnx import helper

        out = name or f"{operation} {len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operation, list(inputs), [out], name=step, domain=domain, **(attributes or {}))
        )
        return out

    def either(self, condition: str, yes: ArrayLike | str, no: ArrayLike | str) -> str:
        """One of two values, by name or constant, entry by entry."""
        chosen = [value if isinstance(value, str) else self.constant(value) for value in (yes, no)]
        return self.add("Where", [condition, *chosen])

    def whole(self, value: str) -> str:
        from onnx import TensorProto

        return self.add("Cast", [value], attributes={"to": TensorProto.INT64})

    def bounded(self, value: str, low: float, high: float, fill: float | None) -> str:
        """A number within bounds; NaN where it is missing and nothing fills it, or infinite."""
        if fill is not None:
            value = self.either(self.add("IsNaN", [value]), fill, value)
        value = self.either(self.add("IsInf", [value]), math.nan, value)
        clipped = self.add("Clip", [value, self.constant(low), self.constant(high)])
        # What a runtime makes of NaN when it clips is its own affair.
        return self.either(self.add("IsNaN", [value]), value, clipped)

    def log1p(self, value: str) -> str:
        """log(1 + x), right to the last bits for small x too: log(u)·x/(u − 1) with u = 1 + x as it was rounded."""
        one = self.constant(1.0)
        rounded = self.add("Add", [value, one])
        less = self.add("Sub", [rounded, one])
        tiny = self.add("Equal", [less, self.constant(0.0)])
        ratio = self.add(
            "Div", [self.add("Mul", [self.add("Log", [rounded]), value]), self.either(tiny, 1.0, less)]
        )
        return self.either(tiny, value, ratio)
