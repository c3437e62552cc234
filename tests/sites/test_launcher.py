"""A job is handed to a process that has been waiting for one, which takes it alone and ends with it."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from kits import make_kit
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobProcessArgs, JobReturnCode

from colonnade.errors import KitError
from colonnade.sites import processes as launching
from colonnade.sites.kit import COMPONENTS, COORDINATOR, LAUNCHERS, MEMBER, Kit
from colonnade.sites.processes import JOB_PROCESS, PartyLauncher

# Says who it is and what it was handed, and ends; ends too when nothing comes.
WAITS = """import json, os, sys
line = sys.stdin.readline()
if line:
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps({**json.loads(line), "pid": os.getpid()}) + "\\n")
"""


class Context:
    def __init__(self, root: Path) -> None:
        self._root = root
        arguments = {
            JobProcessArgs.EXE_MODULE: ("-m", "nvflare.worker"),
            JobProcessArgs.WORKSPACE: ("-m", str(root)),
            JobProcessArgs.JOB_ID: ("-n", "j1"),
            JobProcessArgs.AUTH_TOKEN: ("-t", "secret"),
        }
        self._props = {FLContextKey.JOB_PROCESS_ARGS: arguments, FLContextKey.WORKSPACE_OBJECT: self}

    def get_prop(self, name: str, default: Any = None) -> Any:
        return self._props.get(name, default)

    def get_root_dir(self) -> str:
        return str(self._root)


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PartyLauncher]:
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, kit: str) -> subprocess.Popen[bytes]:
        assert (kind, kit) == ("party", str(tmp_path))
        command = [sys.executable, "-c", WAITS, str(tmp_path / "told")]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))
        return started[-1]

    monkeypatch.setattr(launching, "_start", start)
    made = PartyLauncher()
    made.handle_event(EventType.SYSTEM_START, Context(tmp_path))
    yield made
    made.handle_event(EventType.SYSTEM_END, Context(tmp_path))
    for process in started:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(60)
    assert all(process.returncode in (0, -signal.SIGKILL) for process in started)


def announced(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "told").read_text().splitlines()]


def test_each_job_has_a_process_that_was_there_before_it(launcher: PartyLauncher, tmp_path: Path) -> None:
    pids = []
    for _ in range(2):
        assert launcher._spare is not None
        pids.append(launcher._spare.pid)
        handle = launcher.launch_job({}, Context(tmp_path))
        handle.wait()
        assert handle.poll() == JobReturnCode.SUCCESS
    jobs = announced(tmp_path)
    assert [job["pid"] for job in jobs] == pids and len(set(pids)) == 2
    assert jobs[0]["arguments"] == ["-m", str(tmp_path), "-n", "j1"]
    assert list(jobs[0]["credentials"].values()) == ["secret"]
    assert launcher._spare is not None
    os.kill(launcher._spare.pid, signal.SIGKILL)
    launcher._spare.wait(60)
    handles = [launcher.launch_job({}, Context(tmp_path)) for _ in range(2)]
    for handle in handles:
        handle.wait()
        assert handle.poll() == JobReturnCode.SUCCESS
    assert len({job["pid"] for job in announced(tmp_path)}) == 4


def test_a_spare_process_ends_with_whoever_would_hand_it_a_job() -> None:
    command = [sys.executable, "-m", JOB_PROCESS, "party", "kit"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=60).returncode == 0


def test_every_class_that_a_kit_or_a_job_names_is_there() -> None:
    for path in (*COMPONENTS.values(), *LAUNCHERS.values(), COORDINATOR, MEMBER):
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), name), type), path


def test_a_kit_of_an_earlier_version_is_refused_by_name_and_a_new_one_is_not(tmp_path: Path) -> None:
    earlier = "colonnade.learn.remote.Member"
    kit = make_kit(tmp_path, Root.make(), "bank")
    kit.harden()
    resources = kit.path / "local" / "resources.json"
    now = json.loads(resources.read_text())
    assert {item.get("path") for item in now["components"]} >= {LAUNCHERS["party"], COMPONENTS["party"]}
    assert Kit.load(kit.path).kind == "party"
    for named in ({"class_allow_list": [earlier]}, {"components": [{"id": "presence", "path": earlier}]}):
        resources.write_text(json.dumps({**now, **named}))
        with pytest.raises(KitError, match=f"of an earlier version of Colonnade: it names {earlier}"):
            Kit.load(kit.path)
