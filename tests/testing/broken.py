"""Which law of a suite does not hold."""

from collections.abc import Callable
from typing import Any

import pytest

from colonnade.testing import ConformanceError


def broken_law(check: Callable[..., None], *arguments: Any, **named: Any) -> str:
    with pytest.raises(ConformanceError, match=r"(?s)expected .*found") as caught:
        check(*arguments, **named)
    return caught.value.law
