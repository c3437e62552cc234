"""What only shows in a run: whose mistake it is, what stays at home, what is charged. Single mistakes: tests/corpus."""

import re
from pathlib import Path

import pytest
from cli_project import Cli, Project, train, write_project

from colonnade.cli.app import run
from colonnade.data.documents import Document

INPUT, PLAN, PRIVACY = 3, 4, 5


def test_delta_past_one_over_n_needs_to_be_said_twice(project: Project, cli: Cli) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 0.1\naccepted_delta = 0.1")
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "delta = 1e-5", "delta = 0.1")
    assert "δ = 0.1" in cli("train job.toml --verbose")


def test_a_budget_that_the_file_dropped_is_not_kept_in_silence(project: Project, cli: Cli) -> None:
    closer = '\n[[budget]]\nepsilon = 9.0\ndelta = 1e-5\nobserver = "reader"\n'
    project.path("bank.toml").write_text(project.path("bank.toml").read_text() + closer)
    assert train(project) == 0
    project.edit("bank.toml", closer, "")
    assert "observer 'reader' (ε = 9" in cli("train job.toml", code=INPUT)
    assert project.charges("bank") == 1


def nothing(*_: object) -> None:
    """In place of a look before the run: as if ledgers had changed since."""


def test_a_refusal_in_the_middle_of_a_run_is_told_as_the_party_that_refused_said_it(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colonnade.federation.federation.check_budgets", nothing)
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 0.5")
    before = project.files()
    err = cli("train job.toml", code=PRIVACY)
    assert err.startswith("error E501: insurer: releasing") and "stopped" not in err
    assert project.charges("insurer") == 0
    left = {"runs", "runs/job", "runs/job/failed.json"} if project.charges("bank") else set()
    assert project.files() - before == left


def test_long_texts_are_no_long_keys() -> None:
    sql = ", ".join(f"t.column_{number}" for number in range(500))
    text = f'sql = """\nselect {sql}\nfrom t where a = 1"""'
    assert sql in Document.parse(text, "bank.toml").data["sql"]


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
