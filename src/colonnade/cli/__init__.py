"""The command line: one file per verb."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence and an exit code, never in a traceback."""
    hold_streams()
    try:
        from colonnade.cli.app import run
    except KeyboardInterrupt:
        # Nothing has begun yet, and nothing is there to say it with.
        sys.exit(INTERRUPTED)
    sys.exit(run())


def hold_streams() -> None:
    """Put nothing in the place of a standard stream that was closed: the next file opened would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
