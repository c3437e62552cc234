"""The sets of PBM-VFL's study that are at hand, cut into parties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import torch
from numpy.typing import NDArray

from colonnade.data.schema import Schema
from colonnade.data.table import Table as DataTable
from colonnade.randomness import public_permutation
from reproduction.split_training import Data

# Training tables of five parties, test rows by column, test labels.
Tables = tuple[list[DataTable], dict[str, NDArray[np.str_]], NDArray[np.str_]]


def phishing(folder: Path, parties: int) -> Data:
    """The phishing set in contiguous blocks of columns, four fifths to train."""
    columns = parquet.read_table(folder / "phishing_websites.parquet").to_pydict()
    codes = (np.array(columns.pop("Result")) == 1).astype(np.int64)
    rows = np.column_stack([np.asarray(values) for values in columns.values()]).astype(np.float32)
    return _split(rows, codes, parties, classes=2)


def activity(folder: Path) -> Data:
    """Ten plain features for each of nine axes, as z-scores clipped at 3, in blocks of 18 for five parties."""
    file = np.load(folder / "har_inertial_test_only.npz", allow_pickle=False)
    signals = file["x"].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(signals - signals.mean(axis=2, keepdims=True), axis=2)) ** 2
    bands = [
        spectrum[:, :, low:high].sum(axis=2) for low, high in ((1, 3), (3, 6), (6, 12), (12, 24), (24, 65))
    ]
    features = [
        signals.mean(axis=2), signals.std(axis=2), signals.min(axis=2), signals.max(axis=2),
        np.abs(np.diff(signals, axis=2)).mean(axis=2), *(np.log1p(band) for band in bands),
    ]  # fmt: skip
    rows = np.stack(features, axis=2).reshape(len(signals), -1)
    rows = np.clip((rows - rows.mean(axis=0)) / rows.std(axis=0), -3, 3)
    return _split(rows.astype(np.float32), file["activity"].astype(np.int64) - 1, 5, classes=6)


def mnist(folder: Path) -> Data:
    """All digits, as quadrants."""
    file = np.load(folder / "mnist.npz", allow_pickle=False)
    order = public_permutation(len(file["y_train"]), 1)
    train, test = file["x_train"][order][..., None], file["x_test"][..., None]
    return _quadrants(train, file["y_train"][order], test, file["y_test"])


def cifar(folder: Path) -> Data:
    """The images of the first training batch and all test images, as quadrants."""
    train = np.load(folder / "cifar10_train_batch1.npz", allow_pickle=False)
    test = np.load(folder / "cifar10_test.npz", allow_pickle=False)
    return _quadrants(train["x"], train["y"], test["x"], test["y"])


def without_test(data: Data) -> Data:
    """Training rows alone, the last sixth of them in the place of test rows: what a choice may look at."""
    cut = len(data.train_codes) * 5 // 6
    return replace(
        data,
        train=data.train[:, :cut],
        train_codes=data.train_codes[:cut],
        test=data.train[:, cut:],
        test_codes=data.train_codes[cut:],
    )


def _quadrants(
    train: NDArray[np.uint8],
    train_codes: NDArray[np.uint8],
    test: NDArray[np.uint8],
    test_codes: NDArray[np.uint8],
) -> Data:
    half = train.shape[1] // 2

    def cut(images: NDArray[np.uint8]) -> torch.Tensor:
        scaled = images.astype(np.float32) / 127.5 - 1
        parts = [scaled[:, a : a + half, b : b + half] for a in (0, half) for b in (0, half)]
        return torch.from_numpy(
            np.stack([part.transpose(0, 3, 1, 2).reshape(len(images), -1) for part in parts])
        )

    return Data(
        cut(train),
        train_codes.astype(np.int64),
        cut(test),
        test_codes.astype(np.int64),
        10,
    )


def _split(rows: NDArray[np.float32], codes: NDArray[np.int64], parties: int, *, classes: int) -> Data:
    order = public_permutation(len(rows), 0)
    cut = int(0.8 * len(rows))

    def parts(some: NDArray[np.int64]) -> torch.Tensor:
        blocks = rows[some].reshape(len(some), parties, -1).transpose(1, 0, 2)
        return torch.from_numpy(np.ascontiguousarray(blocks))

    train, test = order[:cut], order[cut:]
    return Data(parts(train), codes[train], parts(test), codes[test], classes)


def phishing_tables(folder: Path) -> Tables:
    """Training tables of five parties, test rows by column, test labels."""
    columns = {
        name: np.asarray(values).astype(str)
        for name, values in parquet.read_table(folder / "phishing_websites.parquet").to_pydict().items()
    }
    order = public_permutation(len(columns["Result"]), 0)
    return _tables(columns, order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :])


def _tables(
    columns: dict[str, NDArray[np.str_]], train: NDArray[np.int64], test: NDArray[np.int64]
) -> Tables:
    names = [name for name in columns if name != "Result"]
    tables = []
    for party, mine in enumerate(np.array_split(np.array(names), 5)):
        declared = 'id = "n"\n' + "".join(
            f'columns.{name} = {{kind = "categorical", categories = ["-1", "0", "1"]}}\n' for name in mine
        )
        arrays = {name: columns[name][train] for name in mine}
        if party == 0:
            declared += '[label]\ncolumn = "Result"\nkind = "classes"\nclasses = ["-1", "1"]\n'
            arrays["Result"] = columns["Result"][train]
        tables.append(DataTable.from_arrays(f"party{party}", arrays, Schema.parse(declared)))
    return tables, {name: columns[name][test] for name in names}, columns["Result"][test]


def made_up() -> Data:
    """A few random rows, for a look at the frame."""
    generator = np.random.default_rng(0)
    rows = generator.integers(-1, 2, (400, 30)).astype(np.float32)
    return _split(rows, (rows.sum(axis=1) > 0).astype(np.int64), 5, classes=2)


def made_up_tables() -> Tables:
    """The same as tables."""
    generator = np.random.default_rng(0)
    rows = generator.integers(-1, 2, (400, 30))
    columns = {f"x{number}": rows[:, number].astype(str) for number in range(30)}
    columns["Result"] = np.where(rows.sum(axis=1) > 0, "1", "-1")
    return _tables(columns, np.arange(300), np.arange(300, 400))


def made_up_images() -> Data:
    """A few images of noise."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (60, 16, 16, 1)).astype(np.uint8)
    codes = np.arange(60, dtype=np.uint8) % 10
    return _quadrants(images[:40], codes[:40], images[40:], codes[40:])
