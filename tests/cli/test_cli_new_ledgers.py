"""A ledger that is gone: what was spent is not forgotten in silence, and beginning again is said aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from cli_project import Project, one_object, train
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, job_text

from colonnade.cli.app import run
from colonnade.ledger import Ledger

INPUT, LEDGER = 3, 6


def lose(folder: Path, party: str) -> None:
    for path in folder.glob(f"{party}.ledger*"):
        path.unlink()


def test_a_first_ledger_is_announced_and_one_that_is_gone_is_refused_until_it_is_begun_anew(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project, "--output", "first") == 0
    out = capsys.readouterr().out
    assert out.count("is new: what") == 2 and out.index("within every budget") < out.index("is new: what")
    assert train(project, "--output", "second", "--json") == 0
    assert one_object(capsys.readouterr().out)["new_ledgers"] == {}
    lose(project.folder, "bank")
    charged = project.charges("insurer")
    before = project.files()
    assert train(project, "--output", "third") == LEDGER
    said = capsys.readouterr().err
    assert said.startswith("error E605: ") and "insurer holds receipts of a ledger of bank" in said
    assert f"`colonnade ledger {project.path('bank.toml')} --new`" in said
    assert (project.charges("insurer"), project.path("bank.ledger").exists()) == (charged, False)
    assert project.files() == before

    assert run(["doctor", "job.toml", "--json"]) == INPUT
    findings = {item["what"]: item for item in one_object(capsys.readouterr().out)["findings"]}
    assert not findings["bank ledger"]["fine"] and "E605" in findings["bank ledger"]["found"]
    assert findings["insurer ledger"]["fine"]

    assert run(["ledger", "bank.toml", "--new", "--reason", "the disk was lost"]) == 0
    assert "begun anew: the disk was lost" in capsys.readouterr().out
    assert train(project, "--output", "third") == 0
    assert run(["doctor", "job.toml"]) == 0
    out = capsys.readouterr().out
    assert out.count("1 receipt that peers here hold agrees") == 2
    assert run(["ledger", "bank.toml", "--witness", "insurer.toml"]) == 0
    assert "It agrees with 1 receipt kept by insurer" in capsys.readouterr().out


def test_another_ledger_in_the_place_of_the_known_one_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project, "--output", "first") == 0
    lose(project.folder, "bank")
    Ledger.create(project.path("bank.ledger"), "bank")
    assert train(project, "--output", "second") == LEDGER
    assert "is not the ledger of bank that a peer holds receipts of" in capsys.readouterr().err
    assert project.charges("bank") == 0
    # It holds no charge, so it may be given up, and is kept.
    assert run(["ledger", "bank.toml", "--new"]) == 0
    assert project.path("bank.ledger.before").exists()
    assert train(project, "--output", "second") == 0


def test_a_ledger_with_charges_is_not_begun_anew_and_only_a_party_file_names_one(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project, "--output", "first") == 0
    charged = project.charges("bank")
    for words, found in (
        (("bank.toml", "--new"), "holds charges"),
        (("bank.ledger", "--new"), "no party file"),
        (("bank.toml", "--new", "--reason", " "), "--reason: it is empty"),
    ):
        assert run(["ledger", *words]) == INPUT
        assert found in capsys.readouterr().err
    assert project.charges("bank") == charged


def test_sites_refuse_a_peers_new_ledger_before_anything_is_charged(tmp_path: Path) -> None:
    kits = houses(tmp_path, Root.make())
    texts = dict.fromkeys(MEMBERS, job_text('method = "moments"'))

    def states(job_id: str) -> set[str]:
        for kit in kits.values():
            # Otherwise the seeds, and with them the run's name, would be those of the run before.
            kit.tell_site({key: value for key, value in kit.site().items() if key != "noise_seed"})
        outcomes.update(run_job(kits, texts=texts, job_id=job_id))
        return {item["state"] for item in outcomes.values()}

    outcomes: dict[str, dict[str, Any]] = {}
    assert states("one") == {"finished"}
    (place,) = tmp_path.rglob("bank.ledger")
    lose(place.parent, "bank")
    assert states("two") == {"failed"}
    for member in MEMBERS:
        assert "is not the ledger of bank that" in outcomes[member]["reason"], outcomes[member]
    assert not any(entry.kind == "charge" for entry in Ledger.open(place).entries())
    (party,) = tmp_path.rglob("bank.toml")
    assert run(["ledger", str(party), "--new"]) == 0
    assert states("three") == {"finished"}
    # A ledger that goes on is known, whatever came before it.
    assert states("four") == {"finished"}
