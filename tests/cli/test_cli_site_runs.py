"""Every verb that takes a run takes a site's, and those that other versions left are refused by name."""

import json
import shutil
from pathlib import Path

import pytest
from certificates import Root
from cli_project import Cli
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, job_text, split

from colonnade import MomentRelease
from colonnade.errors import ModelVersion
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.files.membership import TrainingMembership
from colonnade.sites.kit import Kit

KEPT = Path(__file__).parent / "kept"
INPUT = 3


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kit]:
    """Members that took part in a job for a release, in one whose model stays in parts, and in one that failed."""
    made = houses(tmp_path_factory.mktemp("sites"), Root.make())
    for job_id, kind in (
        ("released", 'method = "moments"'),
        ("split", split(2)),
        ("refused", 'method = "slr"'),
    ):
        outcomes = run_job(made, texts=dict.fromkeys(MEMBERS, job_text(kind)), job_id=job_id)
        expected = "failed" if job_id == "refused" else "finished"
        assert {outcome["state"] for outcome in outcomes.values()} == {expected}
    return made


def test_the_runs_of_a_kit_are_listed(kits: dict[str, Kit], tmp_path: Path, cli: Cli) -> None:
    for member in MEMBERS:
        listed = cli.facts("runs", "--kit", str(kits[member].path))["runs"]
        assert {Path(line["run"]).name: line["state"] for line in listed} == {
            "released": "done",
            "split": "done",
            "refused": "failed",
        }
        assert {line["name"] for line in listed} == {"risk"}
    assert "not both" in cli("runs", str(tmp_path), "--kit", str(kits["bank"].path), code=2)


def test_a_site_keeps_what_is_its_own_to_itself(kits: dict[str, Kit]) -> None:
    shared = {"release.npz", "model.json", "facts.json", "report.html"}
    for member, job_id in ((member, job_id) for member in MEMBERS for job_id in ("released", "split")):
        folder = kits[member].run_folder(job_id)
        for path in (folder, *folder.rglob("*")):
            others = path.stat().st_mode & 0o077
            assert others == (0o044 if path.name in shared else 0), path


@pytest.mark.parametrize("member", MEMBERS)
def test_a_run_of_a_kit_is_shown_and_reported(
    kits: dict[str, Kit], member: str, tmp_path: Path, cli: Cli
) -> None:
    for job_id in ("released", "split"):
        folder = kits[member].run_folder(job_id)
        shown = cli("show", str(folder))
        assert "What each observer can learn at most" in shown and "60 people" in shown
        page = tmp_path / f"{job_id}.html"
        cli("report", str(folder), "--output", str(page))
        assert page.read_text() == (folder / "report.html").read_text()
    refused = str(kits[member].run_folder("refused"))
    assert "It stopped at step" in cli("show", refused)
    assert "failed" in cli("report", refused, code=INPUT)


def test_a_released_model_of_a_kit_scores_and_is_exported(
    kits: dict[str, Kit], tmp_path: Path, cli: Cli
) -> None:
    rows = tmp_path / "new.csv"
    rows.write_text("id,bank_0,bank_1,shop_0,shop_1\nann,0.1,0.2,0.3,0.4\nbob,0.9,0.8,0.7,0.6\n")
    answers = set()
    for member in MEMBERS:
        folder = str(kits[member].run_folder("released"))
        answers.add(cli("predict", folder, "--rows", str(rows)))
        card = tmp_path / f"{member}.md"
        cli("export", folder, "--card", str(card))
        assert "on columns that bank and shop hold" in card.read_text()
    assert len(answers) == 1, "everybody has the same model"
    part = str(kits["bank"].run_folder("split"))
    assert "stay with their parties" in cli("predict", part, "--rows", str(rows), code=INPUT)
    assert "stay with their parties" in cli("export", part, "--card", str(tmp_path / "c"), code=INPUT)
    nothing = str(kits["server"].run_folder("split"))
    assert "holds no model" in cli("predict", nothing, "--rows", str(rows), code=INPUT)


def test_a_run_of_a_kit_is_audited(kits: dict[str, Kit], cli: Cli) -> None:
    folder = kits["shop"].run_folder("released")
    facts = cli.facts("audit", str(folder), "--runs", "8")
    assert facts["method"] == "moments" and (folder / "audit.json").exists()
    assert "audit" in (folder / "report.html").read_text()


def test_what_this_version_wrote_is_read(tmp_path: Path, cli: Cli) -> None:
    folder = KEPT / "0.2.0" / "moments"
    rows = tmp_path / "new.csv"
    rows.write_text("id,age,visits\nann,0.1,0.2\np1,0.9,0.8\n")
    assert "60 people" in cli("show", str(folder))
    assert "ann" in cli("predict", str(folder / "model.json"), "--rows", str(rows))
    assert MomentRelease.load(folder / "release.npz").rows == 60
    assert len(TrainingMembership.load(folder / "people.npz")) == 60


def test_what_0_1_wrote_is_refused_by_name_and_hides_no_other_run(tmp_path: Path, cli: Cli) -> None:
    written = "was written by Colonnade 0.1, which this version does not read. Read it with 0.1"
    folder = shutil.copytree(KEPT / "0.1.0" / "moments", tmp_path / "old")
    (tmp_path / "site").mkdir()
    shutil.copy(KEPT / "0.1.0" / "outcome.json", tmp_path / "site")
    shutil.copytree(KEPT / "0.2.0" / "moments", tmp_path / "run")
    for run in ("old", "site"):
        for verb in ("show", "report", "audit"):
            assert written in cli(verb, str(tmp_path / run), code=INPUT)
    states = [line["state"] for line in cli.facts("runs", str(tmp_path))["runs"]]
    assert states == ["unreadable", "done", "unreadable"]
    assert written in cli("report", str(tmp_path / "run"), "--with", str(folder), code=INPUT)
    (folder / "facts.json").unlink()
    reads = (ModelFile.load, MomentRelease.load, TrainingMembership.load)
    for name, read in zip(("model.json", "release.npz", "people.npz"), reads, strict=True):
        with pytest.raises(ModelVersion, match=f"{name} {written}"):
            read(folder / name)


def test_a_run_of_a_form_that_is_not_known_is_refused_by_name(tmp_path: Path, cli: Cli) -> None:
    folder = shutil.copytree(KEPT / "0.2.0" / "moments", tmp_path / "run")
    facts = json.loads((folder / "facts.json").read_text())
    (folder / "facts.json").write_text(json.dumps(facts | {"format": "two"}))
    assert "which never was" in cli("show", str(folder), code=INPUT)
    (folder / "facts.json").write_text(json.dumps(facts | {"format": 99}))
    newer = "format 99; this version of Colonnade reads format 2"
    for verb in ("show", "report", "audit"):
        assert newer in cli(verb, str(folder), code=INPUT)
    shutil.move(folder, tmp_path / ".run.draft")
    (tmp_path / ".run.draft" / "facts.json").unlink()
    (tmp_path / ".run.draft" / "paid.json").write_text('{"format": 99}')
    assert newer in cli("recover", str(folder), code=INPUT)
