"""A ledger that is restored from an old copy has lost charges, and whoever holds receipts of them says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from certificates import Root
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, charges, job_text

from colonnade.cli.app import run
from colonnade.errors import LedgerAltered
from colonnade.ledger import Ledger

ROOT = Root.make()


def test_an_old_copy_of_a_ledger_is_refused_by_the_receipts_of_peers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kits = houses(tmp_path, ROOT, seeded=False)
    texts = dict.fromkeys(MEMBERS, job_text())
    assert run_job(kits, texts=texts, job_id="j1")["bank"]["state"] == "finished"
    shutil.copy(tmp_path / "bank.ledger", tmp_path / "copy")
    assert run_job(kits, texts=texts, job_id="j2")["bank"]["state"] == "finished"
    whole = Ledger.open(tmp_path / "bank.ledger").entries()
    for file in (
        path for path in tmp_path.glob("bank.ledger*") if path.suffix != ".people" and path.is_file()
    ):
        file.unlink()
    shutil.copy(tmp_path / "copy", tmp_path / "bank.ledger")
    assert len(Ledger.open(tmp_path / "bank.ledger").entries()) < len(whole)
    # Asked beforehand, the witness names the entry.
    witnessed = ["ledger", str(tmp_path / "bank.ledger"), "--witness", str(tmp_path / "shop.ledger")]
    assert run(witnessed) == LedgerAltered.exit_code
    assert "were cut off" in capsys.readouterr().err
    # Not asked, the next job finds it: the shop holds another head for the same entry.
    outcomes = run_job(kits, texts=texts, job_id="j3")
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    assert "gives another head for entry" in outcomes["shop"]["reason"], outcomes
    assert charges(tmp_path, "shop") <= 3
