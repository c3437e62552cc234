"""Tables in memory as columns by name, whatever package they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from colonnade.data.arrow import StreamFailed, columns_of
from colonnade.errors import DataError


def columns_by_name(frame: Any) -> Mapping[str, Any] | None:
    """The columns of a table in memory; None for what has no columns with names, such as an array.

    Takes mappings, pandas data frames, numpy's structured arrays, and whatever offers Arrow's C interface: polars,
    Arrow tables and record batches, DuckDB relations. No package has to be installed for it but the caller's own.
    """
    if isinstance(frame, Mapping):
        return frame
    # pandas offers a stream too, and needs a package of its own to keep its word.
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return {str(name): frame[name] for name in frame.columns}
    names = getattr(getattr(frame, "dtype", None), "names", None)
    if names is not None:
        return {name: frame[name] for name in names}
    if hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "dtype"):
        try:
            return columns_of(frame)
        except StreamFailed:
            raise DataError(
                f"{type(frame).__name__} stopped half way while its rows were read. Compute it first, and give the "
                "result."
            ) from None
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        raise DataError(f"a {type(frame).__name__} is not computed yet. Give what its collect() returns.")
    # What others call a table has names, and a column for each.
    names = getattr(frame, "columns", None)
    return {str(name): frame[name] for name in names} if isinstance(names, Iterable) else None
