"""Accounts of ledgers that say the same, as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Facts = dict[str, Any]


def merged(totals: Iterable[Facts], *, apart: Sequence[str] = ()) -> list[Facts]:
    """Accounts that differ in their observer alone, as one with all `observers`; `apart`: further keys that count."""
    keys = ("dataset", "unit", "epsilon", "delta", "budget", "left", "private", "epsilon_before", *apart)
    accounts: dict[tuple[Any, ...], Facts] = {}
    for total in totals:
        key = tuple(total.get(name) for name in keys)
        if key in accounts:
            accounts[key]["observers"].append(total["observer"])
        else:
            accounts[key] = {**total, "observers": [total["observer"]]}
    return list(accounts.values())
