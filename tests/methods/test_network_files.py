"""A network on disk is the network, and a pair of files that is not whole is refused by name."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from network_federations import REAL, THREE, federation_of, rows_of
from torch import nn
from typed import untyped

from colonnade.errors import DataMissing, InputError, ModelDamaged, ModelError, ModelNewer
from colonnade.evaluation.predict import Stored
from colonnade.methods.network.design import Design
from colonnade.methods.network.estimators import NeuralClassifier, NeuralRegressor
from colonnade.methods.network.network import Network
from colonnade.methods.network.network_file import NetworkFile, weights_path
from colonnade.models.files.document import read_document, write_document
from colonnade.models.files.membership import TrainingMembership

PLAIN: dict[str, Any] = {
    "regime": "paper",
    "mechanism": "none",
    "embedding": 4,
    "batch": 20,
    "delta": 1e-5,
    "epochs": 1,
}
torch.set_num_threads(1)


def fitted(label: str | None = None, **changes: object) -> NeuralClassifier | NeuralRegressor:
    kind = NeuralRegressor if label == REAL else NeuralClassifier
    more = {} if label is None else {"label": label}
    return kind(**PLAIN, **untyped(changes)).fit(federation_of(60, public=True, **untyped(more)))


@pytest.mark.parametrize("label", [None, THREE, REAL])
def test_a_saved_network_predicts_as_the_fitted_one_and_carries_its_statement(
    label: str | None, tmp_path: Path
) -> None:
    model = fitted(label)
    path = tmp_path / "model.json"
    model.save(path)
    loaded = type(model).load(path)
    rows, _ = rows_of(30, seed=4)
    assert np.array_equal(loaded.predict(rows), model.predict(rows))
    if label != REAL:
        assert np.array_equal(untyped(loaded).predict_proba(rows), untyped(model).predict_proba(rows))
    assert str(loaded.privacy_) == str(model.privacy_) and loaded.statement_ == model.statement_
    said = json.loads(path.read_text())["statement"]
    assert model.statement_ in said and "does not cover showing it" in said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


def test_the_other_kind_of_network_is_told_and_so_is_a_part(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "model.json")
    with pytest.raises(ModelError, match="holds a NeuralClassifier, not a NeuralRegressor"):
        NeuralRegressor.load(tmp_path / "model.json")
    model.save_parts(tmp_path)
    own = tmp_path / "a party's own folder"
    own.mkdir()
    whole = NetworkFile.load(tmp_path / "model.json")
    replace(whole, party="p1", tensors=whole.network().part("p1").tensors()).save(own / "model.json")
    with pytest.raises(ModelError, match="p1's part of a model, and a part alone scores nobody"):
        Stored.load(own)
    with pytest.raises(ModelError, match="p1's part of a network"):
        NeuralClassifier.load(tmp_path / "parties" / "p1.model.json")
    with pytest.raises(ModelError, match=r"end in \.json"):
        model.save(tmp_path / "model.safetensors")


def test_every_part_holds_its_partys_network_alone_and_the_label_holders_the_last_layer(
    tmp_path: Path,
) -> None:
    model = fitted()
    model.save_parts(tmp_path)
    parts = {}
    for party in ("p0", "p1", "p2"):
        found = NetworkFile.load(tmp_path / "parties" / f"{party}.model.json")
        assert [owner for owner, _ in found.frame.encoders] == [party] and found.party == party
        owners = {name.split("/")[1] for name in found.tensors if name.startswith("network/")}
        assert owners == {party}
        assert any(name.startswith("fusion/") for name in found.tensors) == (party == "p0")
        people = TrainingMembership.load(tmp_path / "parties" / f"{party}.people.npz")
        assert "0" in people and "60" not in people
        parts[party] = found.network()
    with pytest.raises(ModelError, match="p0 has its last layer"):
        parts["p1"].read(np.zeros((1, 4)))
    rows = model.frame_.features(rows_of(20, seed=3)[0])
    assert np.array_equal(Network.joined(untyped(parts)).scores(rows), model.network_.scores(rows))
    with pytest.raises(ModelError, match="a party's part is missing"):
        Network.joined({"p0": parts["p0"]})


def test_a_label_holder_without_columns_has_the_last_layer_alone(tmp_path: Path) -> None:
    model = NeuralClassifier(**PLAIN).fit(federation_of(60, public=True, holder_has_columns=False))
    model.save_parts(tmp_path)
    held = NetworkFile.load(tmp_path / "parties" / "h.model.json")
    assert held.frame.encoders == () and all(name.startswith("fusion/") for name in held.tensors)


_FOLDER: list[str] = []


def _saved() -> str:
    """One pair of files for all examples."""
    if not _FOLDER:
        _FOLDER.append(tempfile.mkdtemp())
        fitted().save(Path(_FOLDER[0]) / "model.json")
    return _FOLDER[0]


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_one_changed_byte_of_the_weights_is_found(place: int, change: int) -> None:
    folder = Path(_saved())
    path, weights = folder / "model.json", folder / "model.safetensors"
    whole = weights.read_bytes()
    altered = bytearray(whole)
    altered[place % len(whole)] ^= change
    try:
        weights.write_bytes(bytes(altered))
        with pytest.raises(ModelDamaged, match="cut off or was altered"):
            NetworkFile.load(path)
    finally:
        weights.write_bytes(whole)
    assert NetworkFile.load(path).kind == "NeuralClassifier"


def test_files_that_are_cut_altered_newer_or_missing_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    fitted().save(path)
    text = path.read_text()
    path.write_text(text[:-40])
    with pytest.raises(ModelDamaged, match="cut off"):
        NetworkFile.load(path)
    path.write_text(text.replace('"bound": 1', '"bound": 2'))
    with pytest.raises(ModelDamaged, match="was altered after it was saved"):
        NetworkFile.load(path)
    path.write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(ModelNewer, match="Upgrade Colonnade"):
        NetworkFile.load(path)
    path.write_text(text)
    weights = weights_path(path)
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-10])
    with pytest.raises(ModelDamaged, match=r"model\.safetensors is cut off"):
        NetworkFile.load(path)
    weights.unlink()
    with pytest.raises(DataMissing, match="Copy both files"):
        NetworkFile.load(path)


@pytest.mark.parametrize(
    ("change", "notify"),
    [
        ({"kind": "PCA"}, "is no network"),
        ({"kind": "NeuralRegressor"}, "a NeuralRegressor for classification"),
        ({"design": {}}, "cannot be"),
        ({"design": "networks"}, "networks of kind"),
        ({"design": "regime"}, "a network of regime"),
    ],
)
def test_a_document_that_was_written_with_another_network_in_mind_is_refused(
    change: dict[str, Any], notify: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    fitted().save(path)
    data = read_document(path)
    if isinstance(change.get("design"), str):
        change = {"design": data["design"] | {str(change["design"]): "another"}}
    write_document(path, data | change)
    with pytest.raises(ModelError, match=notify):
        NetworkFile.load(path)


def test_modules_of_ones_own_are_brought_by_whoever_loads_them(tmp_path: Path) -> None:
    modules = {f"p{party}": nn.Linear(2, 4) for party in range(3)}
    model = fitted(networks=modules, fusion=nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)))
    path = tmp_path / "model.json"
    model.save(path)
    with pytest.raises(InputError, match="networks="):
        NeuralClassifier.load(path)
    with pytest.raises(InputError, match="fusion=module"):
        NeuralClassifier.load(path, networks=modules)
    again = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    loaded = NeuralClassifier.load(path, networks=modules, fusion=again)
    rows, _ = rows_of(20, seed=6)
    assert np.array_equal(loaded.predict_proba(rows), untyped(model).predict_proba(rows))


def test_designs_are_read_back_and_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    design = Design("regression", "private-local", "h", "convolutional", image=(1, 4, 4), scale=2.5)
    assert Design.from_data(json.loads(json.dumps(design.to_data()))) == design
    fitted().save(tmp_path / "model.json")
    found = NetworkFile.load(tmp_path / "model.json")
    wider = replace(found, design=replace(found.design, embedding=5))
    with pytest.raises(ModelError, match="another network"):
        wider.network()
