"""Files that runs left, cut off at every length, with flipped bytes and with other contents: refused by name."""

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import Federation, LogisticRegression, MomentRelease, Schema, Table
from colonnade.data.declaring import Spelling
from colonnade.errors import ColonnadeError, DataError, ModelDamaged, ModelError, ModelVersion
from colonnade.models.files.document import _digest
from colonnade.models.files.linear_file import ModelFile, model_file, parts_of
from colonnade.models.files.membership import IdRules, TrainingMembership
from colonnade.randomness import SeededRandomness

EVERY = 64
Files = dict[str, bytes]
READERS: dict[str, Callable[[Path], Any]] = {
    "model.json": ModelFile.load,
    "part.json": ModelFile.load,
    "release.npz": MomentRelease.load,
    "people.npz": TrainingMembership.load,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(2)
    spent, visits = rng.uniform(0, 10, 300), rng.uniform(0, 10, 300)
    declared = 'id = "n"\ncolumns.{} = {{kind = "numeric", low = 0, high = 10}}\n'
    label = 'label = {column = "stays", kind = "classes", classes = ["no", "yes"]}'
    stays = np.where(spent + visits > 10, "yes", "no")
    arrays = {"spent": spent, "stays": stays}
    shop = Table.from_arrays("shop", arrays, Schema.parse(declared.format("spent") + label))
    club = Table.from_arrays("club", {"visits": visits}, Schema.parse(declared.format("visits")))
    release = Federation([shop, club], budget=(100.0, 1e-5)).moments(task="classification", epsilon=8.0)
    release.save(folder / "release.npz")
    whole = model_file(LogisticRegression().fit(release), method="moments", run=release.run)
    whole.save(folder / "model.json")
    parts_of(whole, active="shop")["club"].save(folder / "part.json")
    ids, rules = (f"P{number}" for number in range(40)), IdRules("customer", Spelling())
    TrainingMembership.of(ids, rules, SeededRandomness(1)).save(folder / "people.npz")
    return {name: (folder / name).read_bytes() for name in READERS}


def refused(name: str, contents: bytes, folder: Path) -> ColonnadeError | None:
    """The refusal of such a file; any other exception is a mistake of ours and comes through."""
    path = folder / name
    path.write_bytes(contents)
    try:
        READERS[name](path)
    except ColonnadeError as error:
        assert str(path) in str(error), "the file is named"
        return error
    return None


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_cut_off_anywhere_is_refused_by_name(files: Files, tmp_path: Path, name: str) -> None:
    whole = files[name]
    assert refused(name, whole, tmp_path) is None
    for length in range(0, len(whole), EVERY):
        error = refused(name, whole[:length], tmp_path)
        assert isinstance(error, ModelError), length


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_byte_is_refused_or_says_the_same(files: Files, tmp_path: Path, name: str) -> None:
    """Bytes that no reader looks at, such as a zip's dates or a space between words, may change."""
    whole = files[name]
    refusals = 0
    for place in range(7, len(whole), EVERY // 2):
        for mask in (0xFF, 0x01, 0x20):
            changed = bytearray(whole)
            changed[place] ^= mask
            error = refused(name, bytes(changed), tmp_path)
            assert error is None or isinstance(error, DataError), place
            refusals += error is not None
    assert refusals > len(whole) // EVERY, "most of a file is looked at"


def signed(document: dict[str, Any]) -> bytes:
    """The document with the digest that it would have."""
    held = {name: value for name, value in document.items() if name != "digest"}
    return json.dumps({**held, "digest": _digest(held)}).encode()


def subtrees(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from subtrees(value, (*path, key))


@pytest.mark.parametrize(
    "other", [None, -1, 1e308, 10**400, "word", [], {}, [[]], True], ids=lambda other: repr(other)[:9]
)
def test_a_model_with_a_matching_digest_is_read_or_refused(
    files: Files, tmp_path: Path, other: object
) -> None:
    """The digest has no key: whoever writes a file can make it match."""
    document = json.loads(files["model.json"])
    for path in subtrees(document):
        changed = copy.deepcopy(document)
        here = changed
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = other
        refused("model.json", signed(changed), tmp_path)


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        ({"version": 3}, ModelVersion, "format 3"),
        ({"version": "2"}, ModelDamaged, "format '2'"),
        ({"version": 0}, ModelDamaged, "format 0"),
        ({"kind": "Forest"}, ModelError, "Forest"),
        ({"format": "colonnade moment release"}, ModelError, "is not a model"),
    ],
)
def test_a_newer_version_and_another_kind_are_told_apart(
    files: Files, tmp_path: Path, change: dict[str, Any], kind: type[ColonnadeError], why: str
) -> None:
    error = refused("model.json", signed(json.loads(files["model.json"]) | change), tmp_path)
    assert isinstance(error, kind) and why in str(error)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format": NaN}', '{"format": "colonnade model", "version": 1e999}']
)
def test_json_that_only_a_mischievous_person_writes_is_refused(tmp_path: Path, text: str) -> None:
    assert isinstance(refused("model.json", text.encode(), tmp_path), ModelError)


def test_one_kind_of_file_is_not_taken_for_another(files: Files, tmp_path: Path) -> None:
    for name, (other, contents) in itertools.product(READERS, files.items()):
        if {name, other} != {"model.json", "part.json"}:
            assert (refused(name, contents, tmp_path) is None) == (other == name), (name, other)
