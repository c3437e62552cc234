"""A run from which nothing could be learnt is refused before anything is charged, with how many people would do."""

import re
from pathlib import Path

import pytest
from cli_project import Project, train, write_project

from colonnade.cli.app import run

PLAN = 4


def refused(project: Project, capsys: pytest.CaptureFixture[str]) -> int:
    """How many people would do, as a run says that is refused and charges nobody."""
    assert train(project, "--output", str(project.path("out"))) == PLAN
    err = capsys.readouterr().err
    assert err.startswith("error E408") and "raise epsilon" in err
    assert project.charges("bank") == project.charges("insurer") == 0
    assert not project.path("out").exists()
    (found,) = re.findall(r"At least (\d+) people would do", err)
    return int(found)


def test_noise_many_times_larger_than_the_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = write_project(tmp_path)
    project.edit("job.toml", "epsilon = 1.0", "epsilon = 0.01")
    assert refused(project, capsys) > 400


def test_as_many_people_as_it_says_are_not_refused_and_public_data_never_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few").mkdir()
    enough = refused(write_project(tmp_path / "few", 5), capsys)
    (tmp_path / "enough").mkdir()
    project = write_project(tmp_path / "enough", enough)
    train(project, "--output", str(project.path("out")))
    assert "E408" not in capsys.readouterr().err and project.charges("bank") == 1
    (tmp_path / "public").mkdir()
    public = write_project(tmp_path / "public", 5)
    for party in ("bank", "insurer"):
        public.edit(f"{party}.toml", "patience", "public = true\npatience")
    run(["train", str(public.path("job.toml")), "--output", str(public.path("out"))])
    assert "E408" not in capsys.readouterr().err and public.charges("bank") == 1
