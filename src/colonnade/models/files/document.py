"""What every model file is: one JSON document with a format, a version, a digest and the guarantee it carries."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from colonnade import errors
from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock
from colonnade.federation.files import check_version, write_whole
from colonnade.markup import html_table
from colonnade.models.inputs import InputSpec
from colonnade.privacy.guarantee import Guarantee, delta_text, epsilon_text
from colonnade.privacy.observers import observer_text, parse_observer, parse_unit, unit_text

# A flipped bit can claim a password (RuntimeError), another compression or another format of the directory
# (NotImplementedError), or an array as large as one likes (MemoryError).
DAMAGE = (
    *(OSError, ValueError, KeyError, EOFError, TypeError, MemoryError, RuntimeError, SyntaxError),
    *(OverflowError, struct.error, zipfile.BadZipFile, zlib.error),
)


def guarantees_to_data(guarantees: Iterable[Guarantee]) -> list[dict[str, Any]]:
    return [
        {
            "observer": item.observer.name,
            "unit": item.unit.name,
            # JSON has no infinity; no bound at all is null.
            "epsilon": item.epsilon if math.isfinite(item.epsilon) else None,
            "delta": item.delta,
            "assumption": item.assumption,
            "method": item.method,
        }
        for item in guarantees
    ]


def guarantees_from_data(data: Sequence[Any]) -> tuple[Guarantee, ...]:
    """The guarantees that these values describe; whatever is none raises `KeyError`, `TypeError` or `ValueError`."""
    return tuple(
        Guarantee(
            observer=parse_observer(item["observer"]),
            unit=parse_unit(item["unit"]),
            epsilon=math.inf if item["epsilon"] is None else item["epsilon"],
            delta=item["delta"],
            assumption=item["assumption"],
            method=item["method"],
        )
        for item in data
    )


NOT_PRIVATE = (
    "No privacy: the noise was drawn from a seed, so whoever has the seed can take it out. "
    "With noise from the system the same run would give:"
)


class Privacy(tuple[Guarantee, ...]):
    """The guarantees of a release, one for each observer; printed, one sentence a line."""

    reproducible: bool

    def __new__(cls, guarantees: Iterable[Guarantee], *, reproducible: bool = False) -> Privacy:
        privacy = super().__new__(cls, guarantees)
        privacy.reproducible = reproducible
        return privacy

    def __getnewargs_ex__(self) -> tuple[tuple[tuple[Guarantee, ...]], dict[str, bool]]:
        return (tuple(self),), {"reproducible": self.reproducible}

    def _repr_html_(self) -> str:
        rows = [
            (
                observer_text(item.observer.name),
                f"{unit_text(item.unit.name)} ({item.unit.name})",
                epsilon_text(item.epsilon),
                delta_text(item.delta),
                item.assumption,
            )
            for item in self
        ]
        caption = NOT_PRIVATE if self.reproducible else "What each observer can learn at most"
        return html_table(caption, ("who", "about what", "ε", "at δ", "provided that"), rows)

    def __str__(self) -> str:
        sentences = [str(item) for item in self] or ["No guarantee."]
        return "\n".join([NOT_PRIVATE, *sentences] if self.reproducible else sentences)


# What a description of something that cannot be raises: its digest matches, so a person or a program wrote it so.
IMPOSSIBLE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    ArithmeticError,
    errors.ColonnadeError,
)
FORMAT = "colonnade model"
VERSION = 2
MODEL, PARTIES, PEOPLE = "model.json", "parties", "people.npz"
MORE_MODELS = "model-{number}.json"
"""Models of the labels after the first, counted from 2."""
UNCOVERED = (
    "These weights are for their party alone: what follows is about messages and does not cover showing them."
)


def described(
    frame: InputSpec, privacy: Privacy, *, kind: str, method: str, run: str, party: str | None, statement: str
) -> dict[str, Any]:
    """What a file says of any model: its kind, whose it is, how it reads people, and what it cost."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "method": method,
        "run": run,
        "party": party,
        "encoders": [{"party": owner, "encoder": encoder.to_data()} for owner, encoder in frame.encoders],
        "label": frame.label.to_data(),
        "attributes": frame.attributes,
        "features": list(frame.feature_names),
        "privacy": guarantees_to_data(privacy),
        "statement": statement,
        "reproducible": privacy.reproducible,
    }


def frame_in(data: Mapping[str, Any]) -> InputSpec:
    return InputSpec(
        tuple((item["party"], Encoder.from_data(item["encoder"])) for item in data["encoders"]),
        LabelBlock.from_data(data["label"]),
        data["attributes"],
    )


def privacy_in(data: Mapping[str, Any]) -> Privacy:
    return Privacy(guarantees_from_data(data["privacy"]), reproducible=bool(data["reproducible"]))


def write_document(path: Path, data: dict[str, Any], *, own: bool = False) -> None:
    """Write a document with its digest, whole or not at all; `own` if it is for one party alone."""
    text = json.dumps({**data, "digest": _digest(data)}, ensure_ascii=False, indent=1, allow_nan=False)
    write_contents(path, text.encode(), own=own)


def write_contents(path: Path, contents: bytes, *, own: bool) -> None:
    try:
        write_whole(path, contents, own=own)
    except OSError as error:
        raise errors.CannotWrite(f"cannot write {path}: {error.strerror}.") from None


def read_document(path: Path) -> dict[str, Any]:
    """The document in a file; anything but a whole one of a known version is an error that says what it is."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
    except FileNotFoundError:
        raise errors.DataMissing(f"{path}: there is no such file.") from None
    except OSError as error:
        raise errors.DataUnreadable(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        raise errors.ModelDamaged(
            f"{path} is not a model, or it is cut off. Copy it again from where it was saved."
        ) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise errors.ModelError(f"{path} is not a model. Give the model.json of a run, or its folder.")
    check_version(data.get("version"), path, current=VERSION)
    given = data.pop("digest", None)
    try:
        same = given == _digest(data)
    except ValueError:
        # Numbers that overflow, which no model holds.
        same = False
    if not same:
        raise errors.ModelDamaged(
            f"{path} was altered after it was saved: its digest does not match its contents. Copy it again from "
            "where it was saved."
        )
    return data


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _digest(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
