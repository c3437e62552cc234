"""A release says what the rows say, and its file is whole or refused."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learn_releases import GAMMA, GUARANTEES, Shoppers
from numpy.testing import assert_allclose
from typed import untyped

from colonnade.errors import DataError
from colonnade.models.files.document import Privacy
from colonnade.models.files.release_file import VERSION
from colonnade.models.release import MomentRelease

# Rounding on the grid moves an entry of a row by at most 1/(2γ), and a sum over n rows by at most n/γ.
PEOPLE = Shoppers(500)
GRID = 500 / GAMMA


def test_without_noise_the_views_are_the_moments_of_the_encoded_rows() -> None:
    release = PEOPLE.release("three")
    x = release.features(PEOPLE.raw)
    moments = release.class_moments()
    assert_allclose(moments.gram, x.T @ x, atol=GRID)
    for index in range(3):
        here = PEOPLE.grade == index
        assert moments.counts[index] == here.sum()
        assert_allclose(moments.sums[index], x[here].sum(axis=0), atol=GRID)
    plain = release.plain_moments()
    assert plain.count == 500
    assert_allclose(plain.total, x.sum(axis=0), atol=GRID)


@pytest.mark.parametrize(("kind", "values"), [("real", PEOPLE.spent), ("count", PEOPLE.orders)])
def test_without_noise_a_number_for_a_label_gives_its_own_moments(kind: str, values: np.ndarray) -> None:
    release = PEOPLE.release(kind, mode="linear")
    x, v = release.features(PEOPLE.raw), release.label.to_unit(values)
    moments = release.value_moments()
    assert moments.count == 500
    assert_allclose(moments.total, x.sum(axis=0), atol=2 * GRID)
    assert_allclose(moments.cross, x.T @ v, atol=2 * GRID)
    assert_allclose(moments.value_total, v.sum(), atol=2 * GRID)
    assert_allclose(moments.value_square, v @ v, atol=2 * GRID)


def test_without_a_label_the_border_still_counts_and_sums() -> None:
    release = PEOPLE.release("none", mode="linear")
    plain = release.plain_moments()
    assert plain.count == 500
    assert_allclose(plain.total, release.features(PEOPLE.raw).sum(axis=0), atol=GRID)


@pytest.mark.parametrize("kind", ["two", "real"])
def test_the_noise_of_every_view_has_the_standard_deviation_it_says(kind: str) -> None:
    # The spread of many differences against the spread stated: a ratio of variances within 6.1 of its own
    # standard deviations (√(2/m) for m differences), which fails by chance about once in 1e9.
    exact: Any = []
    noisy: list[Any] = []
    people = Shoppers(50)
    for seed in range(300):
        release = people.release(kind, noise=3.0, seed=seed)
        noisy.append(release.class_moments() if kind == "two" else release.value_moments())
    release = people.release(kind)
    exact = release.class_moments() if kind == "two" else release.value_moments()
    off = np.triu_indices(len(untyped(exact).gram), 1)
    grams = np.array([item.gram - untyped(exact).gram for item in noisy])

    def check(differences: np.ndarray, deviation: float) -> None:
        ratio = float(np.mean(differences**2)) / deviation**2
        assert abs(ratio - 1) < 6.1 * (2 / differences.size) ** 0.5

    check(grams[:, off[0], off[1]], exact_noise := noisy[0].noise)
    assert exact_noise == pytest.approx(3.0)
    check(np.diagonal(grams, axis1=1, axis2=2), 2**0.5 * exact_noise)
    if kind == "two":
        check(np.array([untyped(item).sums - untyped(exact).sums for item in noisy]), noisy[0].sum_noise)
        check(
            np.array([untyped(item).counts - untyped(exact).counts for item in noisy]),
            untyped(noisy[0]).count_noise,
        )
    else:
        check(np.array([untyped(item).cross - untyped(exact).cross for item in noisy]), noisy[0].sum_noise)


def test_a_release_of_another_kind_says_what_it_lacks() -> None:
    with pytest.raises(DataError, match="no label, so it cannot be used to classify"):
        PEOPLE.release("none").class_moments()
    with pytest.raises(DataError, match="'classes', so it cannot be used for regression"):
        PEOPLE.release("two").value_moments()


def test_a_matrix_that_cannot_be_a_release_is_refused() -> None:
    release = PEOPLE.release("two")
    lopsided = release.matrix.copy()
    lopsided[0, 1] += 1
    crossed = release.matrix.copy()
    crossed[-1, -2] = crossed[-2, -1] = 1
    for matrix, message in (
        (release.matrix[:-1, :-1], "int64 matrix"),
        (release.matrix.astype(float), "int64 matrix"),
        (lopsided, "symmetric"),
        (crossed, "two classes"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(release, matrix=matrix)


def test_a_release_cannot_be_changed_through_the_array_it_was_made_from() -> None:
    release = PEOPLE.release("two")
    matrix = release.matrix.copy()
    kept = replace(release, matrix=matrix)
    matrix[:] = 0
    assert np.array_equal(kept.matrix, release.matrix)
    with pytest.raises(ValueError, match="read-only"):
        kept.matrix[0, 0] = 1


@pytest.mark.parametrize("kind", ["two", "three", "real", "count", "none"])
def test_saving_and_loading_gives_the_same_release(kind: str, tmp_path: Path) -> None:
    release = PEOPLE.release(kind, noise=2.0)
    path = tmp_path / "moments.npz"
    release.save(path)
    again = MomentRelease.load(path)
    assert np.array_equal(again.matrix, release.matrix)
    for name in ("gamma", "rows", "encoders", "label", "mu", "guarantees", "plan", "run", "reproducible"):
        assert getattr(again, name) == getattr(release, name), name
    assert str(again.privacy) == str(release.privacy)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("member", "change", "found"),
    [
        ("matrix", lambda matrix: matrix * 2, "altered"),
        ("matrix", lambda matrix: np.array([{"a": 1}], dtype=object), "not a moment release"),
        ("header", lambda header: header["guarantees"][0].update(epsilon=0.1), "altered"),
        ("header", lambda header: header.update(version=VERSION + 1), "Upgrade Colonnade"),
    ],
    ids=["other numbers", "a pickle", "another guarantee", "a later version"],
)
def test_a_file_that_somebody_edited_is_refused(tmp_path: Path, member: str, change: Any, found: str) -> None:
    path = tmp_path / "moments.npz"
    PEOPLE.release("two").save(path)
    with np.load(path, allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    if member == "matrix":
        held["matrix"] = change(held["matrix"])
    else:
        header = json.loads(held["header"].tobytes())
        change(header)
        held["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **held)
    with pytest.raises(DataError, match=found):
        MomentRelease.load(path)


def test_a_small_file_that_would_unpack_to_a_large_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "moments.npz"
    inside = io.BytesIO()
    np.lib.format.write_array(inside, np.zeros((3000, 3000), dtype=np.int64))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("header.npy", "matrix.npy", "digest.npy"):
            archive.writestr(name, inside.getvalue())
    with pytest.raises(DataError, match="not a moment release"):
        MomentRelease.load(path)


def test_privacy_prints_one_sentence_a_line_and_says_when_there_is_none() -> None:
    privacy = PEOPLE.release("two").privacy
    assert tuple(privacy) == GUARANTEES
    lines = str(privacy).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("The server learns at most ε = 1.00")
    seeded = Privacy(GUARANTEES, reproducible=True)
    assert str(seeded).startswith("No privacy: the noise was drawn from a seed")
    assert len(str(seeded).splitlines()) == 3
