"""Forecasts that are made while people look at other pages: one at a time, each in a process that can be ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError

KEPT, WAITING = 50, 8
EFFORT_SECONDS = 2.0
LONGEST_SECONDS = 1800.0
_FAILED = (
    "no forecast was made: its process ended before it had one. What the plan would cost stands all the same."
)

Question = dict[str, Any]
Run = Callable[[Question, "Forecast"], None]


class Forecast:
    """One forecast: how far it is, then its facts, or why there are none."""

    def __init__(self) -> None:
        self.done, self.total = 0, 100
        self.facts: dict[str, Any] | None = None
        self.error = ""

    @property
    def ended(self) -> bool:
        return self.facts is not None or bool(self.error)

    @property
    def words(self) -> dict[str, str]:
        return {"forecast": f"{100 * self.done // max(1, self.total)} %"}

    def hear(self, line: str | bytes) -> None:
        said = json.loads(line)
        if "facts" in said:
            self.facts = said["facts"]
        elif "error" in said:
            self.error = said["error"]
        else:
            self.done, self.total = int(said["done"]), int(said["total"])


def question(
    job: str,
    schemas: Mapping[str, PublicSchema],
    *,
    rows: int,
    files: Iterable[Path] = (),
    every: bool = False,
    name: str = "the plan",
) -> Question:
    """What to forecast: a job's text for these columns and so many people, by every method or by its own alone."""
    return {
        "job": job,
        "name": name,
        "schemas": {party: schema.to_data() for party, schema in schemas.items()},
        "rows": rows,
        "files": [str(path) for path in files],
        "every": every,
        "effort": EFFORT_SECONDS,
    }


class Forecasts:
    """The forecasts of one board by their keys; the oldest are forgotten."""

    def __init__(self, run: Run | None = None) -> None:
        self._run = run or self._in_a_process
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._made: OrderedDict[str, Forecast] = OrderedDict()
        self._process: subprocess.Popen[str] | None = None
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def get(self, key: str) -> Forecast | None:
        """The forecast of this key, if it was begun."""
        with self._lock:
            return self._made.get(key)

    def begin(self, key: str, asked: Question) -> Forecast | None:
        """The forecast of this key, begun if it was not yet; None where too many wait for their turn."""
        with self._lock:
            known = self._made.get(key)
            if known is not None:
                return known
            if self._closed or sum(not one.ended for one in self._made.values()) >= WAITING:
                return None
            made = self._made[key] = Forecast()
            for old in [name for name, one in self._made.items() if one.ended][: len(self._made) - KEPT]:
                del self._made[old]
            thread = threading.Thread(target=self._turned, args=(asked, made), daemon=True)
            self._threads.add(thread)
            thread.start()
            return made

    def close(self) -> None:
        """End what is being made, and wait until it has ended."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _turned(self, asked: Question, made: Forecast) -> None:
        try:
            with self._turn:
                if not self._closed:
                    self._run(asked, made)
        except ColonnadeError as error:
            made.error = str(error)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        finally:
            if not made.ended:
                made.error = _FAILED
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _in_a_process(self, asked: Question, made: Forecast) -> None:
        with subprocess.Popen(
            [sys.executable, "-m", "colonnade.board.forecaster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        ) as process:
            with self._lock:
                self._process = process
                if self._closed:
                    process.kill()
            limit = threading.Timer(LONGEST_SECONDS, process.kill)
            limit.start()
            try:
                if process.stdin is None or process.stdout is None:
                    return
                process.stdin.write(json.dumps(asked))
                process.stdin.close()
                for line in process.stdout:
                    made.hear(line)
            finally:
                limit.cancel()
                process.kill()
                with self._lock:
                    self._process = None
