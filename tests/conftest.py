"""Settings for every test: no test passes or fails by the clock, nor by the luck of its examples.

`make test` draws the same examples on every machine; the studies (`make reproduce`) draw new ones at every run.
"""

import os
from collections.abc import Iterator

import pytest
from browser import Browser, BrowserError, browser, executable
from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("COLONNADE_EXAMPLES", "same"))


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
