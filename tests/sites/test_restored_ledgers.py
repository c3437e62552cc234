"""A ledger that is restored from an old copy has lost charges, and whoever holds receipts of them says so."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from kits import make_kit
from relayed_jobs import breaking, houses, run_job
from two_houses import MEMBERS, PARTIES, charges, job_text, split, write_party

from colonnade.cli.app import run
from colonnade.errors import LedgerAltered
from colonnade.ledger import Ledger

ROOT = Root.make()
TEXTS = dict.fromkeys(MEMBERS, job_text())


def put_back(folder: Path, copy: Path, *, extra: int = 0) -> None:
    """The bank's ledger as it was, and so many everyday entries since."""
    for file in (path for path in folder.glob("bank.ledger*") if path.suffix != ".people" and path.is_file()):
        file.unlink()
    shutil.copy(copy, folder / "bank.ledger")
    ledger = Ledger.open(folder / "bank.ledger")
    for number in range(extra):
        ledger.set_budget("d", "*", "*", epsilon=501.0 + number, delta=1e-5)


def spent_by_bank(folder: Path) -> float:
    return max(total.epsilon for total in Ledger.open(folder / "bank.ledger").totals())


def states(outcomes: dict[str, dict[str, Any]]) -> set[str]:
    return {outcome["state"] for outcome in outcomes.values()}


def refused(outcome: dict[str, Any], because: str) -> bool:
    """Whether a member stopped for this reason, or because another that found the same stopped first."""
    reason = outcome["reason"]
    return because in reason or ("stopped" in reason and "(LedgerAltered)" in reason)


@pytest.mark.parametrize("extra", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_an_old_copy_is_refused_by_receipts_of_peers_and_lower_budgets_count_what_no_copy_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: int
) -> None:
    kits = houses(tmp_path, ROOT, seeded=False)
    assert states(run_job(kits, texts=TEXTS, job_id="j1")) == {"finished"}
    shutil.copy(tmp_path / "bank.ledger", tmp_path / "copy")
    assert states(run_job(kits, texts=TEXTS, job_id="j2")) == {"finished"}
    shutil.copy(tmp_path / "bank.ledger", tmp_path / "whole")
    put_back(tmp_path, tmp_path / "copy", extra=extra)
    # Asked beforehand, the witness names the entry.
    witnessed = ["ledger", str(tmp_path / "bank.ledger"), "--witness", str(tmp_path / "shop.ledger")]
    assert run(witnessed) == LedgerAltered.exit_code
    said = capsys.readouterr().err
    assert ("were cut off" if extra < 9 else "written anew") in said
    # Not asked, the next job finds it when the members meet, at both ends and before a charge.
    spent = {party: charges(tmp_path, party) for party in PARTIES}
    outcomes = run_job(kits, texts=TEXTS, job_id="j3")
    assert states(outcomes) == {"failed"}
    assert refused(outcomes["bank"], "shop says that it holds a receipt for entry 8"), outcomes
    for holder in ("shop", "server"):
        assert refused(outcomes[holder], "bank does not prove that its ledger still has entry 8"), outcomes
    assert "nothing counts it by itself" in "".join(outcome["reason"] for outcome in outcomes.values())
    assert {party: charges(tmp_path, party) for party in PARTIES} == spent
    # With the newest copy it goes on.
    put_back(tmp_path, tmp_path / "whole")
    assert states(run_job(kits, texts=TEXTS, job_id="j4")) == {"finished"}
    lost = spent_by_bank(tmp_path)
    # Where no copy has it: lower budgets, by what the copy shows and as much for each of the two lost runs.
    put_back(tmp_path, tmp_path / "copy")
    write_party(tmp_path, "bank", budget=6.0 - 3 * spent_by_bank(tmp_path))
    (tmp_path / "bank.ledger").rename(tmp_path / "kept")
    assert run(["ledger", str(tmp_path / "bank.toml"), "--new"]) == 0
    ended = [states(run_job(kits, texts=TEXTS, job_id=job_id)) for job_id in ("j5", "j6")]
    assert ended == [{"finished"}, {"failed"}] and 0 < spent_by_bank(tmp_path) <= 6.0 - lost


def test_receipts_outlive_the_kits_under_which_they_were_given(tmp_path: Path) -> None:
    kits = houses(tmp_path, ROOT, seeded=False)
    assert states(run_job(kits, texts=TEXTS, job_id="j1")) == {"finished"}
    shutil.copy(tmp_path / "bank.ledger", tmp_path / "copy")
    assert states(run_job(kits, texts=TEXTS, job_id="j2")) == {"finished"}
    put_back(tmp_path, tmp_path / "copy", extra=1)
    renewed = {name: make_kit(tmp_path / "renewed", ROOT, name) for name in MEMBERS}
    for party in PARTIES:
        renewed[party].tell_site(write_party(tmp_path, party))
    outcomes = run_job(renewed, texts=TEXTS, job_id="j3")
    assert states(outcomes) == {"failed"}
    assert refused(outcomes["shop"], "bank does not prove that its ledger still has entry 8"), outcomes


def test_a_run_goes_on_although_another_one_came_between_and_not_with_an_old_ledger(tmp_path: Path) -> None:
    kits = houses(tmp_path, ROOT, seeded=False)
    texts = dict.fromkeys(MEMBERS, job_text(split(2)))
    assert states(run_job(kits, texts=TEXTS, job_id="j0")) == {"finished"}
    shutil.copy(tmp_path / "bank.ledger", tmp_path / "copy")
    assert states(run_job(kits, texts=texts, job_id="j1", relay=breaking("receipts"))) == {"failed"}
    assert states(run_job(kits, texts=TEXTS, job_id="j2")) == {"finished"}
    shutil.copy(tmp_path / "bank.ledger", tmp_path / "whole")
    put_back(tmp_path, tmp_path / "copy", extra=5)
    outcomes = run_job(kits, texts=texts, job_id="j3", resumes="j1")
    assert states(outcomes) == {"failed"}
    assert refused(outcomes["shop"], "bank does not prove"), outcomes
    put_back(tmp_path, tmp_path / "whole")
    ended = run_job(kits, texts=texts, job_id="j4", resumes="j1")
    assert states(ended) == {"finished"}, ended
    assert [charges(tmp_path, party) for party in PARTIES] == [3, 3]
