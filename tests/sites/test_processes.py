"""Members' processes end with everything that they started, whoever ends them and however."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from certificates import Root
from kits import make_kit

from colonnade.errors import InputError
from colonnade.sites import processes
from colonnade.sites.kit import Kit
from colonnade.sites.processes import check_startable, connected, kit_processes, process_group

# A stand-in for FLARE: deaf to TERM, with a job's process in a session of its own that is deaf to it too.
STAND_IN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "job" not in sys.argv:
    subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[1:], "job"], start_new_session=True)
    print("Successfully registered client", flush=True)
time.sleep(600)
"""
PATIENCE_SECONDS = 300.0


def until(fulfilled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fulfilled():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kit]:
    """A kit whose process is the stand-in; what a test leaves behind is ended."""
    made = make_kit(tmp_path, Root.make(), "bank")
    words = ["-m", "nvflare.private.fed.app.client.client_train", "-m", str(made.path)]
    command = [sys.executable, "-c", STAND_IN, STAND_IN, *words]
    monkeypatch.setattr(processes, "command_for", lambda kit: command)
    monkeypatch.setattr(processes, "_GRACE_SECONDS", 0.5)
    yield made
    for process in kit_processes(made):
        process.kill()


def grown(kit: Kit) -> bool:
    return len(kit_processes(kit)) == 2 and connected(kit)


def test_a_member_ends_with_the_processes_of_its_jobs(kit: Kit) -> None:
    with process_group() as begin:
        process = begin(kit)
        until(lambda: grown(kit))
        assert len({os.getsid(member.pid) for member in kit_processes(kit)}) == 2
    assert process.poll() == -signal.SIGKILL
    assert not kit_processes(kit)


def test_the_process_of_a_job_that_outlived_its_member_is_found(kit: Kit) -> None:
    process = processes.start(kit)
    until(lambda: grown(kit))
    process.kill()
    process.wait()
    (orphan,) = kit_processes(kit)
    with pytest.raises(InputError, match=rf"runs already \(process {orphan.pid}\)"):
        processes.start(kit)
    processes.end([kit], [process])
    assert not kit_processes(kit)
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_signal_ends_everybody_and_handlers_are_put_back(kit: Kit, how: signal.Signals) -> None:
    # Tests that run in the background may have been told to ignore it.
    announced = signal.signal(how, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), process_group() as begin:
            begin(kit)
            until(lambda: grown(kit))
            os.kill(os.getpid(), how)
            until(lambda: False)
        assert not kit_processes(kit)
        assert signal.getsignal(how) is signal.default_int_handler
    finally:
        signal.signal(how, announced)


def test_a_signal_that_was_to_be_ignored_is_ignored(kit: Kit) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with process_group():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_kit_runs_once_and_the_one_that_runs_is_left_alone(kit: Kit) -> None:
    with process_group() as begin:
        begin(kit)
        until(lambda: grown(kit))
        with pytest.raises(InputError, match="runs already"), process_group() as other:
            other(kit)
        assert grown(kit)


def test_other_programs_that_name_the_folder_are_left_alone(kit: Kit) -> None:
    reader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(kit.path)])
    try:
        with process_group() as begin:
            begin(kit)
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()


def test_what_the_last_process_said_is_kept_and_not_taken_for_this_ones(kit: Kit) -> None:
    (kit.path / "console.txt").write_text("Successfully registered client")
    assert connected(kit)
    silent = [sys.executable, "-c", "import time; time.sleep(600)", "nvflare.private.fed.app.", str(kit.path)]
    with pytest.MonkeyPatch.context() as patch, process_group() as begin:
        patch.setattr(processes, "command_for", lambda kit: silent)
        begin(kit)
        assert not connected(kit)
    assert "registered" in (kit.path / "console.before.txt").read_text()


def test_a_path_that_flare_would_take_apart_and_an_administrators_kit_start_nothing(tmp_path: Path) -> None:
    made = make_kit(tmp_path / "my kits", Root.make(), "bank")
    with pytest.raises(InputError, match=r"a path with spaces or quotes\. Move it"):
        check_startable(made)
    with pytest.raises(InputError, match="starts nothing"):
        processes.command_for(Kit(tmp_path, "admin", {}))
