"""Facts as JSON can say them, and the digest that shows whether they were changed since they were written."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


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


def sealed_text(facts: Mapping[str, Any]) -> str:
    """Facts with their digest, as the text of a file.

    >>> is_sealed(json.loads(sealed_text({"epsilon": 1.0})))
    True
    """
    return json_text({**facts, "digest": digest_of(facts)})


def is_sealed(facts: Mapping[str, Any]) -> bool:
    """Whether facts have a digest, and are those that it is of.

    >>> is_sealed({"epsilon": 0.1, "digest": digest_of({"epsilon": 1.0})})
    False
    """
    return facts.get("digest") == digest_of(facts)
