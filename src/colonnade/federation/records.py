"""Facts as JSON can say them, the number of their form, and the digest that shows whether they were changed since."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colonnade.errors import ModelDamaged, ModelNewer

FORMAT = 2
"""Of the records in a run's folder. Those of the first form have no number."""


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
    """The digest of a run's facts, over everything in them but itself.

    It finds what was changed by accident or in passing. Whoever means to deceive can compute it anew: what was spent
    is in the ledgers.
    """
    rest = {key: value for key, value in plain(facts).items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed_text(facts: Mapping[str, Any]) -> str:
    """Facts with the number of their form and their digest, as the text of a file."""
    numbered = {**facts, "format": FORMAT}
    return json_text({**numbered, "digest": digest_of(numbered)})


def is_sealed(facts: Mapping[str, Any]) -> bool:
    """Whether facts have a digest, and are those that it is of."""
    return facts.get("digest") == digest_of(facts)


def check_format(facts: Mapping[str, Any], path: Path) -> None:
    """Refuse a record whose form is not known here; one without a number is of the first."""
    number = facts.get("format", 1)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ModelDamaged(f"{path} says that it is of format {number!r}, which never was.")
    if number > FORMAT:
        raise ModelNewer(
            f"{path} is a record of a run of format {number}; this version of Colonnade reads up to {FORMAT}. Upgrade "
            "Colonnade."
        )
