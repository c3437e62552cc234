"""What Prometheus is told of a member: what its logs add up to, on loopback, and nothing else."""

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from certificates import Root
from job_processes import job_at_work
from kits import make_kit

from colonnade.cli import party as party_metrics
from colonnade.cli.party import LOOPBACK, Tally, served, served_if_free
from colonnade.errors import InputError
from colonnade.sites.kit import Kit


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return make_kit(tmp_path, Root.make(), "bank")


def note(kit: Kit, job: str, *, sent: int, state: str = "", torn: str = "") -> None:
    folder = kit.run_folder(job)
    folder.mkdir(parents=True, exist_ok=True)
    line = {"step": "columns 0", "sent": sent, "received": 2 * sent, "seconds": 0.5}
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n" + torn)
    if state:
        (folder / "outcome.json").write_text(json.dumps({"state": state, "reason": "a secret reason"}))


def announced(tally: Tally) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in tally.text().splitlines() if not line.startswith("#")]
    return {
        name.replace('{member="bank"', "{").replace("{,", "{").replace("{}", ""): float(value)
        for name, _, value in lines
    }


def test_totals_are_those_of_the_logs_and_grow_with_them(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(kit)
    before = announced(tally)
    assert {before[name] for name in before if "_total" in name or "jobs" in name} == {0.0}
    monkeypatch.setattr(party_metrics, "_FRESH_SECONDS", 0.0)
    note(kit, "j1", sent=10, state="finished")
    note(kit, "j2", sent=5, torn='{"step": "no')
    with job_at_work(kit, "j2"):
        found = announced(tally)
    assert found["colonnade_steps_total"] == 2
    assert found["colonnade_sent_bytes_total"] == 15
    assert found["colonnade_received_bytes_total"] == 30
    assert found["colonnade_step_seconds_total"] == 1.0
    assert found['colonnade_jobs{state="finished"}'] == 1
    assert found['colonnade_jobs{state="running"}'] == 1
    with (kit.run_folder("j2") / "log.jsonl").open("a") as log:
        log.write('ise", "sent": 1, "received": 0, "seconds": 0.25}\n')
    (kit.run_folder("j2") / "outcome.json").write_text('{"state": "failed", "reason": "a secret reason"}')
    found = announced(tally)
    assert (found["colonnade_steps_total"], found["colonnade_sent_bytes_total"]) == (3, 16)
    assert found['colonnade_jobs{state="failed"}'] == 1
    assert "secret" not in tally.text()


def test_it_is_served_on_loopback_under_two_paths(kit: Kit) -> None:
    note(kit, "j1", sent=10)
    with served(Tally(kit), 0) as port:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"colonnade_sent_bytes_total" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{LOOPBACK}:{port}/runs/j1/outcome.json", timeout=60)
        with pytest.raises(InputError, match=rf"port {port} cannot be had"), served(Tally(kit), port):
            pass


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

    with served(Tally(kit), 0) as port:
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
    with served(Tally(kit), 0) as port, served_if_free(kit, port):
        ran.append(port)
    assert ran and f"port {port} cannot be had" in capsys.readouterr().err
    with served_if_free(kit, port):
        address = f"http://{LOOPBACK}:{port}/metrics"
        assert b"colonnade_up" in urllib.request.urlopen(address, timeout=60).read()
