"""How a party's data set is cut into people to train on and people held out: a key in a file beside its ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from colonnade.data.schema import Schema
from colonnade.errors import CannotWrite, ModelDamaged
from colonnade.federation.whole_files import write_whole
from colonnade.ledger import Cut, Ledger
from colonnade.ledger.parts import PartName
from colonnade.models.files.membership import IdRules
from colonnade.protocols.parts import PartSpec

FORMAT = 1


def part_asked(
    share: float,
    name: PartName,
    *,
    ledger: Ledger,
    dataset: str,
    schema: Schema,
    cuts: dict[str, Cut] | None = None,
) -> PartSpec:
    """The part of a data set that a run is about, with how the data set was cut before.

    A ledger in memory has no file beside it; `cuts` are then kept by whoever has that ledger.
    """
    held = cuts if cuts is not None else {}
    known = held.get(dataset) if ledger.path is None else kept_cut(ledger.path, dataset)
    keep: Callable[[Cut], None] = (
        partial(held.__setitem__, dataset) if ledger.path is None else partial(keep_cut, ledger.path, dataset)
    )
    return PartSpec(share, name, str(IdRules.of(schema)), known, keep)


def kept_cut(ledger: Path, dataset: str) -> Cut | None:
    """How a data set was cut, as it was kept beside a ledger; None if it never was."""
    path = _place(ledger, dataset)
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        return Cut.from_data(data)
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelDamaged(
            f"{path} should say how data set {dataset!r} is cut, and cannot be read. Restore it from a copy. Without "
            "it the people would be cut anew, and every release about a part would count in full."
        ) from None


def keep_cut(ledger: Path, dataset: str, cut: Cut) -> None:
    """Write down how a data set is cut, once."""
    path = _place(ledger, dataset)
    said = {"format": FORMAT, "dataset": dataset, **cut.to_data()}
    try:
        write_whole(path, json.dumps(said, ensure_ascii=False, indent=1) + "\n", own=True)
    except OSError as error:
        raise CannotWrite(
            f"how data set {dataset!r} is cut cannot be kept beside {ledger} ({error.strerror or error}). Nothing was "
            "charged. Make room, or give write permission there."
        ) from None


def _place(ledger: Path, dataset: str) -> Path:
    name = hashlib.sha256(dataset.encode()).hexdigest()[:12]
    return ledger.with_name(f"{ledger.name}.cut.{name}.json")
