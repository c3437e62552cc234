"""A release in one file: a NumPy archive with the integers, a description in JSON, and their digest.

The digest has no key: it finds damage and does not prove who wrote the file. Nothing is pickled or believed unchecked.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock
from colonnade.errors import CannotWrite, DataMissing, ModelDamaged, ModelError
from colonnade.federation.files import check_version, whole_file
from colonnade.models.files.document import DAMAGE, guarantees_from_data

FORMAT = "colonnade moment release"
VERSION = 5
_MEMBERS = ("header.npy", "matrix.npy", "digest.npy")


def write_release(target: Path, described: Mapping[str, object], matrix: NDArray[np.int64]) -> None:
    """Write a release; a file of that name is replaced only once the new one is whole."""
    data = {"format": FORMAT, "version": VERSION, **described}
    header = json.dumps(data, ensure_ascii=False, sort_keys=True).encode()
    digest = _digest(header, matrix)
    try:
        with whole_file(target) as file:
            np.savez(
                file,
                allow_pickle=False,
                header=np.frombuffer(header, dtype=np.uint8),
                matrix=matrix,
                digest=np.frombuffer(digest, dtype=np.uint8),
            )
    except OSError as error:
        raise CannotWrite(
            f"cannot write {target}: {error.strerror}. Choose a folder you can write to."
        ) from None


def read_release(source: Path) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """What a file says of a release, and its matrix; all but a whole file of a known version is a `DataError`."""
    try:
        header, matrix, digest = _members(source)
    except FileNotFoundError:
        raise DataMissing(f"{source}: there is no such file.") from None
    except DAMAGE:
        raise ModelDamaged(
            f"{source} is not a moment release, or it is damaged or cut off. Copy it again from where it was saved."
        ) from None
    try:
        described = json.loads(header)
    except ValueError:
        described = None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ModelError(f"{source} is not a moment release. Give a file that MomentRelease.save wrote.")
    check_version(described.get("version"), source, current=VERSION)
    if digest != _digest(header, matrix):
        raise ModelDamaged(
            f"{source} was altered after it was saved: its digest does not match its contents. "
            "Copy it again from where it was saved."
        )
    return described, matrix


def release_fields(described: Mapping[str, Any]) -> dict[str, Any]:
    """What a description says of a release, as the fields of one; its matrix is beside it."""
    among = described.get("among", 1)
    label, *more = (
        LabelBlock(LabelBlock.from_data(one).label, among)
        for one in (described["label"], *described.get("more_labels", ()))
    )
    return {
        "gamma": described["gamma"],
        "rows": described["rows"],
        "encoders": tuple(
            (item["party"], Encoder.from_data(item["encoder"])) for item in described["encoders"]
        ),
        "label": label,
        "more_labels": tuple(more),
        "mu": Fraction(described["mu"]),
        "guarantees": guarantees_from_data(described["guarantees"]),
        "plan": described["plan"],
        "run": described["run"],
        "reproducible": described["reproducible"],
        "attributes": described["attributes"],
        "conditional": described.get("conditional", False),
    }


def _members(source: Path) -> tuple[bytes, NDArray[np.int64], bytes]:
    size = source.stat().st_size
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        # Stored as they are: a small file cannot claim to unpack to a large one.
        if sorted(item.filename for item in members) != sorted(_MEMBERS) or any(
            item.compress_type != zipfile.ZIP_STORED or item.file_size > size for item in members
        ):
            raise ValueError("not the members of a release")
    with np.load(source, allow_pickle=False) as archive:
        header, matrix, digest = (archive[name.removesuffix(".npy")] for name in _MEMBERS)
    if header.dtype != np.uint8 or digest.dtype != np.uint8 or matrix.dtype != np.int64 or matrix.ndim != 2:
        raise ValueError("not the arrays of a release")
    return header.tobytes(), matrix, digest.tobytes()


def _digest(header: bytes, matrix: NDArray[np.int64]) -> bytes:
    state = hashlib.sha256(len(header).to_bytes(8, "little") + header)
    state.update(np.ascontiguousarray(matrix, dtype="<i8").tobytes())
    return state.digest()
