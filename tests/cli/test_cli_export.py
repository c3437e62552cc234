"""A released model leaves as ONNX and with a card; one in parts does not."""

from typing import Any

import numpy as np
import onnxruntime
import yaml
from cli_project import Cli, Project
from typed import untyped

from colonnade.models.files.linear_file import ModelFile

USAGE, INPUT = 2, 3


def test_a_run_is_exported_with_its_statement(trained: Project, cli: Cli) -> None:
    out = cli("export run --onnx model.onnx --card README.md --license mit")
    model = ModelFile.load(trained.path("run/model.json"))
    card = trained.path("README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert (front["license"], "onnx" in front["tags"]) == ("mit", True)
    assert "model-index" not in front, "this data is not public"
    for sentence in str(model.privacy).splitlines():
        assert sentence in out and sentence in card
    running = onnxruntime.InferenceSession(trained.path("model.onnx"), providers=["CPUExecutionProvider"])
    people: dict[str, list[Any]] = {
        "age": [30.0, 80.0],
        "job": ["clerk", "nurse"],
        "claims": [1.0, 12.0],
        "smoker": ["no", "yes"],
    }
    given = {
        name: np.array(values, dtype=object if isinstance(values[0], str) else untyped(float)).reshape(-1, 1)
        for name, values in people.items()
    }
    label, probabilities = running.run(["label", "probabilities"], given)
    assert label.tolist() == untyped(model.estimator()).predict(people).tolist()
    assert np.allclose(probabilities, untyped(model.estimator()).predict_proba(people), atol=1e-12)
