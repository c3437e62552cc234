"""Declared columns as an ONNX graph: from raw values by name to the features that a model was trained on.

The graph computes in doubles what `colonnade.data.encoding` computes. A number that Colonnade refuses, and a category
that is missing where none may be, becomes NaN, and whatever is said of that person is NaN. ONNX has no rules of
spelling: the graph knows each level in its usual spellings under the declared rule, and any other text is the declared
`other`, or stops the graph.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from colonnade.data.columns import (
    BinaryColumn,
    BinnedColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    NumericColumn,
)
from colonnade.data.encoding import Encoder, codes_of
from colonnade.data.number_codes import NumberCode, code_of_number, simplex
from colonnade.data.spelling import UnicodeForm
from colonnade.errors import ModelError
from colonnade.models.input_spec import InputSpec

PEOPLE = "people"
_CASES: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    str.upper,
    str.capitalize,
    str.title,
    str.casefold,
)


class Graph:
    """Nodes, constants and inputs of a graph as it grows; every value has a name."""

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

        made = name or f"{operation} {len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operation, list(inputs), [made], name=step, domain=domain, **(attributes or {}))
        )
        return made

    def either(self, condition: str, yes: ArrayLike | str, no: ArrayLike | str) -> str:
        """One of two values, by name or constant, entry by entry."""
        chosen = [value if isinstance(value, str) else self.constant(value) for value in (yes, no)]
        return self.add("Where", [condition, *chosen])


def feature_inputs(graph: Graph, frame: InputSpec, *, encoded: bool) -> tuple[str, float]:
    """Multiples of all parties' features, from raw columns by name or, `encoded`, from one input; and which multiples.

    The factor is for the weights: a runtime that finds it before a product may round it to single precision.
    """
    if encoded:
        return graph.input("features", width=frame.columns), 1.0
    names, blocks = iter(frame.column_names), []
    for party, encoder in frame.encoders:
        if encoder.map is not None:
            raise ModelError(
                f"columns of {party} go through the map {encoder.map.rule.kind!r}, which is not written as a graph. "
                "Export the model on encoded features instead."
            )
        blocks += [_block(graph, next(names), column, encoder) for column in encoder.columns]
    return graph.add("Concat", blocks, attributes={"axis": 1}), math.sqrt(frame.attributes)


def _block(graph: Graph, name: str, column: Column, encoder: Encoder) -> str:
    match column:
        case NumericColumn():
            raw = graph.input(name)
            code = code_of_number(column, encoder.mode)
            # The block of a missing number is put in its place below, whatever number it is made of.
            fill = column.low if code.missing else column.fill
            value = _bounded(graph, raw, column.low, column.high, fill)
            if column.transform == "log1p":
                value = _log1p(graph, value)
            return _number(graph, value, column.range, code, raw=raw)
        case DateColumn():
            raw = graph.input(name)
            code = code_of_number(column, encoder.mode)
            value = _bounded(graph, raw, *column.range, column.range[0] if code.missing else column.fill)
            return _number(graph, value, column.range, code, raw=raw)
        case BinnedColumn():
            return _code(graph, _bin(graph, graph.input(name), column), column)
        case BinaryColumn() | CategoricalColumn():
            unknown = len(column.levels) + 1
            level = _level(graph, graph.input(name, text=True), column, unknown=unknown)
            return _code(graph, level, column, step=f"{name}: every category is one that is declared")


def _bounded(graph: Graph, value: str, low: float, high: float, fill: float | None) -> str:
    if fill is not None:
        value = graph.either(graph.add("IsNaN", [value]), fill, value)
    value = graph.either(graph.add("IsInf", [value]), math.nan, value)
    clipped = graph.add("Clip", [value, graph.constant(low), graph.constant(high)])
    # What a runtime makes of NaN when it clips is its own affair.
    return graph.either(graph.add("IsNaN", [value]), value, clipped)


def _log1p(graph: Graph, value: str) -> str:
    """log(1 + x), right to the last bits for small x too: log(u)·x/(u − 1) with u = 1 + x as it was rounded."""
    one = graph.constant(1.0)
    rounded = graph.add("Add", [value, one])
    less = graph.add("Sub", [rounded, one])
    tiny = graph.add("Equal", [less, graph.constant(0.0)])
    ratio = graph.add(
        "Div", [graph.add("Mul", [graph.add("Log", [rounded]), value]), graph.either(tiny, 1.0, less)]
    )
    return graph.either(tiny, value, ratio)


def _number(graph: Graph, value: str, bounds: tuple[float, float], code: NumberCode, *, raw: str) -> str:
    low, high = bounds
    moved = graph.add("Sub", [value, graph.constant(low)])
    unit = graph.add(
        "Sub", [graph.add("Mul", [moved, graph.constant(2.0 / (high - low))]), graph.constant(1.0)]
    )
    block, size = unit, math.sqrt((code.width - 1) / code.width) if code.missing else 1.0
    if code.shape == "circle":
        angle = graph.add("Mul", [unit, graph.constant(math.pi / 2.0)])
        block = graph.add(
            "Concat", [graph.add("Sin", [angle]), graph.add("Cos", [angle])], attributes={"axis": 1}
        )
    elif code.shape == "hats":
        # How near a knot is, in steps: what is one step away or more has no part in it.
        knots, step = np.linspace(-1.0, 1.0, code.knots), 2.0 / (code.knots - 1)
        away = graph.add("Abs", [graph.add("Sub", [unit, graph.constant([knots])])])
        near = graph.add("Sub", [graph.constant(1.0), graph.add("Div", [away, graph.constant(step)])])
        hats = graph.add("Max", [near, graph.constant(0.0)])
        # A factor of its own beside a product may be rounded to single precision by a runtime.
        block, size = graph.add("MatMul", [hats, graph.constant(simplex(code.knots) * size)]), 1.0
    if not code.missing:
        return block
    absent, present = code.features(np.array([math.nan, 0.0]))
    axis = graph.add("Add", [graph.add("Mul", [unit, graph.constant(0.0)]), graph.constant(present[-1])])
    block = block if size == 1.0 else graph.add("Mul", [block, graph.constant(size)])
    known = graph.add("Concat", [block, axis], attributes={"axis": 1})
    return graph.either(graph.add("IsNaN", [raw]), [absent], known)


def _bin(graph: Graph, value: str, column: BinnedColumn) -> str:
    from onnx import TensorProto

    bad = len(column.levels)
    above = graph.add("GreaterOrEqual", [value, graph.constant([column.edges])])
    ones = graph.add("Cast", [above], attributes={"to": TensorProto.INT64})
    code = graph.add("ReduceSum", [ones, graph.constant([1])], attributes={"keepdims": 1})
    missing = bad
    if column.missing == "category":
        missing = len(column.edges) + 1
    elif column.missing is not None:
        missing = int(np.searchsorted(column.edges, column.missing, side="right"))
    code = graph.either(graph.add("IsInf", [value]), bad, code)
    return graph.either(graph.add("IsNaN", [value]), missing, code)


def _level(
    graph: Graph, value: str, column: BinaryColumn | CategoricalColumn, *, unknown: int | None = None
) -> str:
    """The number of a text's level; the one past the last where it is missing and none may be, or `unknown`."""
    codes = {level: code for code, level in enumerate(column.levels)}
    bad = len(codes)
    elsewhere = codes[column.other] if column.other is not None else bad if unknown is None else unknown
    known = {spelt: code for level, code in codes.items() for spelt in _spellings(level, column)} | codes
    known[""] = bad if column.missing is None else codes[column.missing]
    attributes = {
        "keys_strings": list(known),
        "values_int64s": list(known.values()),
        "default_int64": elsewhere,
    }
    return graph.add("LabelEncoder", [value], attributes=attributes, domain="ai.onnx.ml")


def _spellings(level: str, column: BinaryColumn | CategoricalColumn) -> Iterator[str]:
    # Whole numbers become such where a cell beside them was empty.
    texts = [level, f"{level}.0"] if level.removeprefix("-").isdecimal() else [level]
    forms = [form for form in get_args(UnicodeForm) if form != "exact"]
    for text, case, form, before, after in product(texts, _CASES, ["", *forms], ["", " "], ["", " "]):
        spelt = case(text)
        spelt = f"{before}{unicodedata.normalize(form, spelt) if form else spelt}{after}"
        if column.spelling.spell(spelt) in texts:
            yield spelt


def _code(
    graph: Graph,
    level: str,
    column: BinaryColumn | CategoricalColumn | BinnedColumn,
    *,
    step: str | None = None,
) -> str:
    """The features of the level that a number names; those of the one past the last are NaN, and there are no more.

    A runtime that is asked for more than there are names the step at which it stops.
    """
    codes = codes_of(column)
    codes = np.vstack([codes, np.full((1, codes.shape[1]), np.nan)])
    flat = graph.add("Squeeze", [level, graph.constant([1])])
    return graph.add("Gather", [graph.constant(codes), flat], attributes={"axis": 0}, step=step)
