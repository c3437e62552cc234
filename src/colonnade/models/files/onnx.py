"""Released linear models as ONNX: raw columns in by name, the answer out, and what it cost in the file's metadata.

Numbers are doubles (dates in days since 1970, NaN where missing), categories text ("" where missing), each of shape
(people, 1). A category is known as declared and in the usual other spellings of its rule; text that is surely none is
the declared `other`, and the rest stops the graph. Where the model would refuse a value the answer is NaN and the class
is "". Up to the last bits all else is what the model says. ONNX is an extra: `pip install 'colonnade[onnx]'`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade import __version__
from colonnade.data.graph import PEOPLE, Graph
from colonnade.errors import CannotWrite, ModelError, NotInstalled
from colonnade.federation.files import write_whole
from colonnade.models.files.document import guarantees_to_data
from colonnade.models.files.linear_file import ModelFile, exportable
from colonnade.models.inputs import InputSpec

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, OPSET_ML, IR_VERSION = 20, 3, 9


def onnx_model(model: Any, *, encoded: bool = False) -> ModelProto:
    """A fitted linear model, or its file, as an ONNX model; `encoded` takes one input, `InputSpec.features`."""
    try:
        from onnx import checker, helper
    except ImportError:
        raise NotInstalled(
            "writing ONNX needs the package onnx, which is not installed. Install the extra: pip install "
            "'colonnade[onnx]'."
        ) from None
    whole = exportable(model)
    graph = Graph()
    features, multiple = feature_inputs(graph, whole.frame, encoded=encoded)
    weights = graph.constant(np.ascontiguousarray(whole.weights.T) / multiple)
    offsets = graph.constant(whole.reading.offsets(whole.weights, whole.offsets)[None, :])
    scores = graph.add("Add", [graph.add("MatMul", [features, weights]), offsets])
    outputs = _answers(graph, whole, scores)
    name = f"colonnade {whole.kind}"
    proto = helper.make_model(
        helper.make_graph(graph.nodes, name, graph.inputs, outputs, initializer=graph.constants),
        producer_name="colonnade",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)],
        doc_string=f"A {whole.kind} trained by method {whole.method!r}.\n{whole.privacy}",
    )
    helper.set_model_props(proto, metadata(whole))
    checker.check_model(proto, full_check=True)
    return proto


def save_onnx(model: Any, path: Path, *, encoded: bool = False) -> None:
    content = onnx_model(model, encoded=encoded).SerializeToString()
    try:
        write_whole(path, content)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written ({error.strerror}). Name another file.") from None


def metadata(model: ModelFile) -> dict[str, str]:
    """What travels with the graph: the privacy statement, and how every input is declared."""
    names = iter(model.frame.column_names)
    declared = [
        {"party": party, **column.to_data(), "name": next(names)}
        for party, encoder in model.frame.encoders
        for column in encoder.columns
    ]
    return {
        "colonnade.version": __version__,
        "colonnade.kind": model.kind,
        "colonnade.method": model.method,
        "colonnade.run": model.run,
        "colonnade.privacy": str(model.privacy),
        "colonnade.guarantees": json.dumps(guarantees_to_data(model.privacy), ensure_ascii=False),
        "colonnade.columns": json.dumps(declared, ensure_ascii=False),
        "colonnade.label": json.dumps(model.frame.label.to_data(), ensure_ascii=False),
    }


def _answers(graph: Graph, model: ModelFile, scores: str) -> list[Any]:
    from onnx import TensorProto, helper

    def output(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, [PEOPLE, *shape])

    width = len(model.weights)
    match model.reading.answer:
        case "components":
            graph.add("Identity", [scores], name="components")
            return [output("components", width)]
        case "probabilities" | "margin" as answer:
            _classes(graph, model, scores)
            label = helper.make_tensor_value_info("label", TensorProto.STRING, [PEOPLE])
            if answer == "margin":
                graph.add("Squeeze", [scores, graph.constant([1])], name="margin")
                return [label, output("margin")]
            if width == 1:
                zero = graph.add("Mul", [scores, graph.constant(0.0)])
                scores = graph.add("Concat", [zero, scores], attributes={"axis": 1})
            graph.add("Softmax", [scores], attributes={"axis": 1}, name="probabilities")
            return [label, output("probabilities", max(width, 2))]
        case "prediction":
            if model.reading.link == "log":
                scores = graph.add("Exp", [scores])
            graph.add("Squeeze", [scores, graph.constant([1])], name="prediction")
            return [output("prediction")]


def _classes(graph: Graph, model: ModelFile, scores: str) -> None:
    if len(model.weights) > 1:
        code = graph.add("ArgMax", [scores], attributes={"axis": 1, "keepdims": 0})
    else:
        least = math.log(model.threshold / (1.0 - model.threshold))
        above = graph.add("Greater", [scores, graph.constant(least)])
        code = graph.add("Squeeze", [graph.whole(above), graph.constant([1])])
    named = graph.add("Gather", [graph.constant(np.array(model.frame.label.classes, dtype=object)), code])
    total = graph.add("ReduceSum", [scores, graph.constant([1])], attributes={"keepdims": 0})
    empty = graph.constant(np.array("", dtype=object))
    graph.add("Where", [graph.add("IsNaN", [total]), empty, named], name="label")


def feature_inputs(graph: Graph, frame: InputSpec, *, encoded: bool) -> tuple[str, float]:
    """Multiples of all parties' features, and which: a factor before a product may be rounded to single precision."""
    if encoded:
        return graph.input("features", width=frame.columns), 1.0
    names, blocks = iter(frame.column_names), []
    for party, encoder in frame.encoders:
        if encoder.map is not None:
            raise ModelError(
                f"columns of {party} go through the map {encoder.map.rule.kind!r}, which is not written as a graph. "
                "Export the model on encoded features instead."
            )
        blocks += [column.onnx(graph, next(names), encoder.mode) for column in encoder.columns]
    return graph.add("Concat", blocks, attributes={"axis": 1}), math.sqrt(frame.attributes)
