"""Boosted trees as ONNX: raw columns in by name, probabilities and the class out, and what it cost in the metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from colonnade import __version__
from colonnade.data.columns import BinnedColumn
from colonnade.errors import CannotWrite
from colonnade.federation.whole_files import write_whole
from colonnade.models.files.onnx import IR_VERSION, OPSET, OPSET_ML, need_onnx
from colonnade.models.files.onnx_columns import PEOPLE, Graph, level_number
from colonnade.models.fitting import fitted
from colonnade.models.statements import guarantees_to_data
from colonnade.models.trees import GradientBoostedTrees, is_ordered, trees_of


def onnx_trees(model: GradientBoostedTrees) -> Any:
    """A fitted model as an ONNX graph; where Colonnade would refuse a value, probabilities are NaN and the class ""."""
    need_onnx()
    from onnx import TensorProto, checker, helper

    fitted(model, "booster_")
    graph = Graph()
    parts, bad = [], []
    for column in model.columns_:
        binned = isinstance(column.column, BinnedColumn)
        number = level_number(graph, graph.input(column.name, text=not binned), column.column)
        bad.append(graph.add("Equal", [number, graph.constant(np.int64(len(column.levels)))]))
        if not is_ordered(column):
            number = graph.add("Equal", [number, graph.constant(np.arange(len(column.levels))[None, :])])
        parts.append(graph.add("Cast", [number], attributes={"to": TensorProto.FLOAT}))
    features = graph.add("Concat", parts, attributes={"axis": 1})
    scores = graph.add(
        "TreeEnsembleRegressor", [features], attributes=_ensemble(model.booster_), domain="ai.onnx.ml"
    )
    second = graph.add("Sigmoid", [graph.add("Cast", [scores], attributes={"to": TensorProto.DOUBLE})])
    wrong = bad[0]
    for one in bad[1:]:
        wrong = graph.add("Or", [wrong, one])
    second = graph.either(wrong, np.nan, second)
    first = graph.add("Sub", [graph.constant(1.0), second])
    graph.add("Concat", [first, second], attributes={"axis": 1}, name="probabilities")
    above = graph.add("Greater", [second, graph.constant(model.threshold)])
    whole = graph.add("Cast", [above], attributes={"to": TensorProto.INT64})
    code = graph.add("Squeeze", [whole, graph.constant([1])])
    named = graph.add(
        "Gather", [graph.constant(np.array(list(map(str, model.classes_)), dtype=object)), code]
    )
    nobody = graph.add("Squeeze", [wrong, graph.constant([1])])
    graph.add("Where", [nobody, graph.constant(np.array("", dtype=object)), named], name="label")
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "colonnade GradientBoostedTrees",
            graph.inputs,
            [
                helper.make_tensor_value_info("label", TensorProto.STRING, [PEOPLE]),
                helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, [PEOPLE, 2]),
            ],
            initializer=graph.constants,
        ),
        producer_name="colonnade",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)],
        doc_string=f"Boosted trees on invented people of a class-conditional release.\n{model.privacy_}",
    )
    helper.set_model_props(
        made,
        {
            "colonnade.version": __version__,
            "colonnade.kind": "GradientBoostedTrees",
            "colonnade.privacy": str(model.privacy_),
            "colonnade.guarantees": json.dumps(guarantees_to_data(model.privacy_), ensure_ascii=False),
            "colonnade.columns": json.dumps([column.column.to_data() for column in model.columns_]),
        },
    )
    checker.check_model(made, full_check=True)
    return made


def save_onnx_trees(model: GradientBoostedTrees, path: Path) -> None:
    """Write a model as ONNX, whole or not at all."""
    content = onnx_trees(model).SerializeToString()
    try:
        write_whole(path, content)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written ({error.strerror}). Name another file.") from None


def _ensemble(booster: Any) -> dict[str, Any]:
    """The trees as the node's lists: a question is whether a feature is at most a threshold."""
    columns: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    targets: dict[str, list[Any]] = {
        f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")
    }
    for tree, top in enumerate(trees_of(booster)):
        _number(top, 0)
        for node in _nodes(top):
            leaf = "leaf_value" in node
            row = (
                (tree, node["number"], 0, 0.0, "LEAF", 0, 0)
                if leaf
                else (
                    tree,
                    node["number"],
                    node["split_feature"],
                    node["threshold"],
                    "BRANCH_LEQ",
                    node["left_child"]["number"],
                    node["right_child"]["number"],
                )
            )
            for key, value in zip(columns, row, strict=True):
                columns[key].append(value)
            if leaf:
                for key, value in zip(targets, (tree, node["number"], 0, node["leaf_value"]), strict=True):
                    targets[key].append(value)
    return {**columns, **targets, "n_targets": 1}


def _number(node: dict[str, Any], start: int) -> int:
    """Give every node of a tree a number of its own, from `start`; the next that is free."""
    node["number"] = start
    after = start + 1
    for child in ("left_child", "right_child"):
        if child in node:
            after = _number(node[child], after)
    return after


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        node,
        *(one for child in ("left_child", "right_child") if child in node for one in _nodes(node[child])),
    ]
