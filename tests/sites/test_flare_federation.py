"""Real FLARE: a server and two parties as processes of their own, with kits of their own and mutual TLS."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from certificates import DAY, NOW, Root
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from live_federation import PATIENCE_SECONDS, Live, complaints, free_port, live
from two_houses import MEMBERS, PARTIES, in_process, job_text, margin, policy_text, split, write_party
from typed import untyped

from colonnade.cli.app import run
from colonnade.errors import KitError, RemoteProtocolError
from colonnade.federation.job import Job
from colonnade.federation.train import protocol_of
from colonnade.ledger import Ledger
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.release import MomentRelease
from colonnade.runtime.identity import Identity
from colonnade.sites import provision
from colonnade.sites.kit import MAY, Kit
from colonnade.sites.presence import Presence
from colonnade.sites.processes import Administration, kit_processes, process_group, wait_for_server, write_job

LONGER = split(4000)
# The same claims over the relay in one process: tests/sites/test_taking_part.py.
# What begins with `a_` or `an_` is no test of its own, because starting a federation takes longer than all of it.
pytestmark = pytest.mark.slow


def test_moments_between_processes_are_bit_for_bit_those_of_one_process(tmp_path: Path) -> None:
    # Strangers that connect and say nothing, or nonsense, keep nobody away.
    with live(tmp_path, idle=200) as running:
        job_id = running.submit(job_text())
        assert running.wait(job_id) == "FINISHED:COMPLETED"
        run = in_process().runs[0]
        for member in MEMBERS:
            outcome = running.outcome(member, job_id)
            assert outcome is not None
            assert (outcome["state"], outcome["run"], outcome["reproducible"]) == ("finished", run.name, True)
            kept = MomentRelease.load(running.kits[member].run_folder(job_id) / "release.npz")
            assert np.array_equal(kept.matrix, run.result().matrix)
        assert [running.charges(party) for party in PARTIES] == [1, 1]
        assert not complaints(tmp_path / "kits")
        a_second_process_with_a_kit_is_named_at_both_and_the_older_one_stays(running)
        a_member_that_is_killed_is_named_by_the_others(running)


def a_second_process_with_a_kit_is_named_at_both_and_the_older_one_stays(running: Live) -> None:
    bank, copy = running.kits["bank"], running.folder / "copy"
    keep = shutil.ignore_patterns("console*", "runs", "presence.json", "*.fl", "*-*-*-*-*")
    shutil.copytree(bank.path, copy, ignore=keep)
    began = time.monotonic()
    command = [sys.executable, "-c", "from colonnade.cli import main; main()", "party", "start", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == KitError.exit_code, done.stderr
    assert "bank is connected already, with another copy of this kit" in done.stderr
    assert "Traceback" not in done.stderr

    def announced() -> bool:
        presence = Presence.load(bank.path)
        return presence is not None and bool(presence.others)

    running.until(announced)
    presence = Presence.load(bank.path)
    assert presence is not None and not presence.refused and presence.heard
    assert time.monotonic() - began < PATIENCE_SECONDS
    running.until(lambda: set(running.session.parties()) == set(PARTIES))


def a_member_that_is_killed_is_named_by_the_others(running: Live) -> None:
    job_id = running.submit(job_text(LONGER))
    running.at_step("bank", job_id, "scores 5")
    os.kill(running.job_process("shop", job_id), signal.SIGKILL)
    for member in ("bank", "server"):
        running.until(partial(running.has_ended, member, job_id))
        outcome = running.outcome(member, job_id)
        assert outcome is not None and outcome["state"] == "failed"
        assert "shop" in outcome["reason"] and "step '" in outcome["reason"], outcome


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One federation for the studies below, which all leave it as they found it."""
    with live(tmp_path_factory.mktemp("federation"), seeded=False) as federation:
        yield federation


