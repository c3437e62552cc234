"""The command line: one file per verb."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence and an exit code, never in a traceback."""
    from colonnade.cli.app import run

    sys.exit(run())
