"""Training ends before anything is written: whoever writes or shows a run fits nothing."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import sklearn.linear_model
from cli_project import write_project

from colonnade.evaluation.held_out import TrainedRun, evaluate_trained, finish_training
from colonnade.federation.federation import Federation
from colonnade.federation.job import Job
from colonnade.federation.party_file import federation_of, party_files
from colonnade.federation.train import result_for
from colonnade.models import effects, uncertainty
from colonnade.models.files.linear_file import KINDS
from colonnade.report.html import run_page
from colonnade.report.text import run_text
from colonnade.runs.writing import write_run

FITS: list[tuple[Any, str]] = [
    *((kind, "fit") for kind in (*KINDS.values(), sklearn.linear_model.LogisticRegression)),
    (effects, "noise_uncertainty"),
    (uncertainty.Rule, "coefficients"),
]


def noted(function: Callable[..., Any], names: set[str]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        names.add(function.__name__)
        return function(*arguments, **named)

    return call


@pytest.fixture
def trained(tmp_path: Path) -> tuple[TrainedRun, Federation]:
    """A run with people held out, so that the label holder's own columns are fitted too."""
    project = write_project(tmp_path, rows=2000)
    project.path("job.toml").write_text(f"{project.path('job.toml').read_text()}held_out = 0.3\n")
    job = Job.load(project.path("job.toml"))
    federation = federation_of(job, party_files(job))
    result = result_for(job, federation)
    run = federation.runs[-1]
    evaluation = evaluate_trained(job, federation, result, run)
    return finish_training(job, run, federation, result, evaluation=evaluation), federation


def test_training_fits_and_writing_and_showing_a_run_do_not(
    trained: tuple[TrainedRun, Federation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, federation = trained
    fits: set[str] = set()
    for place, name in FITS:
        monkeypatch.setattr(place, name, noted(getattr(place, name), fits))
    folder = tmp_path / "run"
    folder.mkdir()
    record = write_run(folder, whole, federation)
    page, text = run_page(record), run_text(record, verbose=True)
    assert not fits
    # It has what was fitted: intervals, an evaluation, and on the label holder's page its columns alone.
    assert record.model_facts.intervals and record.evaluated and whole.alone is not None
    assert "its columns alone" in (folder / "parties/bank.html").read_text()
    assert (folder / "report.html").read_text() == page and "What was learnt" in text
    finish_training(whole.job, whole.run, federation, whole.result)
    assert fits == {name for _, name in FITS}, "the control: training does fit"