def test_a_job_that_is_refused_and_is_waited_for_has_an_exit_code(
    running: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(job_text(epsilon=99.0))
    kit = str(running.kits["admin"].path)
    code = run(["job", "submit", str(job), "--kit", kit, "--wait", "--json"])
    ended = json.loads(capsys.readouterr().out)
    assert (code, ended["state"], ended["kind"]) == (7, "failed", "RemoteProtocolError")
    assert "it cannot take part (PrivacyError)" in ended["reason"]
    assert run(["job", "resume", ended["id"], "--kit", kit, "--wait"]) == 7


def test_a_job_that_names_another_class_is_refused(running: Live, tmp_path: Path) -> None:
    write_job(tmp_path, job_text(), name="foreign", parties=PARTIES)
    path = tmp_path / "member" / "config" / "config_fed_client.json"
    config = json.loads(path.read_text())
    config["executors"][0]["executor"] = {
        "path": "subprocess.Popen",
        "args": {"args": ["touch", str(tmp_path / "ran")]},
    }
    path.write_text(json.dumps(config))
    job_id = running.session.submit_folder(tmp_path)
    assert running.wait(job_id) != "FINISHED:COMPLETED"
    assert not (tmp_path / "ran").exists()


def test_a_job_with_code_is_refused(running: Live, tmp_path: Path) -> None:
    write_job(tmp_path, job_text(), name="code", parties=PARTIES)
    code = tmp_path / "member" / "custom"
    code.mkdir()
    (code / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    job_id = running.session.submit_folder(tmp_path)
    assert running.wait(job_id) != "FINISHED:COMPLETED"
    assert not (tmp_path / "ran").exists()
    assert all(running.outcome(member, job_id) is None for member in MEMBERS)


def test_an_administrator_has_no_shell_at_a_party(running: Live) -> None:
    with pytest.raises(Exception, match=r"(?i)not authorized|permission|denied|error"):
        running.session._session.cat_target("bank", file="local/colonnade.json")


def test_an_administrator_may_do_what_its_role_says_and_no_more(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    provision.create_federation(ours, "test", host="localhost", port=free_port())
    kits = {
        what: provision.add_administrator(ours, f"one_who_may_{what}", role=role)
        for what, role in MAY.items()
    }
    with process_group() as begin:
        begin(Kit.load(ours / "server"))
        wait_for_server(kits["view"], timeout=PATIENCE_SECONDS)
        with Administration(kits["submit"], timeout=PATIENCE_SECONDS) as session:
            job_id = session.submit(job_text(), name="test", parties=PARTIES)
        for what in ("stop", "view"):
            with Administration(kits[what], timeout=PATIENCE_SECONDS) as session:
                assert [job["job_id"] for job in session.jobs()] == [job_id]
                with pytest.raises(RemoteProtocolError, match="the job was not accepted"):
                    session.submit(job_text(), name="test", parties=PARTIES)
        with (
            Administration(kits["view"], timeout=PATIENCE_SECONDS) as session,
            pytest.raises(RemoteProtocolError, match="cannot be stopped"),
        ):
            session.stop(job_id)
        with Administration(kits["stop"], timeout=PATIENCE_SECONDS) as session:
            session.stop(job_id)
        an_administrator_who_is_excluded_is_refused_at_once(ours, kits["submit"], kits["view"])


def an_administrator_who_is_excluded_is_refused_at_once(ours: Path, excluded: Kit, another: Kit) -> None:
    with Administration(excluded, timeout=PATIENCE_SECONDS) as session:
        assert session.jobs()
        assert run(["federation", "exclude", str(ours), "one_who_may_submit", "--administrator"]) == 0
        with pytest.raises(RemoteProtocolError, match="was excluded from this federation"):
            session.submit(job_text(), name="test", parties=PARTIES)
    with pytest.raises(RemoteProtocolError, match="refused"), Administration(excluded, timeout=30):
        pass
    with Administration(another, timeout=PATIENCE_SECONDS) as session:
        assert session.jobs()
    with pytest.raises(KitError, match="under another name"):
        provision.add_administrator(ours, "one_who_may_submit", role=MAY["submit"])


def test_a_party_that_is_excluded_is_sent_away_at_once_and_stays_out(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    invitation = provision.create_federation(ours, "test", host="localhost", port=free_port())
    kits: dict[str, Kit] = {"server": Kit.load(ours / "server"), "admin": Kit.load(ours / "admin")}
    for party in PARTIES:
        described = {"name": party, "type": "client", "org": party}
        request = provision.ask_for_kit(tmp_path / party / "request", invitation, described)
        signed = tmp_path / f"{party}.signed.zip"
        provision.approve_party(ours, request, signed, key=provision.CertificateRequest.load(request).key)
        kits[party] = provision.make_kit(
            signed, request.parent, tmp_path / party / "kit", root=invitation.root
        )
        kits[party].tell_site(write_party(tmp_path, party))

    def sent_away() -> bool:
        presence = Presence.load(kits["shop"].path)
        return presence is not None and "shop was excluded from this federation" in presence.refused

    with process_group() as begin:
        running = Live(tmp_path, kits, begin)
        running.start("server")
        wait_for_server(kits["admin"], timeout=PATIENCE_SECONDS)
        with running.session_again():
            running.start(*PARTIES)
            a_job_runs_once_two_administrators_have_signed_it(
                running, provision.add_administrator(ours, "eve", role="lead")
            )
            provision.exclude(ours, "shop")
            running.until(sent_away)
            running.until(lambda: running.session.parties() == ["bank"])
            for process in kit_processes(kits["shop"]):
                process.kill()
            running.until(lambda: not kit_processes(kits["shop"]))
            process = begin(kits["shop"])
            running.until(lambda: process.poll() is not None)
            assert sent_away() and running.session.parties() == ["bank"]


def a_job_runs_once_two_administrators_have_signed_it(running: Live, eve: Kit) -> None:
    (running.folder / "bank.policy.toml").write_text(f'submission = "two"\n{policy_text("bank")}')
    job, admin = running.folder / "job.toml", ["--kit", str(running.kits["admin"].path)]
    job.write_text(job_text())
    alone = running.submit(job_text())
    assert running.wait(alone) != "FINISHED:COMPLETED"
    assert "two administrators are to submit every job" in (running.outcome("bank", alone) or {})["reason"]
    assert run(["job", "propose", str(job), *admin]) == 0
    signed = str(running.folder / "job.proposal.json")
    assert run(["job", "confirm", signed, "--wait", *admin]) == KitError.exit_code
    assert run(["job", "confirm", signed, "--wait", "--kit", str(eve.path)]) == 0
    assert [running.charges(party) for party in PARTIES] == [1, 1]
    by = [decision.by for decision in Ledger.open(running.folder / "bank.ledger").decisions()]
    assert by == ["admin@colonnade.local", "eve@colonnade.local"]


OURS, FOREIGN = Root.make(), Root.make()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    """A server that runs alone, under a root that the tests can issue certificates of."""
    folder = tmp_path_factory.mktemp("guarded")
    _, kits = provision.all_kits(folder / "kits", "test", PARTIES, host="localhost", port=free_port())
    startup, server = kits["server"].path / "startup", OURS.issue("localhost", hosts=("localhost",))
    (startup / "server.crt").write_bytes(server.certificate.public_bytes(Encoding.PEM))
    (startup / "server.key").write_bytes(pem_of(server))
    (startup / "rootCA.pem").write_bytes(OURS.certificate.public_bytes(Encoding.PEM))
    with process_group() as begin:
        begin(kits["server"])
        wait_for_server(kits["server"], timeout=PATIENCE_SECONDS)
        yield kits["server"]


def pem_of(identity: Identity) -> bytes:
    return identity._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("shown", "trusted"),
    [
        (OURS.issue("bank"), True),
        (FOREIGN.issue("bank"), False),
        (OURS.issue("bank", start=NOW - 9 * DAY, days=8), False),
        (OURS.issue("bank", start=NOW + DAY), False),
        (None, False),
    ],
    ids=["its own", "a foreign root", "expired", "not valid yet", "no certificate"],
)
def test_the_server_talks_to_nobody_without_a_good_certificate_of_its_root(
    guarded: Kit, tmp_path: Path, shown: Identity | None, trusted: bool
) -> None:
    context = ssl.create_default_context(cafile=str(guarded.path / "startup" / "rootCA.pem"))
    # A gRPC server also ends a connection, whoever opened it, that does not ask for HTTP/2.
    context.set_alpn_protocols(["h2"])
    if shown is not None:
        (tmp_path / "k").write_bytes(pem_of(shown) + shown.certificate.public_bytes(Encoding.PEM))
        context.load_cert_chain(tmp_path / "k")
    with socket.create_connection(guarded.address, 60) as plain:
        plain.settimeout(60)
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as sealed:
                # Under TLS 1.3 a client learns that its certificate was refused when it first reads.
                sealed.settimeout(60)
                accepted = bool(sealed.recv(1))
        except TimeoutError:
            accepted = True
        except (ssl.SSLError, ConnectionError):
            accepted = False
    assert accepted is trusted


def test_margin_descent_goes_on_after_a_kill_to_the_weights_of_one_process(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        for party in PARTIES:
            accepted = policy_text(party, methods='["margin"]', epsilon=99.0)
            (tmp_path / f"{party}.policy.toml").write_text(accepted)
        text = job_text(margin(200), epsilon=4.0)
        job_id = running.submit(text)
        running.at_step("bank", job_id, "gradient 20")
        os.kill(running.job_process("shop", job_id), signal.SIGKILL)
        assert running.wait(job_id) != "FINISHED:COMPLETED"
        again = running.submit(text, resumes=job_id)
        assert running.wait(again) == "FINISHED:COMPLETED"
        job, run = Job.parse(text), in_process(text=text).runs[0]
        wanted = protocol_of(job).model(job.spec, run.outcome.results)
        for member in MEMBERS:
            assert (running.outcome(member, again) or {})["run"] == run.name
            kept = ModelFile.load(running.kits[member].run_folder(again) / "model.json")
            assert np.array_equal(kept.weights, untyped(wanted).coefficients)
        assert [running.charges(party) for party in PARTIES] == [1, 1]


def test_a_whole_site_that_is_killed_stops_the_job_and_may_come_back(running: Live) -> None:
    job_id = running.submit(job_text(LONGER))
    running.at_step("bank", job_id, "scores 20")
    for process in kit_processes(running.kits["shop"]):
        process.kill()
    assert running.wait(job_id) != "FINISHED:COMPLETED"
    running.until(lambda: running.outcome("bank", job_id) is not None)
    outcome = running.outcome("bank", job_id)
    assert outcome is not None and re.search(
        r"shop( stopped: its process)? cannot be reached", outcome["reason"]
    )
    assert not re.search(r"connection|nor did|stopped by its server", outcome["reason"]), outcome
    running.until(lambda: not kit_processes(running.kits["shop"]))
    running.start("shop")
    again = running.submit(job_text(LONGER), resumes=job_id)
    assert running.wait(again) == "FINISHED:COMPLETED"


def test_a_job_that_is_stopped_ends_everywhere_and_says_so(running: Live) -> None:
    job_id = running.submit(job_text(LONGER))
    running.at_step("bank", job_id, "scores 20")
    running.session.stop(job_id)
    assert running.wait(job_id) == "FINISHED:ABORTED"
    running.until(lambda: running.outcome("bank", job_id) is not None)
    outcome = running.outcome("bank", job_id)
    assert outcome is not None and outcome["state"] == "failed"


def test_every_row_of_the_fault_table_ends_right_or_named_and_is_charged_once(
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    command = [sys.executable, str(Path(__file__).parents[2] / "benchmarks" / "operations.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    record_testsuite_property("operations", figures)
    assert figures["faults_right_or_named"] == figures["faults_tried"] == 13, done.stderr
    assert (figures["failed_jobs"], figures["double_charges"]) == (0, 0)
