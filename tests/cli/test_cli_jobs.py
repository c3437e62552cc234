"""`colonnade job submit --wait` and `resume --wait` end with the exit code of what became of the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from certificates import Root
from kits import make_kit
from two_houses import PARTIES, job_text

from colonnade.cli.app import run
from colonnade.errors import BudgetExceeded, DrownedByNoise, PlanError, RemoteProtocolError
from colonnade.sites import processes as operations

ROOT = Root.make()
JOB_ID = "596ca27d-8325-4ccd-bb80-460765e4591c"
ENDINGS = {
    "finished": (None, {"state": "finished"}, 0),
    "a peer refused": ("FINISHED:EXECUTION_EXCEPTION", {"kind": "RemoteProtocolError"}, 7),
    "a plan": ("FINISHED:EXECUTION_EXCEPTION", {"kind": "PlanError"}, PlanError.exit_code),
    "the server's own ledger": ("FINISHED:ABORTED", {"kind": "BudgetExceeded"}, BudgetExceeded.exit_code),
    "a mistake of ours": ("FINISHED:EXECUTION_EXCEPTION", {"kind": "ZeroDivisionError"}, 1),
    "no word": ("FINISHED:ABANDONED", {}, RemoteProtocolError.exit_code),
    "noise left no model": (
        None,
        {"state": "finished", "failure": "too noisy", "kind": "DrownedByNoise"},
        DrownedByNoise.exit_code,
    ),
}


def answering(status: str | None, outcome: dict[str, Any]) -> MagicMock:
    """A server that has run whatever it is given, and says that it ended so."""
    failed = {} if outcome.get("state") == "finished" else {"state": "failed", "reason": "why it stopped"}

    def download(_job: str, folder: Path) -> Path:
        if outcome:
            (folder / "outcome.json").write_text(json.dumps({**failed, **outcome}))
        return folder

    session = MagicMock()
    session.parties.return_value = list(PARTIES)
    session.submit.return_value = JOB_ID
    session.status.return_value = {"status": status or "FINISHED:COMPLETED"}
    session.download.side_effect = download
    return MagicMock(**{"return_value.__enter__.return_value": session})


@pytest.mark.parametrize(("verb", "ending"), [*(("submit", one) for one in ENDINGS), ("resume", "a plan")])
def test_a_job_that_is_waited_for_has_the_exit_code_of_its_end(
    ending: str,
    verb: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, outcome, code = ENDINGS[ending]
    monkeypatch.setattr(operations, "Administration", answering(status, outcome))
    monkeypatch.setattr("colonnade.cli.job.GLANCE_SECONDS", 0.0)
    kit = make_kit(tmp_path, ROOT, "admin", role="lead")
    job = tmp_path / "job.toml"
    job.write_text(job_text())
    assert run(["job", "submit", str(job), "--kit", str(kit.path)]) == 0
    what = str(job) if verb == "submit" else JOB_ID
    assert run(["job", verb, what, "--kit", str(kit.path), "--wait", "--json"]) == code
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["id"] == JOB_ID and bool(facts.get("reason")) is (code != 0)
