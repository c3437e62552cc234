"""What the command line does with ledgers: shows them, and stops where one cannot be trusted or reached."""

import sqlite3
from pathlib import Path

import pytest
from cli_project import Cli, Project, train

from colonnade.cli.app import run

PRIVACY, LEDGER = 5, 6


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
