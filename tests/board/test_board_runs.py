"""Runs on the board: one that was stopped is finished by a click, models leave, and runs stand side by side."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from boards import EVE, noted, visit, write_runs
from cli_project import Project, train, write_project

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
sys.path.insert(0, str(Path(__file__).parents[1] / "learn"))

from report_runs import hostile_run, private_run
from tables_people import people, release_with
from test_report_beside import comparison


class Killed(BaseException):
    """As a kill: nothing that follows is run, but for what the operating system does."""


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A run that was killed right after its release was opened."""
    project = write_project(tmp_path)

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("colonnade.report.run_folder.train_on", kill)
        train(project, "--output", str(tmp_path / "runs" / "first"))
    return project


def test_a_run_that_was_stopped_is_recovered_on_its_page_and_its_model_leaves(killed: Project) -> None:
    ada, eve = visit(killed.folder), visit(killed.folder, EVE)
    assert "Recover the run" in ada.get("/runs/first").text
    assert "Recover the run" not in eve.get("/runs/first").text
    assert eve.send("/runs/first/recover").status == 403
    assert ada.send("/runs/first/recover").headers["location"] == "/runs/first"
    assert killed.charges("bank") == 1 and ("Ada", "recovered a run", "done") in noted(killed.folder)
    page = ada.get("/runs/first").text
    assert "What each observer can learn at most" in page and "/runs/first/model.onnx" in page
    assert ada.get("/runs/first/report").status == 200
    assert "license:" in ada.get("/runs/first/card").text
    graph = ada.get("/runs/first/model.onnx")
    assert graph.status == 200 and "colonnade.privacy" in graph.text
    again = ada.send("/runs/first/recover")
    assert again.status == 409 and "there is nothing to recover" in again.text
    # Its numbers are not in bins, so no table can be made of them: told, and nothing is left.
    refused = ada.send("/runs/first/synthesize", rows="50")
    assert refused.status == 409 and "age" in refused.text
    assert ada.send("/runs/first/synthesize", rows="-1").status == 409
    assert sorted(path.name for path in (killed.folder / "runs").iterdir()) == ["first"]


def test_runs_stand_side_by_side_with_a_table_to_keep(tmp_path: Path) -> None:
    for name, facts in (("first", private_run()[0]), ("second", hostile_run()[0])):
        write_runs(tmp_path / "runs", {**facts, "time": "2026-05-06T07:08:09+00:00"}, [name])
    folder = tmp_path / "runs" / "risk-comparison"
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(comparison(True)))
    (folder / "comparison.html").write_text("<p>all of it</p>")
    ada = visit(tmp_path)
    page = ada.get("/compare?run=first&run=second").text
    assert page.count('class="coefficient"') >= 2 and "<script>alert" not in page
    assert "against ε" in page and "<svg" in page
    table = list(csv.reader(io.StringIO(ada.get("/compare/table?run=first&run=second").text)))
    assert [row[0] for row in table] == ["run", "first", "second"] and table[1][3]
    rows = list(csv.reader(io.StringIO(ada.get("/beside/risk-comparison/comparison.csv").text)))
    assert rows[0][0] == "method" and len(rows) > 1
    assert ada.get("/beside/risk-comparison/comparison.html").status == 200
    for path in ("/compare?run=nowhere", "/beside/first/facts.json", "/beside/..%2F/comparison.html"):
        assert ada.get(path).status == 404, path
    many = "&".join(f"run=r{number}" for number in range(9))
    assert ada.get(f"/compare?{many}").status == 409


def test_people_are_made_up_from_a_release_and_kept_as_a_table(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs", {**private_run()[0], "time": "2026-05-06T07:08:09+00:00"}, ["first"])
    release_with(*people(), noise=2.0).save(tmp_path / "runs" / "first" / "release.npz")
    ada = visit(tmp_path)
    assert "Make them up" in ada.get("/runs/first").text
    assert ada.send("/runs/first/synthesize", rows="30").headers["location"] == "/compare#first-synthetic"
    page = ada.get("/compare").text
    assert "/beside/first-synthetic/synthetic.csv" in page
    assert len(ada.get("/beside/first-synthetic/synthetic.csv").text.splitlines()) == 31
    assert "not_to_do" in ada.get("/beside/first-synthetic/synthetic.manifest.json").text
    assert ("Ada", "made up people", "done") in noted(tmp_path)
