"""Ledgers are shown; a run stops where one cannot be trusted or reached, or is gone; beginning again is said."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from cli_project import Cli, Project, train
from relayed_jobs import houses, run_job, unseeded
from two_houses import MEMBERS, job_text

from colonnade.cli.app import run
from colonnade.ledger import Ledger

INPUT, PRIVACY, LEDGER = 3, 5, 6


def test_the_ledger_shows_what_left_and_what_is_left(trained: Project, cli: Cli) -> None:
    out = cli("ledger bank.toml --witness insurer.toml")
    assert (
        "Ledger of bank: 6 entries" in out
        and "compared with insurer" in out
        and "agrees with 1 receipt kept by insurer" in out
    )
    assert "second moments of 9 columns of 'customers' to server" in out
    assert "1.00 of 4" in out


def test_the_ledger_as_json_is_one_object_with_the_same_totals(project: Project, cli: Cli) -> None:
    of_run = cli.facts("train job.toml")["ledgers"]["bank"]
    shown = cli.facts("ledger bank.ledger")
    assert shown.pop("verified") == {"entries": 6, "receipts": 0}
    assert shown.pop("written") == {}
    for total in shown["totals"]:
        assert total.pop("fits") >= total["left"] - 0.02
    assert {key: shown[key] for key in of_run} == of_run
    assert set(shown) - set(of_run) == {"head", "entries"}, "a party's own, and in no report"


def test_a_signed_export_is_checked_without_the_ledger_and_a_changed_one_is_refused(
    trained: Project, cli: Cli
) -> None:
    signer = cli("ledger bank.toml --export bank.json --key officer.key").split("Signed by: ")[1].strip()
    assert Path("officer.key").stat().st_mode & 0o077 == 0
    Path("bank.ledger").unlink()
    out = cli("ledger", "bank.json", "--signer", signer, "--witness", "insurer.ledger")
    assert f"signed by {signer}" in out and "agrees with 1 receipt kept by insurer" in out
    assert "signed by another key" in cli("ledger", "bank.json", "--signer", "00" * 32, code=6)
    text = Path("bank.json").read_text()
    Path("changed.json").write_text(text.replace("server", "nobody"))
    assert "does not match its signature" in cli("ledger changed.json", code=6)


def test_the_history_is_written_as_a_table_and_a_picture_and_never_over_a_file(
    trained: Project, cli: Cli
) -> None:
    assert run(["ledger", "bank.toml", "--csv", "bank.history.csv", "--picture", "bank.svg"]) == 0
    header, *rows = Path("bank.history.csv").read_text().splitlines()
    assert header.startswith("entry,time,kind") and len(rows) == 5
    assert "share of the budget spent" in Path("bank.svg").read_text()
    assert "exists already" in cli("ledger bank.toml --csv bank.history.csv", code=3)
    assert ".svg" in cli("ledger bank.toml --picture bank.png", code=3)
    Path("odd.key").write_text("no key")
    assert (
        "holds no signing key" in cli("ledger bank.toml --export again.json --key odd.key", code=3)
        and not Path("again.json").exists()
    )


def test_a_locked_ledger_is_named_and_nothing_is_charged(
    trained: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    before = trained.files()
    holder = sqlite3.connect(trained.path("insurer.ledger"), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        assert train(trained) == LEDGER
    finally:
        holder.close()
    assert "insurer.ledger: another process holds this ledger" in capsys.readouterr().err
    assert trained.files() == before
    assert trained.charges("bank") == trained.charges("insurer") == 1
    assert train(trained) == 0, "and once it is free, all goes on"


def test_the_budget_ends_and_then_the_ledger_refuses(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 2.2")
    codes = [train(project) for _ in range(4)]
    done = codes.count(0)
    assert codes == [0] * done + [PRIVACY] * (4 - done) and 1 < done < 4
    assert project.charges("bank") == project.charges("insurer") == done
    assert "is left of 2.2" in capsys.readouterr().err
    assert sorted(path.name for path in project.path("runs").iterdir()) == sorted(
        ["job", *(f"job-{number}" for number in range(2, done + 1))]
    )


def lose(folder: Path, party: str) -> None:
    for path in folder.glob(f"{party}.ledger*"):
        path.unlink()


def test_a_first_ledger_is_announced_and_one_that_is_gone_is_refused_until_it_is_begun_anew(
    project: Project, cli: Cli
) -> None:
    out = cli("train job.toml --output first")
    assert out.count("is new: what") == 2 and out.index("within every budget") < out.index("is new: what")
    assert cli.facts("train job.toml --output second")["new_ledgers"] == {}
    lose(project.folder, "bank")
    charged = project.charges("insurer")
    before = project.files()
    said = cli("train job.toml --output third", code=LEDGER)
    assert said.startswith("error E605: ") and "insurer holds receipts of a ledger of bank" in said
    assert "`colonnade ledger bank.toml --new`" in said
    assert (project.charges("insurer"), project.path("bank.ledger").exists()) == (charged, False)
    assert project.files() == before

    findings = {item["what"]: item for item in cli.facts("doctor job.toml", code=INPUT)["findings"]}
    assert not findings["bank ledger"]["fine"] and "E605" in findings["bank ledger"]["found"]
    assert findings["insurer ledger"]["fine"]

    assert "begun anew: the disk was lost" in cli(
        "ledger", "bank.toml", "--new", "--reason", "the disk was lost"
    )
    assert train(project, "--output", "third") == 0
    out = cli("doctor job.toml")
    assert out.count("1 receipt that peers here hold agrees") == 2
    assert "It agrees with 1 receipt kept by insurer" in cli("ledger bank.toml --witness insurer.toml")


def test_another_ledger_in_the_place_of_the_known_one_is_refused(trained: Project, cli: Cli) -> None:
    lose(trained.folder, "bank")
    Ledger.create(trained.path("bank.ledger"), "bank")
    assert "is not the ledger of bank that a peer holds receipts of" in cli(
        "train job.toml --output second", code=LEDGER
    )
    assert trained.charges("bank") == 0
    # It holds no charge, so it may be given up, and is kept.
    assert run(["ledger", "bank.toml", "--new"]) == 0
    assert trained.path("bank.ledger.before").exists()
    assert train(trained, "--output", "second") == 0


def test_sites_refuse_a_peers_new_ledger_before_anything_is_charged(tmp_path: Path) -> None:
    kits = houses(tmp_path, Root.make())
    texts = dict.fromkeys(MEMBERS, job_text('method = "moments"'))

    def states(job_id: str) -> set[str]:
        unseeded(kits)
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
