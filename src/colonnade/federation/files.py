"""Files that are written whole or not at all, and facts as JSON with the digest that shows changes."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from colonnade.errors import ModelDamaged, ModelVersion

OWN, SHARED, FOLDER = 0o600, 0o644, 0o700
FACTS, OUTCOME, LOG, JOURNAL = "facts.json", "outcome.json", "log.jsonl", "journal"
PROGRESS = "standing.json"
"""Where a run is and whose approval it waits for, while it goes on."""
PAID = "paid.json"
"""What is known of a release that was opened, until the run's folder is whole."""


@contextmanager
def whole_file(path: Path, *, own: bool = False) -> Iterator[BinaryIO]:
    """A file to write into, which takes its name, on the disk, once the block has ended without an error."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        # What a killed process of this number left would keep its own rights.
        draft.unlink(missing_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN if own else SHARED)
        with os.fdopen(opened, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        # A person knows the file by its name, and not by that of a draft or by none.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, contents: str | bytes, *, own: bool = False) -> None:
    with whole_file(path, own=own) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


def make_folder(path: Path) -> None:
    """Make a folder that its owner alone may look into, and those above it; one that is there stays as it is."""
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)


def open_own(path: Path) -> TextIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWN), "a", encoding="utf-8")


FORMAT = 2
"""Of the records in a folder of a run, an attack or a comparison."""


def plain(value: Any) -> Any:
    """Facts as JSON can say them: a number that is not finite, such as an ε that no proof bounds, is null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def json_text(facts: Any) -> str:
    return json.dumps(plain(facts), ensure_ascii=False, indent=1, allow_nan=False)


def digest_of(facts: Mapping[str, Any]) -> str:
    """The digest of all other facts: it shows accidents, not deceit; what was spent is in the ledgers."""
    rest = {key: value for key, value in plain(facts).items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed_text(facts: Mapping[str, Any]) -> str:
    numbered = {**facts, "format": FORMAT}
    return json_text({**numbered, "digest": digest_of(numbered)})


def write_sealed(path: Path, facts: Mapping[str, Any]) -> None:
    write_whole(path, sealed_text(facts) + "\n", own=True)


def is_sealed(facts: Mapping[str, Any]) -> bool:
    return facts.get("digest") == digest_of(facts)


def check_format(facts: Mapping[str, Any], path: Path) -> None:
    """Refuse a record of another version; those of 0.1 have no number."""
    check_version(facts.get("format", 1), path, current=FORMAT)


def check_version(number: Any, path: Path, *, current: int) -> None:
    """Refuse a file of another version than the current one, by name; all that are older were written by 0.1."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ModelDamaged(f"{path} says that it is of format {number!r}, which never was.")
    if number < current:
        raise ModelVersion(
            f"{path} was written by Colonnade 0.1, which this version does not read. Read it with 0.1, or make it "
            "again with this version."
        )
    if number > current:
        raise ModelVersion(
            f"{path} is of format {number}; this version of Colonnade reads format {current}. Upgrade Colonnade."
        )


def progress_of(folder: Path) -> dict[str, Any]:
    """What a run that goes on noted of where it is; nothing if it noted nothing, or it cannot be read."""
    try:
        facts = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def waits_for(folder: Path) -> list[str]:
    return [str(name) for name in progress_of(folder).get("waits", ())]
