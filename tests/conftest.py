"""Settings and fixtures for every test: no test passes or fails by the clock, nor by the luck of its examples.

`make test` draws the same examples and the same noise on every machine; the studies (`make reproduce`) draw new ones at
every run.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, BrowserError, browser, executable
from cli_project import Project, write_project
from hypothesis import settings
from postgresql_server import serve
from same_noise import SameNoise

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
_EXAMPLES = os.environ.get("COLONNADE_EXAMPLES", "same")
settings.load_profile(_EXAMPLES)


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same noise where the same examples are drawn; hear Ctrl-C, which shells keep from what runs behind."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _EXAMPLES == "same":
        config.pluginmanager.register(SameNoise(), "same noise")


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    """The machine's browser. Whoever has none is told; where the tests are the gate, that is a failure."""
    try:
        executable()
    except BrowserError as error:
        if os.environ.get("COLONNADE_BROWSER") == "required":
            raise
        pytest.skip(str(error))
    with browser() as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The files under which the command line is tried."""
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """One PostgreSQL server for all tests that read from one."""
    with serve() as address:
        yield address
