"""What `colonnade doctor` finds, one line each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, what was found, and what to do if it is not in order."""

    what: str
    fine: bool
    found: str
    remedy: str = ""
