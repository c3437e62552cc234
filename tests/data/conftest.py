"""One PostgreSQL server for all tests of data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgresql_server import serve


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    with serve() as address:
        yield address
