"""`colonnade job submit --wait` and `resume --wait` end with the exit code of what became of the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


class Answering:
    """A server that has run whatever it is given, and says that it ended so."""

    def __init__(self, status: str | None, outcome: dict[str, Any]) -> None:
        self._status = status or "FINISHED:COMPLETED"
        failed = {} if outcome.get("state") == "finished" else {"state": "failed", "reason": "why it stopped"}
        self._outcome = {**failed, **outcome} if outcome else {}

    def __call__(self, kit: Any) -> Answering:
        return self

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def parties(self) -> list[str]:
        return list(PARTIES)

    def submit(self, *_: object, **__: object) -> str:
        return JOB_ID

    def status(self, job: str) -> dict[str, str]:
        return {"status": self._status}

    def download(self, job: str, folder: Path) -> Path:
        if self._outcome:
            (folder / "outcome.json").write_text(json.dumps(self._outcome))
        return folder


@pytest.mark.parametrize(("verb", "ending"), [*(("submit", one) for one in ENDINGS), ("resume", "a plan")])
def test_a_job_that_is_waited_for_has_the_exit_code_of_its_end(
    ending: str,
    verb: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, outcome, code = ENDINGS[ending]
    monkeypatch.setattr(operations, "Administration", Answering(status, outcome))
    monkeypatch.setattr("colonnade.cli.job.GLANCE_SECONDS", 0.0)
    kit = make_kit(tmp_path, ROOT, "admin", role="lead")
    job = tmp_path / "job.toml"
    job.write_text(job_text())
    assert run(["job", "submit", str(job), "--kit", str(kit.path)]) == 0
    what = str(job) if verb == "submit" else JOB_ID
    assert run(["job", verb, what, "--kit", str(kit.path), "--wait", "--json"]) == code
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["id"] == JOB_ID and bool(facts.get("reason")) is (code != 0)
