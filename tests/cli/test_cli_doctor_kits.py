"""Everything that can be wrong with a kit is found, with what to do, and a kit that is in order passes."""

import datetime
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from certificates import DAY, NOW, Root
from kits import HOST, make_kit
from two_houses import write_party
from typed import untyped

from colonnade.cli import doctor
from colonnade.cli.app import run
from colonnade.cli.party import check_way
from colonnade.ledger import Ledger
from colonnade.sites.kit import Kit

ROOT = Root.make(days=90)


@contextmanager
def listening(folder: Path, root: Root) -> Iterator[int]:
    """Something that answers as this root's server would."""
    kit = make_kit(folder, root, "server", identity=root.issue(HOST, days=60, hosts=(HOST,)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kit.path / "startup" / "server.crt", kit.path / "startup" / "server.key")
    door = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                caller, _ = door.accept()
            except OSError:
                return
            try:
                context.wrap_socket(caller, server_side=True).close()
            except OSError:
                caller.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield int(door.getsockname()[1])
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
        thread.join()


def party_kit(folder: Path, *, port: int, **issued: object) -> Kit:
    """A bank's kit, hardened, with its files, that calls a server at this port."""
    folder.mkdir(exist_ok=True)
    kit = make_kit(folder, ROOT, "bank", identity=ROOT.issue("bank", **untyped({"days": 60, **issued})))
    path = kit.path / "startup" / "fed_client.json"
    config = json.loads(path.read_text())
    config["servers"][0]["service"]["target"] = f"{HOST}:{port}"
    path.write_text(json.dumps(config))
    (kit.path / "startup" / "client.key").chmod(0o600)
    kit.harden()
    kit.tell_site(write_party(folder, "bank"))
    return Kit.load(kit.path)


def problems(kit: Kit, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    code = run(["doctor", str(kit.path), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert code == (0 if said["fine"] else 3)
    looked = "clock certificate key rights server files ledger"
    assert [item["what"] for item in said["findings"]] == looked.split()
    return {item["what"]: item for item in said["findings"] if not item["fine"]}


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    with listening(tmp_path / "there", ROOT) as port:
        yield party_kit(tmp_path, port=port)


def test_a_kit_that_is_in_order_passes(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems(kit, capsys) == {}
    assert run(["doctor", str(kit.path)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "moments, private-messages with shop; ε at most 9 for *, δ at most 1e-05" in words
    Ledger.create(tmp_path / "bank.ledger", "bank")
    assert problems(kit, capsys) == {}


def test_a_clock_that_is_before_the_certificate_or_the_ledger_is_found(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(tmp_path / "bank.ledger", "bank")

    class Earlier(datetime.datetime):
        back = datetime.timedelta(hours=1)

        @classmethod
        def now(cls, zone: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime.now(zone) - cls.back

    shifted = SimpleNamespace(datetime=Earlier, UTC=datetime.UTC, timedelta=datetime.timedelta)
    monkeypatch.setattr(doctor, "datetime", shifted)
    found = problems(kit, capsys)
    assert list(found) == ["clock"] and "the ledger's last entry" in found["clock"]["found"]
    Earlier.back = 400 * DAY
    assert "Set the clock" in problems(kit, capsys)["clock"]["remedy"]


@pytest.mark.parametrize(
    ("issued", "words"),
    [({"days": 20}, "valid for"), ({"start": NOW - 30 * DAY, "days": 29}, "is valid from")],
    ids=["soon", "over"],
)
def test_a_certificate_that_ends_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], issued: dict[str, Any], words: str
) -> None:
    with listening(tmp_path / "there", ROOT) as port:
        found = problems(party_kit(tmp_path, port=port, **issued), capsys)
    assert words in found["certificate"]["found"]
    assert "Ask for a new one" in found["certificate"]["remedy"]


def test_a_certificate_of_another_root_and_a_key_that_others_read_are_found(
    kit: Kit, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = make_kit(tmp_path / "other", Root.make(), "bank")
    for name in ("client.crt", "client.key"):
        shutil.copy(other.path / "startup" / name, kit.path / "startup" / name)
    (kit.path / "startup" / "client.key").chmod(0o644)
    found = problems(kit, capsys)
    assert "not issued by this federation's root" in found["certificate"]["found"]
    assert found["key"]["remedy"].startswith("chmod 600 ")


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("resources.json", {"class_allow_list": ["*"]}),
        ("resources.json", {"class_list_enforcement_mode": "warn"}),
        ("authorization.json", {"permissions": {"lead": {"byoc": "any"}}}),
        ("authorization.json", {"permissions": {"lead": {"shell_commands": "o:site"}}}),
        ("authorization.json", {"permissions": {"project_admin": "any"}}),
    ],
)
def test_a_kit_that_permits_more_than_it_needs_is_found(
    kit: Kit, capsys: pytest.CaptureFixture[str], file: str, change: dict[str, Any]
) -> None:
    path = kit.path / "local" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert "permits more than Colonnade needs" in problems(kit, capsys)["rights"]["found"]


def test_a_server_that_is_not_there_or_not_the_federations_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        found = problems(party_kit(tmp_path / "alone", port=nobody.getsockname()[1]), capsys)
    assert "nothing answers" in found["server"]["found"] and "firewall" in found["server"]["remedy"]
    with listening(tmp_path / "there", Root.make(days=90)) as port:
        found = problems(party_kit(tmp_path / "misled", port=port), capsys)
    assert "not as this federation's server" in found["server"]["found"]


def test_files_and_ledgers_that_are_wrong_are_found(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bank.schema.toml").write_text('id = "id"\ncolumns.bank_0 = {kind = "numeric", low = 0}\n')
    assert "high" in problems(kit, capsys)["files"]["found"]
    write_party(tmp_path, "bank")
    (tmp_path / "bank.ledger").write_bytes(b"no ledger at all")
    assert "bank.ledger" in problems(kit, capsys)["ledger"]["found"]


def test_party_start_says_at_once_what_doctor_would(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it went on")

    monkeypatch.setattr("colonnade.sites.processes.wait_for_server", never)
    # A kit of another federation calls this server.
    with listening(tmp_path / "elsewhere", Root.make()) as port:
        stranger = party_kit(tmp_path / "second", port=port)
        assert run(["party", "start", str(stranger.path)]) == 3
        assert "answers, but not as this federation's server" in capsys.readouterr().err
        expired = party_kit(tmp_path / "third", port=port, start=NOW - 30 * DAY, days=29)
        assert run(["party", "start", str(expired.path)]) == 3
        assert "certificate: bank: its certificate is valid from" in capsys.readouterr().err
    # Nobody is there: it is said before anything is waited for.
    lonely = party_kit(tmp_path / "fourth", port=port)
    check_way(lonely)
    assert f"nothing answers at {HOST}:{port} yet" in capsys.readouterr().err
    check_way(kit)
