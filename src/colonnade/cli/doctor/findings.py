"""What `colonnade doctor` finds, one line each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, what was found, and what to do if it is not in order.

    What is doubtful may be in order: only its owner can tell.
    """

    what: str
    fine: bool
    found: str
    remedy: str = ""
    doubtful: bool = False
