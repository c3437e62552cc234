"""Whether a file that somebody named is there, and if not, why."""

from __future__ import annotations

import errno
from pathlib import Path

from colonnade.data.declaring import nearest
from colonnade.errors import DataError, DataMissing, DataUnreadable

_LONGEST_SHOWN = 120


def absence(path: Path, start: str) -> DataError | None:
    """Why there is no such file, for a message that begins with `start`; None if there is one."""
    try:
        path.stat()
    except FileNotFoundError:
        return DataMissing(f"{start} does not exist.{nearest_file(path)}")
    except ValueError:
        return DataMissing(f"{start} does not exist: no file has NUL in its name.")
    except OSError as error:
        if error.errno == errno.ELOOP:
            return DataMissing(f"{start} does not exist: it is a link that leads back to itself.")
        if error.errno == errno.ENAMETOOLONG:
            size = len(str(path))
            return DataMissing(
                f"{start[:_LONGEST_SHOWN]}…: the name has {size} letters, longer than a path can be."
            )
        return DataUnreadable(f"{start} cannot be read ({error.strerror}).")
    return None


def nearest_file(path: Path) -> str:
    """A sentence naming the file in the same folder that was probably meant."""
    if path.is_symlink():
        return " It is a link to something that is not there."
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" The folder {path.parent} does not exist either." if not path.parent.exists() else ""
    return nearest(path.name, names)
