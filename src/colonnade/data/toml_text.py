"""Plain values as the text of a TOML file, which `tomllib` reads back as they were."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(data: Mapping[str, Any]) -> str:
    """Every key on a line of its own; tables within tables take one line, those of `columns` a heading."""
    lines = [f"{_key(name)} = {_value(item)}" for name, item in data.items() if not _is_table(item)]
    for name, table in data.items():
        if not _is_table(table):
            continue
        if table and all(_is_table(item) for item in table.values()):
            for inner, item in table.items():
                lines += ["", f"[{_key(name)}.{_key(inner)}]", *_lines(item)]
        else:
            lines += ["", f"[{_key(name)}]", *_lines(table)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items() if value is not None]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # JSON's strings are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise ValueError(f"{type(value).__name__} has no form in TOML")
