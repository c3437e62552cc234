"""The same random bits in every run of a test: whether it passes is decided when it is written, not by a draw.

What the product draws in this process comes, for the time of a test, from a stream with the test's name. A fixture that
several tests share has a stream with its own name, since which of them needs it first depends on how tests are spread.
Processes that a test starts draw as users' do.
"""

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from colonnade import randomness


class SameNoise:
    """A plugin that stands in for the operating system's generator."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin("collection")
        vars(randomness)["os"] = SimpleNamespace(urandom=self.urandom)

    def urandom(self, count: int) -> bytes:
        with self._lock:
            return self._stream.bytes(count)

    def _begin(self, name: str) -> None:
        self._stream = randomness.SeededRandomness(f"test {name}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._begin(f"{item.nodeid}, its fixtures")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._begin(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before, which = self._stream, getattr(request, "param_index", 0)
        self._begin(f"{fixturedef.baseid}, {fixturedef.argname} {which}")
        try:
            return (yield)
        finally:
            self._stream = before
