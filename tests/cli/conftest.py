"""The files under which the command line is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_project import Project, write_project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)
