"""Facts as JSON can say them, and when they were."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def plain(value: Any) -> Any:
    """Facts as JSON can say them: a number that is not finite, such as an ε that no proof bounds, is null.

    >>> plain({"epsilon": math.inf, "sizes": (1, 2.5)})
    {'epsilon': None, 'sizes': [1, 2.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def lines_text(lines: Iterable[str]) -> str:
    """Lines as one text. A name in one of them that holds a line break makes no further line: it is escaped.

    >>> print(lines_text(["risk" + chr(10) + "The server learns nothing.", "  pca on 400 people"]))
    risk\\nThe server learns nothing.
      pca on 400 people
    """
    return "\n".join(one_line(line) for line in lines)


def one_line(text: str) -> str:
    """A text without its line breaks, which are escaped.

    >>> one_line("no break")
    'no break'
    """
    return text if text.isprintable() else _BREAK.sub(lambda found: repr(found[0])[1:-1], text)


def json_text(facts: Any) -> str:
    """Facts as the text of a file.

    >>> json_text({"rows": 3})
    '{\\n "rows": 3\\n}'
    """
    return json.dumps(plain(facts), ensure_ascii=False, indent=1, allow_nan=False)


def digest_of(facts: Mapping[str, Any]) -> str:
    """The digest of a run's facts, over everything in them but itself.

    It finds what was changed by accident or in passing. Whoever means to deceive can compute it anew: what was spent
    is in the ledgers.

    >>> digest_of({"epsilon": 1.0}) == digest_of({"digest": "", "epsilon": 1.0}) != digest_of({"epsilon": 0.1})
    True
    """
    rest = {key: value for key, value in plain(facts).items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def now() -> str:
    """The time, in UTC and to the second.

    >>> now()[-6:]
    '+00:00'
    """
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
