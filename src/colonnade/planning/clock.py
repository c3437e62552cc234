"""Seconds of work, whatever else the machine has to do."""

from __future__ import annotations

import time
from types import TracebackType


class Clock:
    """How long something took, or would have taken on a machine with nothing else to do.

    The least of wall time and processor time: on a busy machine work of one thread takes longer by the wall than by
    the processor, and on a quiet one work of several threads takes less.
    """

    def __init__(self) -> None:
        self.wall = 0.0
        self.processor = 0.0

    def __enter__(self) -> Clock:
        self._wall, self._processor = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall = time.perf_counter() - self._wall
        self.processor = time.process_time() - self._processor

    @property
    def seconds(self) -> float:
        return min(self.wall, self.processor)
