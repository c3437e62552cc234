"""What the command line does with ledgers: shows them, and stops where one cannot be trusted or reached."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from cli_project import Project, one_object, train

from colonnade.cli.app import run
from colonnade.ledger import Ledger

PRIVACY, LEDGER = 5, 6


def test_the_ledger_shows_what_left_and_what_is_left(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project) == 0
    capsys.readouterr()
    assert run(["ledger", "bank.toml", "--witness", "insurer.toml"]) == 0
    out = capsys.readouterr().out
    assert (
        "Ledger of bank: 6 entries" in out
        and "compared with insurer" in out
        and "agrees with 1 receipt kept by insurer" in out
    )
    assert "second moments of 9 columns of 'customers' to server" in out
    assert "1.00 of 4" in out


def test_the_ledger_as_json_is_one_object_with_the_same_totals(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project, "--json") == 0
    of_run = one_object(capsys.readouterr().out)["ledgers"]["bank"]
    assert run(["ledger", "bank.ledger", "--json"]) == 0
    shown = one_object(capsys.readouterr().out)
    assert shown.pop("verified") == {"entries": 6, "receipts": 0}
    assert shown.pop("written") == {}
    for total in shown["totals"]:
        assert total.pop("fits") >= total["left"] - 0.02
    assert {key: shown[key] for key in of_run} == of_run
    assert set(shown) - set(of_run) == {"head", "entries"}, "a party's own, and in no report"


def test_a_signed_export_is_checked_without_the_ledger_and_a_changed_one_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project) == 0
    assert run(["ledger", "bank.toml", "--export", "bank.json", "--key", "officer.key"]) == 0
    signer = capsys.readouterr().out.split("Signed by: ")[1].strip()
    assert Path("officer.key").stat().st_mode & 0o077 == 0
    Path("bank.ledger").unlink()
    assert run(["ledger", "bank.json", "--signer", signer, "--witness", "insurer.ledger"]) == 0
    out = capsys.readouterr().out
    assert f"signed by {signer}" in out and "agrees with 1 receipt kept by insurer" in out
    assert run(["ledger", "bank.json", "--signer", "00" * 32]) == 6
    assert "signed by another key" in capsys.readouterr().err
    text = Path("bank.json").read_text()
    Path("changed.json").write_text(text.replace("server", "nobody"))
    assert run(["ledger", "changed.json"]) == 6
    assert "does not match its signature" in capsys.readouterr().err


def test_the_history_is_written_as_a_table_and_a_picture_and_never_over_a_file(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project) == 0
    assert run(["ledger", "bank.toml", "--csv", "bank.history.csv", "--picture", "bank.svg"]) == 0
    header, *rows = Path("bank.history.csv").read_text().splitlines()
    assert header.startswith("entry,time,kind") and len(rows) == 5
    assert "share of the budget spent" in Path("bank.svg").read_text()
    capsys.readouterr()
    assert run(["ledger", "bank.toml", "--csv", "bank.history.csv"]) == 3
    assert "exists already" in capsys.readouterr().err
    Path("odd.key").write_text("no key")
    assert run(["ledger", "bank.toml", "--export", "again.json", "--key", "odd.key"]) == 3
    assert "holds no signing key" in capsys.readouterr().err and not Path("again.json").exists()


def test_a_ledger_cut_short_shows_against_a_peers_receipts(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project) == 0
    # A new ledger in place of the old one: its chain is in order, and its history is gone.
    project.path("bank.ledger").unlink()
    Ledger.create(project.path("bank.ledger"), "bank")
    capsys.readouterr()
    assert run(["ledger", "bank.toml"]) == 0
    assert run(["ledger", "bank.toml", "--witness", "insurer.ledger"]) == LEDGER
    assert "is not the ledger of bank that a peer holds receipts of" in capsys.readouterr().err


def test_a_locked_ledger_is_named_and_nothing_is_charged(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project) == 0
    capsys.readouterr()
    before = project.files()
    holder = sqlite3.connect(project.path("insurer.ledger"), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        assert train(project) == LEDGER
    finally:
        holder.close()
    assert "insurer.ledger: another process holds this ledger" in capsys.readouterr().err
    assert project.files() == before
    assert project.charges("bank") == project.charges("insurer") == 1
    assert train(project) == 0, "and once it is free, all goes on"


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


def test_reading_a_ledger_loads_no_model(project: Project) -> None:
    # What takes most of a second to load; a process of its own, because tests have loaded everything.
    assert train(project) == 0
    code = (
        "import sys; from colonnade.cli.app import run; "
        f"code = run(['ledger', {str(project.path('bank.toml'))!r}]); "
        "heavy = {'sklearn', 'scipy.stats', 'scipy.optimize', 'numba', 'torch'}; "
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
