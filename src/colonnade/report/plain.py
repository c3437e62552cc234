"""Facts as lines of text, and when they were."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


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


def now() -> str:
    """The time, in UTC and to the second.

    >>> now()[-6:]
    '+00:00'
    """
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
