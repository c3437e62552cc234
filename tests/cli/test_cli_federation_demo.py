"""The demonstration of a federation trains a model, and nothing is left of it when it is stopped."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from live_federation import complaints

PATIENCE_SECONDS = 900.0
COMMAND = [sys.executable, "-c", "from colonnade.cli import main; main()", "federation", "demo", "--output"]


def of_the_demonstration(folder: Path) -> list[int]:
    """Processes whose command names the folder, or something in it."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(word.startswith(str(folder)) for word in process.info["cmdline"] or ()):
            found.append(process.pid)
    return found


@pytest.mark.slow
def test_three_organisations_and_a_server_train_a_model_and_complain_of_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run([*COMMAND, str(folder), "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["job"]["bytes"] > 0 and list(folder.glob("kits/*/runs/*/model.json"))
    assert [ledger["party"] for ledger in facts["ledgers"]] == ["clinic", "laboratory", "imaging"]
    assert all(total["epsilon"] > 0 for ledger in facts["ledgers"] for total in ledger["totals"])
    assert of_the_demonstration(folder) == []
    # From the start of every process to its end, and of whoever submitted: a run that goes well complains of nothing.
    assert not complaints(folder / "kits") and not done.stderr
    with (folder / "kits" / "server" / "log.txt").open("a") as log:
        log.write("2030-01-01 - Any - ERROR - a control\n")
    assert complaints(folder / "kits") == ["server/log.txt: 2030-01-01 - Any - ERROR - a control"]


@pytest.mark.slow
def test_a_demonstration_that_is_stopped_in_the_middle_of_a_job_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    process = subprocess.Popen(
        [*COMMAND, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs tests in the background lets them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(folder.glob("kits/*/runs/*/log.jsonl")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # A server, three parties, and a job's process for each.
    assert len(of_the_demonstration(folder)) >= 8
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "stopped" in said and "Traceback" not in said
    assert of_the_demonstration(folder) == []
    assert not folder.exists()
