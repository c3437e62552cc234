"""The processes that play the parties of a benchmark: one line in, one line out."""

from __future__ import annotations

import subprocess

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def say(player: subprocess.Popen[str], line: str) -> None:
    """Tell a player what to do."""
    if player.stdin is None:
        raise SystemExit("a player was started without a pipe to it")
    player.stdin.write(f"{line}\n")
    player.stdin.flush()


def heard(player: subprocess.Popen[str]) -> str:
    """Its next line; empty if it has stopped."""
    return "" if player.stdout is None else player.stdout.readline()
