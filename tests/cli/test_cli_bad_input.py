"""What only shows in a run: whose mistake it is, what stays at home, what is charged. Single mistakes: tests/corpus."""

import pytest
from cli_project import Cli, Project, train

from colonnade.data.documents import Document

INPUT, PRIVACY = 3, 5


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
