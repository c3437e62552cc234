"""What pytest does for benchmarks/mutants.py: it notes which test reaches which line, or runs chosen tests in order.

``COLONNADE_REACH=file`` records: for each test its processor time and whether it passed, and for each function of the
rooms the tests that ran its lines. ``COLONNADE_CHOSEN=file`` runs the tests that the file names, in its order, each
with the time that it may take.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import coverage
import pytest

REACH, CHOSEN = "COLONNADE_REACH", "COLONNADE_CHOSEN"


def functions(source: str) -> Iterator[tuple[str, str, int, int]]:
    """Every function of a module: name, digest of its text, first and last line. Inner ones come after outer ones."""
    lines = source.splitlines()

    def inside(node: ast.AST, outer: str) -> Iterator[tuple[str, str, int, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}".lstrip(".")
                last = child.end_lineno or child.lineno
                if not isinstance(child, ast.ClassDef):
                    text = "\n".join(lines[child.lineno - 1 : last])
                    yield name, hashlib.sha256(text.encode()).hexdigest()[:16], child.lineno, last
                yield from inside(child, name)
            else:
                yield from inside(child, outer)

    yield from inside(ast.parse(source), "")


def spent() -> float:
    """Processor time of this process and of those that it waited for."""
    return sum(os.times()[:4])


class Recorder:
    """Which test reaches what, also by what is worked out once for several tests: fixtures, tables of a test file."""

    def __init__(self, target: Path, rooms: list[str], limit: float) -> None:
        self.target, self.limit = target, limit
        self.tests: dict[str, list[Any]] = {}
        # Of each test, the contexts that it shares with others.
        self.shared: dict[str, set[str]] = {}
        self.context = ""
        self.begun = spent()
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{room}/*" for room in rooms]
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        if spent() - self.begun > self.limit:
            item.session.shouldstop = "takes too long to be recorded"
        before, file = spent(), item.nodeid.partition("::")[0]
        self.tests[item.nodeid] = [0.0, True]
        fixtures = getattr(item, "fixturenames", ())
        self.shared[item.nodeid] = {f"collect {file}", *(f"fixture {name}" for name in fixtures)}
        try:
            return (yield from self._within(item.nodeid))
        finally:
            self.tests[item.nodeid][0] = round(spent() - before, 3)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, None, None]:
        if fixturedef.scope == "function":
            return (yield)
        return (yield from self._within(f"fixture {fixturedef.argname}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, None, None]:
        return (yield from self._within(f"collect {collector.nodeid.partition('::')[0]}"))

    def _within(self, context: str) -> Generator[None, None, None]:
        before, self.context = self.context, context
        self.coverage.switch_context(context)
        try:
            return (yield)
        finally:
            self.context = before
            self.coverage.switch_context(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed and report.nodeid in self.tests:
            self.tests[report.nodeid][1] = False

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        masks: dict[str, int] = {}
        for number, name in enumerate(self.tests):
            for context in {name, *self.shared[name]}:
                masks[context] = masks.get(context, 0) | 1 << number
        reach: dict[str, dict[str, dict[str, Any]]] = {}
        for path in data.measured_files():
            owners: dict[int, tuple[str, str, int]] = {}
            for name, digest, first, last in functions(Path(path).read_text()):
                owners.update(dict.fromkeys(range(first, last + 1), (name, digest, first)))
            found = reach.setdefault(path.partition("/src/colonnade/")[2], {})
            for line, contexts in data.contexts_by_lineno(path).items():
                mask = 0
                for context in contexts:
                    mask |= masks.get(context, 0)
                if mask and line in owners:
                    name, digest, first = owners[line]
                    function = found.setdefault(name, {"digest": digest, "lines": {}})
                    function["lines"][str(line - first)] = f"{mask:x}"
        self.target.write_text(json.dumps({"tests": list(self.tests.items()), "reach": reach}))


class Chooser:
    """The chosen tests, in their order, each in its time."""

    def __init__(self, chosen: dict[str, float]) -> None:
        self.chosen = chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        order = {name: place for place, name in enumerate(self.chosen)}
        left_out = [item for item in items if item.nodeid not in order]
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )
        config.hook.pytest_deselected(items=left_out)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        begun = time.monotonic()

        def late(_signal: int, _frame: FrameType | None) -> None:
            raise TimeoutError(f"{time.monotonic() - begun:.0f} s")

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, self.chosen[item.nodeid])
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def pytest_configure(config: pytest.Config) -> None:
    """Be one of the two."""
    if REACH in os.environ:
        asked = json.loads(os.environ[REACH])
        recorder = Recorder(Path(asked["target"]), asked["rooms"], asked["limit"])
        config.pluginmanager.register(recorder, "recorder of reach")
    if CHOSEN in os.environ:
        chosen = json.loads(Path(os.environ[CHOSEN]).read_text())
        config.pluginmanager.register(Chooser(chosen), "chooser of tests")
