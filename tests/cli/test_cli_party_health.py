"""A member's health is what its server, its files and its clock say, and alarms are about numbers that are served."""

import datetime
import errno
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import yaml
from certificates import Root
from cli_project import Cli
from job_processes import job_at_work
from kits import make_kit
from two_houses import write_party

from colonnade.cli.app import run
from colonnade.cli.party import LOOPBACK, served
from colonnade.ledger import Ledger
from colonnade.runtime.journal import Journal
from colonnade.sites import health as measured
from colonnade.sites.health import reconcile
from colonnade.sites.kit import Kit
from colonnade.sites.presence import Presence, copy_of, now

ALERTS = Path(__file__).parents[2] / "docs" / "operate" / "alerts.yml"
ROOT = Root.make(days=400)
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """A party that its server has just heard."""
    made = make_kit(tmp_path / "kits", ROOT, "bank", identity=ROOT.issue("bank", days=300))
    made.tell_site(write_party(tmp_path, "bank"))
    Ledger.create(tmp_path / "bank.ledger", "bank")
    heard(made)
    return made


def heard(kit: Kit, *, seconds_ago: float = 0.0, **more: Any) -> None:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
    Presence(copy_of(kit.path), now(), then.isoformat(), **more).save(kit.path)


def announced(kit: Kit, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = run(["party", "health", str(kit.path), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_party_that_was_heard_is_well(kit: Kit, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = announced(kit, capsys)
    assert (code, facts["fine"], facts["connected"], facts["problems"]) == (0, True, True, [])
    assert facts["jobs"] == {"finished": 0, "failed": 0, "running": 0, "waiting": 0}
    assert re.match(r"bank is connected, heard \d+ s ago\n", cli("party", "health", str(kit.path)))


def test_a_partition_a_copy_a_certificate_a_ledger_and_a_disk_are_each_named(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard(kit, seconds_ago=60)
    code, facts = announced(kit, capsys)
    assert (code, facts["connected"]) == (3, False)
    assert "the server last heard this party 60 s ago" in facts["problems"][0]
    heard(kit, others=("2030-01-01T09:12:00+00:00",))
    assert (
        "another copy of this kit was started at 2030-01-01T09:12" in announced(kit, capsys)[1]["problems"][0]
    )
    heard(kit, refused="bank is connected already")
    assert announced(kit, capsys)[1]["problems"] == ["bank is connected already."]
    heard(kit)
    monkeypatch.setattr(measured, "LEAST_DAYS", 500)
    assert re.match(r"the certificate ends in 29\d days", announced(kit, capsys)[1]["problems"][0])
    monkeypatch.setattr(measured, "LEAST_DAYS", 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, 1 << 20))
    assert "1 MB of disk are free" in announced(kit, capsys)[1]["problems"][0]
    monkeypatch.undo()
    (tmp_path / "bank.ledger").write_bytes(b"nothing")
    code, facts = announced(kit, capsys)
    assert code == 3 and facts["ledger_verified"] is None and "bank.ledger" in facts["problems"][0]


def test_a_job_runs_while_it_has_a_process_and_is_a_problem_when_that_ended_without_a_word(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = "596ca27d-8325-4ccd-bb80-460765e4591c"
    kit.run_folder(job).mkdir(parents=True)
    status = ["job", "status", job, "--kit", str(kit.path)]
    with job_at_work(kit, job):
        code, facts = announced(kit, capsys)
        assert (code, facts["problems"], facts["jobs"]["running"], facts["jobs"]["failed"]) == (0, [], 1, 0)
        assert reconcile(kit) == ()
        assert run(status) == 0 and capsys.readouterr().out.split() == [job, "running"]
    code, facts = announced(kit, capsys)
    assert (code, facts["jobs"]["running"], facts["jobs"]["failed"]) == (3, 0, 1)
    assert job in facts["problems"][0] and "without a word" in facts["problems"][0]
    assert run(status) == 0 and "ended without a word" in capsys.readouterr().out
    with monkeypatch.context() as full:
        full.setattr(measured, "write_sealed", no_room)
        assert reconcile(kit) == ()
    assert reconcile(kit) == (job,)
    code, facts = announced(kit, capsys)
    assert (code, facts["problems"], facts["jobs"]["failed"]) == (0, [], 1)


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_fullest_of_the_disks_that_a_member_writes_to_is_the_one_that_counts(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs, or the ledger, may lie on a disk of their own."""
    kit.runs.mkdir(exist_ok=True)
    for full in (kit.runs, tmp_path):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda path, full=full: Usage(1 << 40, 0, 0 if path == full else 1 << 40)
        )
        code, facts = announced(kit, capsys)
        assert (code, facts["free_disk"]) == (3, 0)
        assert facts["problems"][0].startswith(f"0 MB of disk are free at {full}.")


def test_alarms_are_about_numbers_that_are_served_and_the_probe_has_a_code(kit: Kit) -> None:
    with served(kit, 0) as port:
        text = urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=60).read().decode()
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=60) as answer:
            assert json.loads(answer.read())["fine"] is True
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{LOOPBACK}:{port}/runs/j1/outcome.json", timeout=60)
    assert 'colonnade_jobs{member="bank",state="failed"} 0' in text
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"colonnade_\w+", rule["expr"])}
    assert len(rules) == 9 and named <= set(re.findall(r"^(colonnade_\w+)", text, re.MULTILINE))
    # A number that is absent is absent at everybody: one member that is gone is a target that does not answer.
    down = next(rule for rule in rules if rule["alert"] == "ColonnadeDown")
    assert down["expr"] == 'up{job="colonnade"} == 0' and not named & {
        name for rule in rules for name in re.findall(r"absent\((colonnade_\w+)", rule["expr"])
    }
    heard(kit, seconds_ago=60)
    with served(kit, 0) as port, pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=60)
    assert error.value.code == 503


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/"])
def test_whoever_asks_under_another_name_is_refused(kit: Kit, path: str) -> None:
    """A page elsewhere can make a name of its own lead here, and read what its browser is told."""

    def requested(port: int, *hosts: str) -> tuple[int, bytes, str | None]:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
        connection.putrequest("GET", path, skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers["Cross-Origin-Resource-Policy"]

    with served(kit, 0) as port:
        for name in (LOOPBACK, "localhost", "[::1]"):
            status, _, policy = requested(port, f"{name}:{port}")
            assert status != 403 and policy == "same-origin"
        own = f"{LOOPBACK}:{port}"
        for hosts in (
            (),
            ("evil.example",),
            (f"evil.example:{port}",),
            (LOOPBACK,),
            (own, "evil.example"),
            (own, own),
        ):
            status, body, _ = requested(port, *hosts)
            assert status == 403 and b"bank" not in body and b"colonnade_" not in body


def test_a_busy_port_is_said_and_does_not_end_the_member(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []
    with served(kit, 0) as port, served(kit, port):
        ran.append(port)
    assert ran and f"port {port} cannot be had" in capsys.readouterr().err
    with served(kit, port):
        address = f"http://{LOOPBACK}:{port}/metrics"
        assert b"colonnade_up" in urllib.request.urlopen(address, timeout=60).read()


def test_records_of_runs_that_failed_are_destroyed_after_the_days_that_the_party_says(
    kit: Kit, tmp_path: Path, cli: Cli
) -> None:
    now = time.time()
    for job, state, days in (("old", "failed", 40), ("new", "failed", 20), ("done", "finished", 40)):
        record = kit.run_folder(job) / "journal"
        Journal.begin(record).close()
        assert {oct(path.stat().st_mode & 0o777) for path in record.iterdir()} == {"0o600"}
        outcome = kit.run_folder(job) / "outcome.json"
        outcome.write_text(json.dumps({"state": state}))
        os.utime(outcome, (now - days * 86400, now - days * 86400))
    Journal.begin(kit.run_folder("running") / "journal").close()
    assert (
        "would destroy" in cli("party", "clean", str(kit.path), "--dry-run")
        and (kit.run_folder("old") / "journal").exists()
    )
    destroyed = cli.facts("party", "clean", str(kit.path))["destroyed"]
    assert destroyed == [str(kit.run_folder("old") / "journal")]
    left = {path.parent.name for path in kit.runs.glob("*/journal")}
    assert left == {"new", "done", "running"}
    text = (tmp_path / "bank.toml").read_text()
    (tmp_path / "bank.toml").write_text(f"record_days = 10\n{text}")
    assert run(["party", "clean", str(kit.path)]) == 0
    assert not (kit.run_folder("new") / "journal").exists()
    (tmp_path / "bank.toml").write_text(f"record_days = -1\n{text}")
    assert "record_days: found -1.0; it must be a number of days" in cli(
        "party", "clean", str(kit.path), code=3
    )


def test_what_flare_keeps_of_jobs_that_ended_and_keys_that_were_renewed_go_too(kit: Kit, cli: Cli) -> None:
    old, new, running, refused = (f"{number}96ca27d-8325-4ccd-bb80-460765e4591c" for number in range(4))
    then = time.time() - 40 * 86400
    for job in (old, new, running, refused):
        for folder in (kit.path / job, kit.path / "jobs" / job):
            folder.mkdir(parents=True)
            (folder / "log.txt").write_text("")
            if job != new:
                os.utime(folder, (then, then))
        if job != refused:
            kit.run_folder(job).mkdir(parents=True)
        if job in (old, new):
            (kit.run_folder(job) / "outcome.json").write_text('{"state": "finished"}')
    before = kit.path / "startup.before"
    before.mkdir()
    (before / "client.key").write_text("a key that is good until its certificate ends")
    destroyed = cli.facts("party", "clean", str(kit.path))["destroyed"]
    gone = {str(kit.path / job) for job in (old, refused)} | {
        str(kit.path / "jobs" / job) for job in (old, refused)
    }
    assert set(destroyed) == gone | {str(before)}
    assert not before.exists() and not any(Path(path).exists() for path in destroyed)
    assert all((kit.path / job / "log.txt").exists() for job in (new, running))
    assert kit.run_folder(old).exists() and (kit.path / "local").exists()
